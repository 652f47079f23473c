// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

func ttl(seconds int, s dns.RRSet) dns.RRSet {
	s.TTL = seconds
	return s
}

func TestOutstanding(t *testing.T) {
	spf, managed, merged := set("a.test", dns.TXT, "v=spf1 -all"), set("a.test", dns.TXT, "MS=1", "v=spf1 -all"), set("A.test.", dns.TXT, "v=spf1 -all", "MS=1")
	host, none := set("_dmarc.a.test", dns.CNAME, "vendor.test"), set("_dmarc.a.test", dns.CNAME)
	text := set("_dmarc.a.test", dns.TXT, "v=DMARC1")
	for _, tt := range []struct {
		name    string
		now     []dns.RRSet
		changes []dns.Change
		want    []dns.Change
		changed bool
	}{
		{"as planned", []dns.RRSet{spf}, []dns.Change{{Before: spf, After: managed}}, []dns.Change{{Before: spf, After: managed}}, false},
		{"there already, in another order and spelling", []dns.RRSet{merged}, []dns.Change{{Before: spf, After: managed}}, nil, false},
		{"moved", []dns.RRSet{set("a.test", dns.TXT, "other")}, []dns.Change{{Before: spf, After: managed}}, nil, true},
		{"gone", nil, []dns.Change{{Before: spf, After: managed}}, nil, true},
		{"somebody made it first", []dns.RRSet{text}, []dns.Change{{Before: set("_dmarc.a.test", dns.TXT), After: set("_dmarc.a.test", dns.TXT, "mine")}}, nil, true},
		{"one of two moved", []dns.RRSet{spf, text}, []dns.Change{
			{Before: spf, After: managed}, {Before: set("_dmarc.a.test", dns.TXT), After: set("_dmarc.a.test", dns.TXT, "mine")},
		}, nil, true},
		{"a value twice is not the same as once", []dns.RRSet{set("a.test", dns.TXT, "x", "x")}, []dns.Change{
			{Before: set("a.test", dns.TXT, "x", "y"), After: set("a.test", dns.TXT, "x")},
		}, nil, true},
		{"the TTL that nobody planned to change stays", []dns.RRSet{ttl(60, spf)},
			[]dns.Change{{Before: ttl(300, spf), After: ttl(300, managed)}}, []dns.Change{{Before: ttl(60, spf), After: ttl(60, managed)}}, false},
		{"a TTL that was planned", []dns.RRSet{ttl(60, spf)},
			[]dns.Change{{Before: ttl(60, spf), After: ttl(300, managed)}}, []dns.Change{{Before: ttl(60, spf), After: ttl(300, managed)}}, false},
		{"a CNAME beside what came meanwhile", []dns.RRSet{text}, []dns.Change{{Before: none, After: host}}, nil, true},
		{"beside a CNAME that came meanwhile", []dns.RRSet{host}, []dns.Change{{Before: set("_dmarc.a.test", dns.TXT), After: text}}, nil, true},
		{"a CNAME in the place of what goes", []dns.RRSet{text},
			[]dns.Change{{Before: text, After: set("_dmarc.a.test", dns.TXT)}, {Before: none, After: host}},
			[]dns.Change{{Before: text, After: set("_dmarc.a.test", dns.TXT)}, {Before: none, After: host}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := dns.Outstanding(tt.now, tt.changes)
			if dns.IsChanged(err) != tt.changed || (err != nil) != tt.changed {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestCheckChanges(t *testing.T) {
	fine := dns.Change{Before: set("x.a.test", dns.TXT), After: set("x.a.test", dns.TXT, "1")}
	for _, tt := range []struct {
		name    string
		changes []dns.Change
		ok      bool
	}{
		{"a name in the zone", []dns.Change{fine}, true},
		{"NS of a name below", []dns.Change{{Before: set("x.a.test", dns.NS), After: set("x.a.test", dns.NS, "ns.b.test")}}, true},
		{"the same twice", []dns.Change{fine, fine}, false},
		{"the zone's NS", []dns.Change{{Before: set("a.test", dns.NS), After: set("a.test", dns.NS, "ns.b.test")}}, false},
		{"an SOA", []dns.Change{{Before: set("x.a.test", dns.SOA), After: set("x.a.test", dns.SOA, "x")}}, false},
		{"outside", []dns.Change{{Before: set("b.test", dns.TXT), After: set("b.test", dns.TXT, "1")}}, false},
		{"a name that only ends alike", []dns.Change{{Before: set("ba.test", dns.TXT), After: set("ba.test", dns.TXT, "1")}}, false},
		{"one name into another", []dns.Change{{Before: set("x.a.test", dns.TXT), After: set("y.a.test", dns.TXT, "1")}}, false},
		{"one type into another", []dns.Change{{Before: set("x.a.test", dns.TXT), After: set("x.a.test", dns.MX, "0 b.test")}}, false},
		{"two CNAMEs", []dns.Change{{Before: set("x.a.test", dns.CNAME), After: set("x.a.test", dns.CNAME, "b.test", "c.test")}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := dns.CheckChanges("a.test", tt.changes); (err == nil) != tt.ok {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestRefusalsOfZones(t *testing.T) {
	for name, err := range map[string]error{"changed": dns.Changed(), "no zone": dns.NoZone()} {
		wrapped := fmt.Errorf("call: %w", err)
		if dns.IsChanged(wrapped) != (name == "changed") || dns.IsNoZone(wrapped) != (name == "no zone") || !outcome.Settled(wrapped) {
			t.Errorf("%s is taken for something else", name)
		}
	}
	other := &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied}
	if dns.IsChanged(other) || dns.IsNoZone(other) || dns.IsChanged(nil) || dns.IsChanged(errors.New("x")) {
		t.Error("another error is taken for one of these")
	}
}
