// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

func TestReadSoundness(t *testing.T) {
	const include, host = "v=spf1 include:spf.protection.outlook.com -all", "a-test.mail.protection.outlook.com"
	offer := dns.Offer{Verification: offered, Signing: signing, Service: []dns.Record{
		{Type: dns.MX, Name: "a.test", Content: host}, {Type: dns.TXT, Name: "a.test", Content: include},
	}}
	keys := []dns.RRSet{
		set("selector1._domainkey.a.test", dns.CNAME, target1), set("selector2._domainkey.a.test", dns.CNAME, target2),
	}
	spf := func(texts ...string) []dns.RRSet { return []dns.RRSet{set("a.test", dns.TXT, texts...)} }
	mx := func(values ...string) []dns.RRSet { return []dns.RRSet{set("a.test", dns.MX, values...)} }
	for _, tt := range []struct {
		name          string
		offer         dns.Offer
		seen          []dns.RRSet
		beyond        map[string][]string
		spf, dkim, mx dns.Soundness
	}{
		{"what the platform has not named is neither right nor wrong", dns.Offer{}, append(mx("0 "+host), keys...), nil, dns.Untold, dns.Untold, dns.Untold},
		{"nothing is there", offer, nil, nil, dns.Wrong, dns.Wrong, dns.Wrong},
		{"keys", offer, keys, nil, dns.Wrong, dns.Right, dns.Wrong},
		{"one key of two", offer, keys[:1], nil, dns.Wrong, dns.Wrong, dns.Wrong},
		{"mail comes", offer, mx("0 " + host), nil, dns.Wrong, dns.Wrong, dns.Right},
		{"mail comes also by an older host of the platform", offer, mx("0 a-test.o-v1.mx.microsoft"), nil, dns.Wrong, dns.Wrong, dns.Right},
		{"some of it", offer, mx("0 mx.other.test", "10 "+host), nil, dns.Wrong, dns.Wrong, dns.Right},
		{"mail goes elsewhere", offer, mx("0 mx.other.test"), nil, dns.Wrong, dns.Wrong, dns.Wrong},
		{"the domain takes no mail", offer, mx("0 ."), nil, dns.Wrong, dns.Wrong, dns.Wrong},
		{"sending is let", offer, spf("other", "v=spf1 ip4:192.0.2.1 include:spf.protection.outlook.com ~all"), nil, dns.Right, dns.Wrong, dns.Wrong},
		{"other text alone", offer, spf("other"), nil, dns.Wrong, dns.Wrong, dns.Wrong},
		{"sending is not let", offer, spf("v=spf1 -all"), nil, dns.Wrong, dns.Wrong, dns.Wrong},
		{"sending is forbidden", offer, spf("v=spf1 -include:spf.protection.outlook.com ~all"), nil, dns.Wrong, dns.Wrong, dns.Wrong},
		{"two records, of which receivers take none", offer, spf(include, "v=spf1 -all"), nil, dns.Wrong, dns.Wrong, dns.Wrong},
		{"a record that cannot be read", offer, spf("v=spf1 nonsense"), nil, dns.Wrong, dns.Wrong, dns.Wrong},
		{
			"sending is let by another name", offer, spf("v=spf1 include:_spf.a.test -all"),
			map[string][]string{"_spf.a.test": {include}}, dns.Right, dns.Wrong, dns.Wrong,
		},
		{
			"another name does not let it", offer, spf("v=spf1 include:_spf.a.test -all"),
			map[string][]string{"_spf.a.test": {"v=spf1 ip4:192.0.2.1 -all"}}, dns.Wrong, dns.Wrong, dns.Wrong,
		},
		{"another name that was not asked", offer, spf("v=spf1 include:_spf.a.test -all"), nil, dns.Untold, dns.Wrong, dns.Wrong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sight(tt.seen...)
			s.Zone, s.Beyond.SPF = "a.test", tt.beyond
			if spf, dkim, mx := dns.ReadSoundness(s, tt.offer); spf != tt.spf || dkim != tt.dkim || mx != tt.mx {
				t.Fatalf("SPF %d, DKIM %d, MX %d, want %d, %d, %d", spf, dkim, mx, tt.spf, tt.dkim, tt.mx)
			}
		})
	}
}

func TestSilent(t *testing.T) {
	one := []dns.Server{{State: dns.ServerUnreachable}, {State: dns.ServerOK}}
	for name, tt := range map[string]struct {
		sight dns.Sight
		want  bool
	}{
		"a whole answer":             {dns.Sight{Complete: true, Servers: one}, false},
		"half of one":                {dns.Sight{Reason: "single_server_answered", Servers: one}, false},
		"no server answered":         {dns.Sight{Reason: "no_authoritative_answer", Servers: one[:1]}, true},
		"no resolver answered":       {dns.Sight{Reason: "zone_cut_unknown"}, true},
		"the zone above says no":     {dns.Sight{Reason: dns.ReasonNotDelegated}, false},
		"nothing is known of a read": {dns.Sight{}, true},
	} {
		if got := tt.sight.Silent(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
