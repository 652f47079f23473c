// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/proto"
)

func zoneOut(z dns.Zone) *proto.DNSZone {
	return &proto.DNSZone{Id: z.ID, Name: z.Name, NameServers: z.NameServers, Idle: z.Idle}
}

func zoneIn(z *proto.DNSZone) dns.Zone {
	return dns.Zone{ID: z.GetId(), Name: z.GetName(), NameServers: z.GetNameServers(), Idle: z.GetIdle()}
}

func recordSetOut(s dns.RRSet) *proto.RecordSet {
	return &proto.RecordSet{
		Name: s.Name, Type: string(s.Type), Ttl: int64(s.TTL),
		Values: each(s.Values, func(v string) []byte { return []byte(v) }),
	}
}

func recordSetIn(s *proto.RecordSet) dns.RRSet {
	return dns.RRSet{
		Name: s.GetName(), Type: dns.Type(s.GetType()), TTL: int(s.GetTtl()),
		Values: each(s.GetValues(), func(v []byte) string { return string(v) }),
	}
}

func recordSetsOut(sets []dns.RRSet) *proto.RecordSets {
	return &proto.RecordSets{Sets: each(sets, recordSetOut)}
}

func changeOut(c dns.Change) *proto.RecordSetChange {
	return &proto.RecordSetChange{Before: recordSetOut(c.Before), After: recordSetOut(c.After)}
}

func changeIn(c *proto.RecordSetChange) dns.Change {
	return dns.Change{Before: recordSetIn(c.GetBefore()), After: recordSetIn(c.GetAfter())}
}
