// SPDX-License-Identifier: Apache-2.0

package domain_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
)

func TestAdmitLimitsTheDomainsOfATenant(t *testing.T) {
	if err := domain.CheckDomainLimit(11, domain.MaxPerTenant); err != nil {
		t.Errorf("the twelfth request is refused: %v", err)
	}
	if err := domain.CheckDomainLimit(12, domain.MaxPerTenant); !errors.Is(err, fault.DomainLimitReached) {
		t.Errorf("the thirteenth request: %v", err)
	}
}

func TestListedHasOnlyCanonicalNames(t *testing.T) {
	got := domain.WithCanonicalNames([]domain.Platform{{Name: "New.test", Verified: true}, {Name: "not a name"}, {Name: "b.test"}})
	if diff := cmp.Diff([]domain.Platform{{Name: "new.test", Verified: true}, {Name: "b.test"}}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestDKIMStatus(t *testing.T) {
	made := dns.Signing{Selector1: dns.Record{Name: "selector1._domainkey.a.test"}}
	for _, tt := range []struct {
		name    string
		domain  domain.Domain
		s1, s2  dns.Selector
		want    string
		message string
	}{
		{"not verified", domain.Domain{}, "propagated", "propagated", "pending", "verify the domain first; the mail platform makes the DKIM records after that"},
		{"no records yet", domain.Domain{Verified: true}, "missing", "missing", "pending", "the mail platform has not made the DKIM records yet"},
		{"one selector", domain.Domain{Verified: true, Signing: made}, "propagated", "missing", "pending", "publish both DKIM CNAME records and wait until they are visible"},
		{"a foreign selector", domain.Domain{Verified: true, Signing: made}, "mismatch", "propagated", "pending", "publish both DKIM CNAME records and wait until they are visible"},
		{"both selectors", domain.Domain{Verified: true, Signing: made}, "propagated", "propagated", "ready", "both CNAME records are published; enable DKIM now"},
		{"signing", domain.Domain{Verified: true, Signing: made, DKIMEnabled: true}, "missing", "missing", "enabled", "the mail platform signs this domain's mail"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status := tt.domain.DKIMStatus(tt.s1, tt.s2)
			if message := tt.domain.DKIMMessage(status); status != tt.want || message != tt.message {
				t.Fatalf("got %q, %q", status, message)
			}
		})
	}
}
