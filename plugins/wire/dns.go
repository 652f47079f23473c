// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// DNSClient returns a DNS provider whose methods call a plugin process through the interceptors.
// The first interceptor is the outermost.
func DNSClient(open Opener, interceptors ...Interceptor) ports.DNSProvider {
	return newDNSClient(chain{open: open, probeOf: dnsProbe, interceptors: interceptors})
}

// dnsProbe is the probeOf of DNS providers. Its call reads the zone that the write changes.
func dnsProbe(write protobuf.Message) (method string, request, reply protobuf.Message) {
	apply, _ := write.(*proto.ApplyRequest)
	return proto.DNSProvider_Zone_FullMethodName, &proto.ZoneRequest{Name: apply.GetZone().GetName()}, new(proto.DNSZone)
}

type dnsClient struct {
	chain chain
	rpc   proto.DNSProviderClient
}

func newDNSClient(c chain) dnsClient { return dnsClient{c, proto.NewDNSProviderClient(c)} }

func (c dnsClient) Check(ctx context.Context) (int, error) {
	resp, err := c.rpc.Check(ctx, &proto.DNSCheckRequest{})
	return int(resp.GetZones()), err
}

func (c dnsClient) Zone(ctx context.Context, name string) (dns.Zone, error) {
	resp, err := c.rpc.Zone(ctx, &proto.ZoneRequest{Name: name})
	return zoneFromProto(resp), err
}

func (c dnsClient) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	resp, err := c.rpc.Records(ctx, &proto.ZoneRecordsRequest{Zone: zoneToProto(zone)})
	return convertList(resp.GetSets(), recordSetFromProto), err
}

func (c dnsClient) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	resp, err := c.rpc.Apply(ctx, &proto.ApplyRequest{Zone: zoneToProto(zone), Changes: convertList(changes, changeToProto)})
	return convertList(resp.GetSets(), recordSetFromProto), err
}

// dnsServer implements the gRPC service DNSProvider. newProvider creates the author's
// implementation for a connection.
type dnsServer struct {
	proto.UnimplementedDNSProviderServer
	newProvider func(Connection) (ports.DNSProvider, error)
}

func (s *dnsServer) Check(ctx context.Context, req *proto.DNSCheckRequest) (*proto.DNSReach, error) {
	return serveCall(s.newProvider, req.GetConnection(), func(p ports.DNSProvider) (int, error) { return p.Check(ctx) },
		func(zones int) *proto.DNSReach { return &proto.DNSReach{Zones: int64(zones)} })
}

func (s *dnsServer) Zone(ctx context.Context, req *proto.ZoneRequest) (*proto.DNSZone, error) {
	return serveCall(s.newProvider, req.GetConnection(), func(p ports.DNSProvider) (dns.Zone, error) { return p.Zone(ctx, req.GetName()) }, zoneToProto)
}

func (s *dnsServer) Records(ctx context.Context, req *proto.ZoneRecordsRequest) (*proto.RecordSets, error) {
	return serveCall(s.newProvider, req.GetConnection(), func(p ports.DNSProvider) ([]dns.RRSet, error) {
		return p.Records(ctx, zoneFromProto(req.GetZone()))
	}, recordSetsToProto)
}

func (s *dnsServer) Apply(ctx context.Context, req *proto.ApplyRequest) (*proto.RecordSets, error) {
	return serveCall(s.newProvider, req.GetConnection(), func(p ports.DNSProvider) ([]dns.RRSet, error) {
		return p.Apply(ctx, zoneFromProto(req.GetZone()), convertList(req.GetChanges(), changeFromProto))
	}, recordSetsToProto)
}
