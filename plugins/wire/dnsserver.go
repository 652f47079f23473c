// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// dnsServer calls the author's code.
type dnsServer struct {
	proto.UnimplementedDNSProviderServer
	provider func(Connection) (ports.DNSProvider, error)
}

// asked makes the provider for one call and runs it.
func asked[T, A any](s *dnsServer, c *proto.Connection, do func(ports.DNSProvider) (T, error), out func(T) *A) (*A, error) {
	p, err := s.provider(connectionIn(c))
	if err != nil {
		return nil, toStatus(err)
	}
	t, err := do(p)
	if err != nil {
		return nil, toStatus(err)
	}
	return out(t), nil
}

func (s *dnsServer) Check(ctx context.Context, q *proto.DNSCheckRequest) (*proto.DNSReach, error) {
	return asked(s, q.GetConnection(), func(p ports.DNSProvider) (int, error) { return p.Check(ctx) },
		func(zones int) *proto.DNSReach { return &proto.DNSReach{Zones: int64(zones)} })
}

func (s *dnsServer) Zone(ctx context.Context, q *proto.ZoneRequest) (*proto.DNSZone, error) {
	return asked(s, q.GetConnection(), func(p ports.DNSProvider) (dns.Zone, error) { return p.Zone(ctx, q.GetName()) }, zoneOut)
}

func (s *dnsServer) Records(ctx context.Context, q *proto.ZoneRecordsRequest) (*proto.RecordSets, error) {
	return asked(s, q.GetConnection(), func(p ports.DNSProvider) ([]dns.RRSet, error) {
		return p.Records(ctx, zoneIn(q.GetZone()))
	}, recordSetsOut)
}

func (s *dnsServer) Apply(ctx context.Context, q *proto.ApplyRequest) (*proto.RecordSets, error) {
	return asked(s, q.GetConnection(), func(p ports.DNSProvider) ([]dns.RRSet, error) {
		return p.Apply(ctx, zoneIn(q.GetZone()), each(q.GetChanges(), changeIn))
	}, recordSetsOut)
}
