// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

func TestDesiredRecordsAreRecordsOfTheDomain(t *testing.T) {
	platformOffer := offer()
	platformOffer.Service = append([]dns.Record{
		{Type: dns.MX, Name: "a.test", Content: "second.mx.microsoft", Preference: 5},
		{Type: dns.TXT, Name: "a.test", Content: "no-spf"},
		{Type: dns.CNAME, Name: "lyncdiscover.a.test", Content: "webdir.online.lync.com"},
		{Type: "SRV", Name: "_sip._tls.a.test", Content: "sipdir.online.lync.com"},
		{Type: dns.MX, Name: "b.test", Content: "b-test.mx.microsoft"},
	}, platformOffer.Service...)
	platformOffer.Signing.Selector2.Name = "Selector2._domainkey.A.test."
	platformOffer.Signing.Selector2.TTL = 60
	desired := func(purpose dns.Purpose, recordType dns.Type, name, content string, ttl int) dns.Desired {
		return dns.Desired{Purpose: purpose, Record: dns.Record{Type: recordType, Name: name, Content: content, TTL: ttl}}
	}
	want := []dns.Desired{
		desired(dns.Ownership, dns.TXT, "a.test", ownershipText, 3600),
		desired(dns.Inbound, dns.MX, "a.test", platformMX, 3600),
		desired(dns.Sending, dns.TXT, "a.test", "v=spf1 "+platformInclude+" -all", 3600),
		desired(dns.Autodiscover, dns.CNAME, "autodiscover.a.test", autodiscoverTarget, 3600),
		desired(dns.Policy, dns.TXT, "_dmarc.a.test", "v=DMARC1; p=none", 3600),
		desired(dns.Selector1, dns.CNAME, "selector1._domainkey.a.test", target1, 3600),
		desired(dns.Selector2, dns.CNAME, "selector2._domainkey.a.test", target2, 60),
	}
	if diff := cmp.Diff(want, dns.DesiredRecords("a.test", platformOffer)); diff != "" {
		t.Error(diff)
	}
	t.Run("leaves out records that the platform has not specified", func(t *testing.T) {
		got := dns.DesiredRecords("a.test", dns.Offer{Verification: ownershipRecords[:1], Policy: "v=DMARC1; p=none; rua=mailto:x@reports.test"})
		if len(got) != 1 || got[0].Purpose != dns.Policy || got[0].Content != "v=DMARC1; p=none; rua=mailto:x@reports.test" {
			t.Fatalf("got %+v, want only the DMARC record", got)
		}
	})
	t.Run("leaves out names outside the domain and a selector that is not a CNAME", func(t *testing.T) {
		platformOffer := dns.Offer{Verification: []dns.Record{{Type: dns.TXT, Name: "b.test", Content: ownershipText}}, Signing: dns.Signing{
			Selector1: dns.Record{Type: dns.CNAME, Name: "selector1._domainkey.ba.test", Content: target1},
			Selector2: dns.Record{Type: dns.TXT, Name: "selector2._domainkey.a.test", Content: target2},
		}}
		if got := dns.DesiredRecords("a.test", platformOffer); len(got) != 1 {
			t.Fatalf("got %+v, want only the DMARC record", got)
		}
	})
}

func TestVerificationRecordPrefersTXT(t *testing.T) {
	for _, tc := range []struct {
		name    string
		offered []dns.Record
		want    dns.Type
	}{
		{"a TXT record in any position", ownershipRecords, dns.TXT},
		{"only an MX record", ownershipRecords[:1], dns.MX},
		{"no record", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, found := dns.VerificationRecord(tc.offered); got.Type != tc.want || found != (tc.want != "") {
				t.Fatalf("got %+v, %t; want the type %q", got, found, tc.want)
			}
		})
	}
}
