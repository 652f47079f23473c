// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

func TestNegativeTTL(t *testing.T) {
	for name, x := range map[string]struct {
		ttl   int
		value string
		want  time.Duration
	}{
		"the minimum is less": {3600, "ns1.a.test hostmaster.a.test 1 3600 600 604800 60", time.Minute},
		"the TTL is less":     {30, "ns1.a.test hostmaster.a.test 1 3600 600 604800 60", 30 * time.Second},
		"no number":           {3600, "ns1.a.test hostmaster.a.test 1 3600 600 604800 x", 0},
		"too short":           {3600, "ns1.a.test hostmaster.a.test 1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := dns.Sight{Zone: "a.test", Sets: []dns.RRSet{{Name: "a.test", Type: dns.SOA, TTL: x.ttl, Values: []string{x.value}}}}
			if got := s.NegativeTTL(); got != x.want {
				t.Errorf("got %s, want %s", got, x.want)
			}
		})
	}
	if got := (dns.Sight{Zone: "a.test"}).NegativeTTL(); got != 0 {
		t.Errorf("without an SOA: %s", got)
	}
}

// TestPlanTellsWhatItWrites: each value with its purpose, and what gives way.
func TestPlanTellsWhatItWrites(t *testing.T) {
	offer := dns.Offer{
		Verification: []dns.Record{{Type: dns.TXT, Name: "a.test", Content: "MS=ms1"}},
		Service:      []dns.Record{{Type: dns.TXT, Name: "a.test", Content: "v=spf1 include:spf.protection.outlook.com -all"}},
	}
	s := dns.Sight{Domain: "a.test", Zone: "a.test", Complete: true, Sets: []dns.RRSet{
		{Name: "a.test", Type: dns.TXT, TTL: 300, Values: []string{"v=spf1 a ~all"}},
	}}
	writes := map[dns.Purpose]dns.Written{}
	for _, w := range dns.NewPlan(offer, s, nil).Writes {
		writes[w.Purpose] = w
	}
	if w := writes[dns.Ownership]; w.Value != "MS=ms1" || w.Replaced != "" || w.Name != "a.test" || w.Type != dns.TXT {
		t.Errorf("ownership: %+v", w)
	}
	if w := writes[dns.Sending]; w.Value != "v=spf1 a include:spf.protection.outlook.com ~all" || w.Replaced != "v=spf1 a ~all" {
		t.Errorf("sending: %+v", w)
	}
}
