// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// signingTypes are the record types that a server with DNSSEC signing maintains itself.
var signingTypes = []uint16{
	wire.TypeRRSIG, wire.TypeNSEC, wire.TypeNSEC3, wire.TypeNSEC3PARAM, wire.TypeDNSKEY, wire.TypeCDS, wire.TypeCDNSKEY,
	65534, // the state of the signing in BIND
}

// Check implements sdk.DNSProvider. It transfers every zone in the connection's setting `zones`.
func (p *provider) Check(ctx context.Context) (int, error) {
	for _, zone := range p.zones {
		if _, err := p.Zone(ctx, zone); sdk.IsNoZone(err) {
			return 0, sdk.NotServed("zones", "the server does not serve one of these zones")
		} else if err != nil {
			return 0, err
		}
	}
	return len(p.zones), nil
}

// Zone implements sdk.DNSProvider. It also returns sdk.NoZone for a zone that is not in the
// connection's setting `zones`.
func (p *provider) Zone(ctx context.Context, name string) (sdk.Zone, error) {
	if !slices.Contains(p.zones, sdk.PlainName(name)) {
		return sdk.Zone{}, sdk.NoZone()
	}
	zone := sdk.Zone{ID: sdk.PlainName(name), Name: sdk.PlainName(name)}
	sets, err := p.Records(ctx, zone)
	zone.NameServers = sdk.FindSet(sets, zone.Name, sdk.NS).Values
	return zone, err
}

// Records implements sdk.DNSProvider.
func (p *provider) Records(ctx context.Context, zone sdk.Zone) ([]sdk.RRSet, error) {
	records, err := p.transfer(ctx, zone.Name)
	if err != nil {
		return nil, err
	}
	return recordSets(zone.Name, records)
}

// recordSets groups records by name and type. It omits signingTypes, and records that a server
// sends although they are outside the zone.
func recordSets(zone string, records []wire.RR) ([]sdk.RRSet, error) {
	var sets []sdk.RRSet
	index := map[string]int{}
	for _, rr := range records {
		if slices.Contains(signingTypes, rr.Header().Rrtype) {
			continue
		}
		set := sdk.RRSet{Name: sdk.PlainName(rr.Header().Name), Type: sdk.RecordType(typeOf(rr)), TTL: int(rr.Header().Ttl)}
		if !set.InZone(zone) {
			continue
		}
		value, err := valueOf(rr)
		if err != nil {
			return nil, sdk.BrokenAnswer("content_of_" + typeOf(rr))
		}
		key := setKey(rr)
		i, ok := index[key]
		if !ok {
			i = len(sets)
			index[key] = i
			sets = append(sets, set)
		}
		sets[i].Values = append(sets[i].Values, value)
	}
	return sets, nil
}

func typeOf(rr wire.RR) string { return wire.Type(rr.Header().Rrtype).String() }

// setKey returns the name and type, which identify the record set.
func setKey(rr wire.RR) string { return sdk.PlainName(rr.Header().Name) + " " + typeOf(rr) }

// valueOf returns the content of a record in the format of sdk.RRSet.
func valueOf(rr wire.RR) (string, error) {
	return sdk.ReadContent(sdk.RecordType(typeOf(rr)), strings.TrimPrefix(rr.String(), rr.Header().String()))
}
