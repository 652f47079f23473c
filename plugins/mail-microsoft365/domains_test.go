// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports/contract"
)

func TestADomainOfAnotherTenantIsUnavailable(t *testing.T) {
	env := newTestEnv(t)
	for _, refusedCall := range []string{"add", "verify"} {
		for _, status := range []int{400, 409} {
			domainName := env.NewZone(t)
			_, client := env.consentedTenant(t, contract.Setup{}, options{"elsewhere": []string{domainName}, "elsewhere_at": refusedCall, "domain_conflict": status})
			_, err := client.AddDomain(t.Context(), domainName)
			if refusedCall == "verify" {
				records, readErr := client.Records(t.Context(), domainName)
				if err != nil || readErr != nil {
					t.Fatalf("AddDomain: %v; Records: %v; want no errors", err, readErr)
				}
				env.Publish(t, domainName, records.Verification[0])
				_, err = client.VerifyDomain(t.Context(), domainName)
			}
			expectOutcome(t, err, outcome.Refused, fault.DomainUnavailable)
		}
	}
}

// TestAddDomainIsUnknownWhenTheDomainExistsAfterA503 lets Graph answer 503 first, and then report a
// conflict. The request that was answered with 503 may have added the domain, so the domain does
// not count as a domain of another tenant.
func TestAddDomainIsUnknownWhenTheDomainExistsAfterA503(t *testing.T) {
	env := newTestEnv(t)
	for _, status := range []int{400, 409} {
		domainName := env.NewZone(t)
		_, client := env.consentedTenant(t, contract.Setup{}, options{"elsewhere": []string{domainName}, "elsewhere_at": "add", "domain_conflict": status})
		env.injectFault(t, options{"match": "POST /graph/v1.0/domains", "kind": "status", "status": 503, "times": 1})
		_, err := client.AddDomain(t.Context(), domainName)
		expectOutcome(t, err, outcome.Unknown, fault.ProviderTimeout)
	}
}

func TestAddDomainReturnsAnExistingDomain(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.consentedTenant(t, contract.Setup{}, nil)
	domainName := env.NewZone(t)
	env.injectFault(t, options{"match": "POST /graph/v1.0/domains", "kind": "drop_after", "times": 1})
	if _, err := client.AddDomain(t.Context(), domainName); err != nil {
		t.Fatalf("AddDomain after a lost answer: %v", err)
	}
	if _, err := client.AddDomain(t.Context(), domainName); err != nil {
		t.Fatalf("AddDomain of an existing domain: %v", err)
	}
}

func TestAnUnverifiedDomainHasOnlyVerificationRecords(t *testing.T) {
	env := newTestEnv(t)
	for _, earlyAnswer := range []string{"empty", "unavailable", "refused"} {
		_, client := env.consentedTenant(t, contract.Setup{}, options{"early_records": earlyAnswer})
		domainName := env.NewZone(t)
		if _, err := client.AddDomain(t.Context(), domainName); err != nil {
			t.Fatal(err)
		}
		got, err := client.Records(t.Context(), domainName)
		if err != nil || len(got.Service) != 0 || len(got.Verification) != 2 {
			t.Errorf("%s: %+v, %v, want two verification records and no service records", earlyAnswer, got, err)
		}
	}
}

func TestServiceRecordsAreReadFromThePlatform(t *testing.T) {
	env := newTestEnv(t)
	for _, style := range []string{"mx.microsoft", "classic"} {
		tenantInfo, client := env.consentedTenant(t, contract.Setup{}, nil)
		domainName := env.NewZone(t)
		env.setBehaviour(t, tenantInfo.GUID, options{"mx_style": options{domainName: style}})
		if _, err := client.AddDomain(t.Context(), domainName); err != nil {
			t.Fatal(err)
		}
		records, err := client.Records(t.Context(), domainName)
		if err != nil {
			t.Fatal(err)
		}
		env.Publish(t, domainName, records.Verification[0])
		if _, err := client.VerifyDomain(t.Context(), domainName); err != nil {
			t.Fatal(err)
		}
		if err := client.EnableMail(t.Context(), domainName); err != nil {
			t.Fatal(err)
		}
		if records, err = client.Records(t.Context(), domainName); err != nil || len(records.Service) != 3 {
			t.Fatalf("%s: %+v, %v, want three service records", style, records, err)
		}
		mx := records.Service[0]
		if mx.Type != dns.MX || mx.Name != domainName || mx.Preference != 0 {
			t.Errorf("%s: the first service record is %+v, want an MX of %s with preference 0", style, mx, domainName)
		}
	}
}

func TestVerifyDomainReadsTheStateAfterALostAnswer(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.consentedTenant(t, contract.Setup{}, nil)
	domainName := env.NewZone(t)
	if _, err := client.AddDomain(t.Context(), domainName); err != nil {
		t.Fatal(err)
	}
	records, err := client.Records(t.Context(), domainName)
	if err != nil {
		t.Fatal(err)
	}
	env.Publish(t, domainName, records.Verification[0])
	env.injectFault(t, options{"match": "POST /graph/v1.0/domains/", "kind": "drop_after", "times": 1})
	if verified, err := client.VerifyDomain(t.Context(), domainName); err != nil || !verified.Verified {
		t.Errorf("got %+v, %v, want a verified domain", verified, err)
	}
}

func TestEnableMailRefusesAnUnverifiedDomain(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.consentedTenant(t, contract.Setup{}, nil)
	domainName := env.NewZone(t)
	if _, err := client.AddDomain(t.Context(), domainName); err != nil {
		t.Fatal(err)
	}
	expectOutcome(t, client.EnableMail(t.Context(), domainName), outcome.Refused, fault.DomainNotVerified)
	expectOutcome(t, client.EnableMail(t.Context(), "other.test"), outcome.Refused, fault.DomainNotFound)
}

func TestToDNSRecordsConvertsOnlyTheTypesThatMailUses(t *testing.T) {
	got := toDNSRecords("a.test", []graphRecord{
		{ODataType: "#microsoft.graph.domainDnsTxtRecord", Label: "a.test", TTL: 60, Text: "MS=ms1 Case"},
		{ODataType: "microsoft.graph.domainDnsMxRecord", Label: "A.TEST.", Exchange: "X.Mail.example.", Preference: 32767},
		{RecordType: "CName", Label: "autodiscover.a.test", Canonical: "Autodiscover.example"},
		{RecordType: "TXT", Label: "@", Text: "v=spf1"},
		{RecordType: "txt", Label: "", Text: "v=spf2"},
		{RecordType: "cname", Label: "selector1._domainkey", Canonical: "t"},
		{RecordType: "Srv", Label: "_sip._tls.a.test"},
		{ODataType: "#microsoft.graph.domainDnsUnavailableRecord", RecordType: "Mx", Label: "a.test", Exchange: "never"},
		{RecordType: "Mx", Label: "a.test"},
		{},
	})
	want := []dns.Record{
		{Type: dns.TXT, Name: "a.test", Content: "MS=ms1 Case", TTL: 60},
		{Type: dns.MX, Name: "a.test", Content: "x.mail.example", Preference: 32767, TTL: 3600},
		{Type: dns.CNAME, Name: "autodiscover.a.test", Content: "autodiscover.example", TTL: 3600},
		{Type: dns.TXT, Name: "a.test", Content: "v=spf1", TTL: 3600},
		{Type: dns.TXT, Name: "a.test", Content: "v=spf2", TTL: 3600},
		{Type: dns.CNAME, Name: "selector1._domainkey.a.test", Content: "t", TTL: 3600},
	}
	if !cmp.Equal(got, want) {
		t.Fatalf("the records (-want +got):\n%s", cmp.Diff(want, got))
	}
}
