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

func TestCheckDomainLimitAllowsTwelveDomains(t *testing.T) {
	if err := domain.CheckDomainLimit(11, domain.MaxPerTenant); err != nil {
		t.Errorf("the twelfth domain is refused: %v", err)
	}
	if err := domain.CheckDomainLimit(12, domain.MaxPerTenant); !errors.Is(err, fault.DomainLimitReached) {
		t.Errorf("the thirteenth domain: got %v, want domain_limit_reached", err)
	}
}

func TestWithCanonicalNamesOmitsInvalidNames(t *testing.T) {
	got := domain.WithCanonicalNames([]domain.Platform{{Name: "New.test", Verified: true}, {Name: "not a name"}, {Name: "b.test"}})
	if diff := cmp.Diff([]domain.Platform{{Name: "new.test", Verified: true}, {Name: "b.test"}}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestDKIMStatusFollowsTheSelectors(t *testing.T) {
	specified := dns.Signing{Selector1: dns.Record{Name: "selector1._domainkey.a.test"}}
	for _, tc := range []struct {
		name                 string
		domain               domain.Domain
		selector1, selector2 dns.SelectorState
		wantStatus           string
		wantMessage          string
	}{
		{"not verified", domain.Domain{}, "propagated", "propagated", "pending", "verify the domain first; the mail platform makes the DKIM records after that"},
		{"the platform has specified no records yet", domain.Domain{Verified: true}, "missing", "missing", "pending", "the mail platform has not made the DKIM records yet"},
		{"only one selector is published", domain.Domain{Verified: true, Signing: specified}, "propagated", "missing", "pending", "publish both DKIM CNAME records and wait until they are visible"},
		{"one selector has a foreign target", domain.Domain{Verified: true, Signing: specified}, "mismatch", "propagated", "pending", "publish both DKIM CNAME records and wait until they are visible"},
		{"both selectors are published", domain.Domain{Verified: true, Signing: specified}, "propagated", "propagated", "ready", "both CNAME records are published; enable DKIM now"},
		{"the platform signs", domain.Domain{Verified: true, Signing: specified, DKIMEnabled: true}, "missing", "missing", "enabled", "the mail platform signs this domain's mail"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status := tc.domain.DKIMStatus(tc.selector1, tc.selector2)
			if message := tc.domain.DKIMMessage(status); status != tc.wantStatus || message != tc.wantMessage {
				t.Fatalf("got %q, %q; want %q, %q", status, message, tc.wantStatus, tc.wantMessage)
			}
		})
	}
}
