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
	spf, withOwnership, reordered := rrset("a.test", dns.TXT, "v=spf1 -all"), rrset("a.test", dns.TXT, "MS=1", "v=spf1 -all"), rrset("A.test.", dns.TXT, "v=spf1 -all", "MS=1")
	alias, noAlias := rrset("_dmarc.a.test", dns.CNAME, "vendor.test"), rrset("_dmarc.a.test", dns.CNAME)
	text := rrset("_dmarc.a.test", dns.TXT, "v=DMARC1")
	for _, tc := range []struct {
		name        string
		current     []dns.RRSet
		changes     []dns.Change
		want        []dns.Change
		wantChanged bool
	}{
		{"the set is as planned", []dns.RRSet{spf}, []dns.Change{{Before: spf, After: withOwnership}}, []dns.Change{{Before: spf, After: withOwnership}}, false},
		{"the change is already made, in a different order and case", []dns.RRSet{reordered}, []dns.Change{{Before: spf, After: withOwnership}}, nil, false},
		{"the set has a different value", []dns.RRSet{rrset("a.test", dns.TXT, "other")}, []dns.Change{{Before: spf, After: withOwnership}}, nil, true},
		{"the set was removed", nil, []dns.Change{{Before: spf, After: withOwnership}}, nil, true},
		{"created by someone else", []dns.RRSet{text}, []dns.Change{{Before: rrset("_dmarc.a.test", dns.TXT), After: rrset("_dmarc.a.test", dns.TXT, "mine")}}, nil, true},
		{"one of two sets has changed", []dns.RRSet{spf, text}, []dns.Change{
			{Before: spf, After: withOwnership}, {Before: rrset("_dmarc.a.test", dns.TXT), After: rrset("_dmarc.a.test", dns.TXT, "mine")},
		}, nil, true},
		{"a value twice is not the same as once", []dns.RRSet{rrset("a.test", dns.TXT, "x", "x")}, []dns.Change{
			{Before: rrset("a.test", dns.TXT, "x", "y"), After: rrset("a.test", dns.TXT, "x")},
		}, nil, true},
		{"keeps a TTL that was not planned to change", []dns.RRSet{withTTL(60, spf)},
			[]dns.Change{{Before: withTTL(300, spf), After: withTTL(300, withOwnership)}}, []dns.Change{{Before: withTTL(60, spf), After: withTTL(60, withOwnership)}}, false},
		{"a planned change of the TTL", []dns.RRSet{withTTL(60, spf)},
			[]dns.Change{{Before: withTTL(60, spf), After: withTTL(300, withOwnership)}}, []dns.Change{{Before: withTTL(60, spf), After: withTTL(300, withOwnership)}}, false},
		{"a new CNAME next to a record", []dns.RRSet{text}, []dns.Change{{Before: noAlias, After: alias}}, nil, true},
		{"a new record next to a CNAME", []dns.RRSet{alias}, []dns.Change{{Before: rrset("_dmarc.a.test", dns.TXT), After: text}}, nil, true},
		{"a CNAME replaces a record", []dns.RRSet{text},
			[]dns.Change{{Before: text, After: rrset("_dmarc.a.test", dns.TXT)}, {Before: noAlias, After: alias}},
			[]dns.Change{{Before: text, After: rrset("_dmarc.a.test", dns.TXT)}, {Before: noAlias, After: alias}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := dns.Outstanding(tc.current, tc.changes)
			if dns.IsChanged(err) != tc.wantChanged || (err != nil) != tc.wantChanged {
				t.Fatalf("got %v, want zone_changed: %t", err, tc.wantChanged)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestCheckChangesRefusesInvalidChanges(t *testing.T) {
	validChange := dns.Change{Before: rrset("x.a.test", dns.TXT), After: rrset("x.a.test", dns.TXT, "1")}
	for _, tc := range []struct {
		name      string
		changes   []dns.Change
		wantValid bool
	}{
		{"a name in the zone", []dns.Change{validChange}, true},
		{"NS records below the zone", []dns.Change{{Before: rrset("x.a.test", dns.NS), After: rrset("x.a.test", dns.NS, "ns.b.test")}}, true},
		{"the same change twice", []dns.Change{validChange, validChange}, false},
		{"the NS records of the zone", []dns.Change{{Before: rrset("a.test", dns.NS), After: rrset("a.test", dns.NS, "ns.b.test")}}, false},
		{"an SOA record", []dns.Change{{Before: rrset("x.a.test", dns.SOA), After: rrset("x.a.test", dns.SOA, "x")}}, false},
		{"a name outside the zone", []dns.Change{{Before: rrset("b.test", dns.TXT), After: rrset("b.test", dns.TXT, "1")}}, false},
		{"a name with only a similar suffix", []dns.Change{{Before: rrset("ba.test", dns.TXT), After: rrset("ba.test", dns.TXT, "1")}}, false},
		{"a change of the name", []dns.Change{{Before: rrset("x.a.test", dns.TXT), After: rrset("y.a.test", dns.TXT, "1")}}, false},
		{"a change of the type", []dns.Change{{Before: rrset("x.a.test", dns.TXT), After: rrset("x.a.test", dns.MX, "0 b.test")}}, false},
		{"two CNAMEs", []dns.Change{{Before: rrset("x.a.test", dns.CNAME), After: rrset("x.a.test", dns.CNAME, "b.test", "c.test")}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := dns.CheckChanges("a.test", tc.changes); (err == nil) != tc.wantValid {
				t.Fatalf("got %v, want valid %t", err, tc.wantValid)
			}
		})
	}
}

func TestZoneErrorsAreRecognizedWhenWrapped(t *testing.T) {
	for name, err := range map[string]error{"changed": dns.ChangedError(), "no zone": dns.NoZoneError(), "overlapped": dns.OverlappedError()} {
		wrapped := fmt.Errorf("call: %w", err)
		changed, noZone, overlapped := dns.IsChanged(wrapped), dns.IsNoZone(wrapped), dns.IsOverlapped(wrapped)
		changedNothing := outcome.ChangedNothing(wrapped)
		if changed != (name == "changed") || noZone != (name == "no zone") || overlapped != (name == "overlapped") || changedNothing != (name != "overlapped") {
			t.Errorf("%s: IsChanged %t, IsNoZone %t, IsOverlapped %t, ChangedNothing %t; want only the function of this error, and ChangedNothing except for overlapped", name, changed, noZone, overlapped, changedNothing)
		}
	}
	accessDenied := &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied}
	if dns.IsChanged(accessDenied) || dns.IsNoZone(accessDenied) || dns.IsOverlapped(accessDenied) || dns.IsChanged(nil) || dns.IsChanged(errors.New("x")) {
		t.Error("an error without one of these codes counts as a changed zone, a missing zone or an overlap")
	}
}

func TestADelegationMustNameExactlyTheServersOfAZone(t *testing.T) {
	servers := []string{"ns1.a.test", "ns2.a.test"}
	for _, tc := range []struct {
		name       string
		zone       dns.Zone
		delegation []string
		want       bool
	}{
		{"the same servers", dns.Zone{NameServers: servers}, servers, true},
		{"in a different order and case, one twice", dns.Zone{NameServers: servers}, []string{"NS2.A.test.", "ns1.a.test", "ns2.a.test"}, true},
		{"the delegation lacks a server", dns.Zone{NameServers: servers}, servers[:1], false},
		{"the delegation has a further server", dns.Zone{NameServers: servers[:1]}, servers, false},
		{"different servers", dns.Zone{NameServers: servers}, []string{"ns1.b.test", "ns2.b.test"}, false},
		{"an idle zone", dns.Zone{NameServers: servers, Idle: "moved"}, servers, false},
		{"an unknown delegation", dns.Zone{}, nil, false},
	} {
		if got := tc.zone.ServesDelegation(tc.delegation); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}
