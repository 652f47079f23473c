// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// intended returns a write of a text and a CNAME that was intended at the given time.
func intended(at time.Time) dns.Write {
	texts := ttl(300, set("a.test", dns.TXT, "of the owner"))
	after := ttl(300, set("a.test", dns.TXT, "of the owner", "MS=ms1"))
	auto := ttl(3600, set("autodiscover.a.test", dns.CNAME, autodiscoverTarget))
	return dns.Write{ID: "w", At: at,
		Changes: []dns.Change{{Before: texts, After: after}, {Before: set(auto.Name, dns.CNAME), After: auto}},
		Written: []dns.Written{
			{Purpose: dns.Ownership, Name: "a.test", Type: dns.TXT, Value: "MS=ms1"},
			{Purpose: dns.Autodiscover, Name: auto.Name, Type: dns.CNAME, Value: autodiscoverTarget},
		}}
}

// TestResolveNeedsTheExactSetsOfAWrite checks which zones prove that a write with an unknown
// outcome was made. A zone that someone else may have edited proves nothing.
func TestResolveNeedsTheExactSetsOfAWrite(t *testing.T) {
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	w := intended(at)
	texts, auto := w.Changes[0].After, w.Changes[1].After
	for _, tt := range []struct {
		name string
		held []dns.RRSet
		now  time.Time
		made bool
	}{
		{"all sets as written", []dns.RRSet{auto, texts}, at.Add(time.Minute), true},
		{"values in another order", []dns.RRSet{auto, ttl(300, set("A.test", dns.TXT, "MS=ms1", "of the owner"))}, at.Add(time.Hour), true},
		{"all sets as before", []dns.RRSet{w.Changes[0].Before}, at.Add(time.Minute), false},
		{"only one set", []dns.RRSet{texts}, at.Add(time.Minute), false},
		{"a further value", []dns.RRSet{auto, ttl(300, set("a.test", dns.TXT, "of the owner", "MS=ms1", "new"))}, at.Add(time.Minute), false},
		{"another TTL", []dns.RRSet{ttl(600, auto), texts}, at.Add(time.Minute), false},
		{"a wildcard's answer", []dns.RRSet{synthesised(auto), texts}, at.Add(time.Minute), false},
		{"all sets as written, but late", []dns.RRSet{auto, texts}, at.Add(time.Hour + time.Second), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := dns.ResolveWrites([]dns.Write{w}, tt.held, tt.now)
			if made := len(r.Made) == 1; made != tt.made || len(r.Made)+len(r.Unmade) != 1 || (len(r.Written()) == 2) != tt.made {
				t.Errorf("got %+v", r)
			}
		})
	}
	if r := dns.ResolveWrites([]dns.Write{{At: at}}, nil, at); len(r.Unmade) != 1 {
		t.Errorf("a write of nothing: %+v", r)
	}
}
