// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// DNS is a DNS provider behind a plugin process.
func DNS(open Opener) ports.DNSProvider { return dnsClient{open} }

type dnsClient struct{ open Opener }

// dnsRPC is one method of the generated client.
type dnsRPC[Q, A any] func(proto.DNSProviderClient, context.Context, *Q, ...grpc.CallOption) (*A, error)

func callDNS[Q, A any](ctx context.Context, c dnsClient, method dnsRPC[Q, A], q func(*proto.Connection) *Q) (*A, error) {
	return during(ctx, c.open, func(ctx context.Context, s Session) (*A, error) {
		return method(proto.NewDNSProviderClient(s.Process.conn), ctx, q(connectionOut(s.Connection)))
	})
}

func (c dnsClient) Check(ctx context.Context) (int, error) {
	a, err := callDNS(ctx, c, proto.DNSProviderClient.Check, func(c *proto.Connection) *proto.DNSCheckRequest {
		return &proto.DNSCheckRequest{Connection: c}
	})
	return int(a.GetZones()), err
}

func (c dnsClient) Zone(ctx context.Context, name string) (dns.Zone, error) {
	a, err := callDNS(ctx, c, proto.DNSProviderClient.Zone, func(c *proto.Connection) *proto.ZoneRequest {
		return &proto.ZoneRequest{Connection: c, Name: name}
	})
	return zoneIn(a), err
}

func (c dnsClient) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	a, err := callDNS(ctx, c, proto.DNSProviderClient.Records, func(c *proto.Connection) *proto.ZoneRecordsRequest {
		return &proto.ZoneRecordsRequest{Connection: c, Zone: zoneOut(zone)}
	})
	return each(a.GetSets(), recordSetIn), err
}

func (c dnsClient) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	a, err := callDNS(ctx, c, proto.DNSProviderClient.Apply, func(c *proto.Connection) *proto.ApplyRequest {
		return &proto.ApplyRequest{Connection: c, Zone: zoneOut(zone), Changes: each(changes, changeOut)}
	})
	return each(a.GetSets(), recordSetIn), err
}
