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

func TestOutstandingDropsChangesThatAreMade(t *testing.T) {
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
		{"already done, in a different order and case", []dns.RRSet{merged}, []dns.Change{{Before: spf, After: managed}}, nil, false},
		{"changed", []dns.RRSet{set("a.test", dns.TXT, "other")}, []dns.Change{{Before: spf, After: managed}}, nil, true},
		{"gone", nil, []dns.Change{{Before: spf, After: managed}}, nil, true},
		{"created by someone else", []dns.RRSet{text}, []dns.Change{{Before: set("_dmarc.a.test", dns.TXT), After: set("_dmarc.a.test", dns.TXT, "mine")}}, nil, true},
		{"one of two changed", []dns.RRSet{spf, text}, []dns.Change{
			{Before: spf, After: managed}, {Before: set("_dmarc.a.test", dns.TXT), After: set("_dmarc.a.test", dns.TXT, "mine")},
		}, nil, true},
		{"a value twice is not the same as once", []dns.RRSet{set("a.test", dns.TXT, "x", "x")}, []dns.Change{
			{Before: set("a.test", dns.TXT, "x", "y"), After: set("a.test", dns.TXT, "x")},
		}, nil, true},
		{"keeps a TTL that was not planned to change", []dns.RRSet{ttl(60, spf)},
			[]dns.Change{{Before: ttl(300, spf), After: ttl(300, managed)}}, []dns.Change{{Before: ttl(60, spf), After: ttl(60, managed)}}, false},
		{"a TTL that was planned", []dns.RRSet{ttl(60, spf)},
			[]dns.Change{{Before: ttl(60, spf), After: ttl(300, managed)}}, []dns.Change{{Before: ttl(60, spf), After: ttl(300, managed)}}, false},
		{"a CNAME next to a new record", []dns.RRSet{text}, []dns.Change{{Before: none, After: host}}, nil, true},
		{"a record next to a new CNAME", []dns.RRSet{host}, []dns.Change{{Before: set("_dmarc.a.test", dns.TXT), After: text}}, nil, true},
		{"a CNAME replaces a record", []dns.RRSet{text},
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

func TestCheckChangesRefusesChangesOutsideTheZone(t *testing.T) {
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
		{"a name with only a similar suffix", []dns.Change{{Before: set("ba.test", dns.TXT), After: set("ba.test", dns.TXT, "1")}}, false},
		{"a change of the name", []dns.Change{{Before: set("x.a.test", dns.TXT), After: set("y.a.test", dns.TXT, "1")}}, false},
		{"a change of the type", []dns.Change{{Before: set("x.a.test", dns.TXT), After: set("x.a.test", dns.MX, "0 b.test")}}, false},
		{"two CNAMEs", []dns.Change{{Before: set("x.a.test", dns.CNAME), After: set("x.a.test", dns.CNAME, "b.test", "c.test")}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := dns.CheckChanges("a.test", tt.changes); (err == nil) != tt.ok {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestZoneErrorsAreRecognizedWhenWrapped(t *testing.T) {
	for name, err := range map[string]error{"changed": dns.ChangedError(), "no zone": dns.NoZoneError()} {
		wrapped := fmt.Errorf("call: %w", err)
		if dns.IsChanged(wrapped) != (name == "changed") || dns.IsNoZone(wrapped) != (name == "no zone") || !outcome.ChangedNothing(wrapped) {
			t.Errorf("%s is not recognized", name)
		}
	}
	other := &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied}
	if dns.IsChanged(other) || dns.IsNoZone(other) || dns.IsChanged(nil) || dns.IsChanged(errors.New("x")) {
		t.Error("a different error is recognized as one of these")
	}
}

func TestADelegationMustNameExactlyTheServersOfAZone(t *testing.T) {
	two := []string{"ns1.a.test", "ns2.a.test"}
	for _, tt := range []struct {
		name       string
		zone       dns.Zone
		delegation []string
		want       bool
	}{
		{"the same", dns.Zone{NameServers: two}, two, true},
		{"in a different order and case, one twice", dns.Zone{NameServers: two}, []string{"NS2.A.test.", "ns1.a.test", "ns2.a.test"}, true},
		{"the delegation lacks one", dns.Zone{NameServers: two}, two[:1], false},
		{"the delegation has one more", dns.Zone{NameServers: two[:1]}, two, false},
		{"others", dns.Zone{NameServers: two}, []string{"ns1.b.test", "ns2.b.test"}, false},
		{"idle", dns.Zone{NameServers: two, Idle: "moved"}, two, false},
		{"an unknown delegation", dns.Zone{}, nil, false},
	} {
		if got := tt.zone.ServesDelegation(tt.delegation); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
