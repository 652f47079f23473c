// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// intendedWrite returns a write of a text and a CNAME whose outcome is unknown.
func intendedWrite(writtenAt time.Time) dns.Write {
	before := withTTL(300, rrset("a.test", dns.TXT, "of the owner"))
	after := withTTL(300, rrset("a.test", dns.TXT, "of the owner", "MS=ms1"))
	autodiscover := withTTL(3600, rrset("autodiscover.a.test", dns.CNAME, autodiscoverTarget))
	return dns.Write{ID: "w", At: writtenAt,
		Changes: []dns.Change{{Before: before, After: after}, {Before: rrset(autodiscover.Name, dns.CNAME), After: autodiscover}},
		Written: []dns.Written{
			{Purpose: dns.Ownership, Name: "a.test", Type: dns.TXT, Value: "MS=ms1"},
			{Purpose: dns.Autodiscover, Name: autodiscover.Name, Type: dns.CNAME, Value: autodiscoverTarget},
		}}
}

// TestResolveWritesNeedsTheExactSetsOfAWrite checks with which records of a zone a write with an
// unknown outcome counts as made. The write does not count as made if someone else may have
// published the records.
func TestResolveWritesNeedsTheExactSetsOfAWrite(t *testing.T) {
	writtenAt := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	write := intendedWrite(writtenAt)
	texts, autodiscover := write.Changes[0].After, write.Changes[1].After
	for _, tc := range []struct {
		name     string
		current  []dns.RRSet
		now      time.Time
		wantMade bool
	}{
		{"all sets as written", []dns.RRSet{autodiscover, texts}, writtenAt.Add(time.Minute), true},
		{"values in another order", []dns.RRSet{autodiscover, withTTL(300, rrset("A.test", dns.TXT, "MS=ms1", "of the owner"))}, writtenAt.Add(time.Hour), true},
		{"all sets as before", []dns.RRSet{write.Changes[0].Before}, writtenAt.Add(time.Minute), false},
		{"only one set", []dns.RRSet{texts}, writtenAt.Add(time.Minute), false},
		{"an additional value", []dns.RRSet{autodiscover, withTTL(300, rrset("a.test", dns.TXT, "of the owner", "MS=ms1", "new"))}, writtenAt.Add(time.Minute), false},
		{"another TTL", []dns.RRSet{withTTL(600, autodiscover), texts}, writtenAt.Add(time.Minute), false},
		{"a wildcard's answer", []dns.RRSet{fromWildcard(autodiscover), texts}, writtenAt.Add(time.Minute), false},
		{"all sets as written, more than an hour after the write", []dns.RRSet{autodiscover, texts}, writtenAt.Add(time.Hour + time.Second), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resolved := dns.ResolveWrites([]dns.Write{write}, tc.current, tc.now)
			if made := len(resolved.Made) == 1; made != tc.wantMade || len(resolved.Made)+len(resolved.Unmade) != 1 || (len(resolved.Written()) == 2) != tc.wantMade {
				t.Errorf("got %+v, want made: %t", resolved, tc.wantMade)
			}
		})
	}
	selector := veiled([]dns.RRSet{rrset("selector1._domainkey.a.test", dns.CNAME, target1)})
	endProxying := dns.Change{Before: selector[0], After: rrset(selector[0].Name, dns.CNAME, target1)}
	if resolved := dns.ResolveWrites([]dns.Write{{At: writtenAt, Changes: []dns.Change{endProxying}}}, selector, writtenAt); len(resolved.Unmade) != 1 {
		t.Errorf("a write counts as made although the set is still veiled: %+v", resolved)
	}
	if resolved := dns.ResolveWrites([]dns.Write{{At: writtenAt}}, nil, writtenAt); len(resolved.Unmade) != 1 {
		t.Errorf("a write without changes counts as made: %+v", resolved)
	}
	write.Confirmed = true
	if resolved := dns.ResolveWrites([]dns.Write{write}, nil, writtenAt.Add(2*time.Hour)); len(resolved.Made) != 1 {
		t.Errorf("a confirmed write does not count as made: %+v", resolved)
	}
}
