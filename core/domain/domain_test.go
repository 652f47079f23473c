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

func TestAdmit(t *testing.T) {
	if err := domain.Admit(11, domain.MaxPerTenant); err != nil {
		t.Errorf("the twelfth is refused: %v", err)
	}
	if err := domain.Admit(12, domain.MaxPerTenant); !errors.Is(err, fault.DomainLimitReached) {
		t.Errorf("the thirteenth: %v", err)
	}
}

func TestDiscovered(t *testing.T) {
	signing := dns.Signing{Enabled: true, Selector1: dns.Record{Name: "selector1._domainkey.b.test"}}
	stored := []domain.Domain{
		{ID: "1", Name: "a.test", Added: true, Verified: true},
		{ID: "2", Name: "b.test", Added: true, Default: true, Verified: true, DKIM: true, MailReady: true, Signing: signing},
		{ID: "3", Name: "c.test", Added: false},
	}
	listed := []domain.Platform{
		{Name: "New.test", Verified: true, Default: true},
		{Name: "b.test", Verified: true},
		{Name: "c.test", Default: true},
		{Name: "not a name"},
	}
	unsigned := signing
	unsigned.Enabled = false
	for _, tt := range []struct {
		name   string
		stored []domain.Domain
		listed []domain.Platform
		want   []domain.Domain
	}{
		{"nothing listed", stored, nil, []domain.Domain{}},
		{
			"keeps stored data, adds new domains, drops missing ones, and an unverified domain is never primary",
			stored, listed,
			[]domain.Domain{
				{ID: "2", Name: "b.test", Added: true, Verified: true, DKIM: true, MailReady: true, Signing: signing},
				{ID: "3", Name: "c.test", Added: true},
				{Name: "new.test", Added: true, Verified: true, Default: true},
			},
		},
		{
			"a domain that was removed and added again starts over",
			stored, []domain.Platform{{Name: "b.test"}},
			[]domain.Domain{{ID: "2", Name: "b.test", Added: true, Signing: unsigned}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, domain.Discovered(tt.stored, tt.listed)); diff != "" {
				t.Fatal(diff)
			}
		})
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
		{"signing", domain.Domain{Verified: true, Signing: made, DKIM: true}, "missing", "missing", "enabled", "the mail platform signs this domain's mail"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status := tt.domain.DKIMStatus(tt.s1, tt.s2)
			if message := tt.domain.DKIMMessage(status); status != tt.want || message != tt.message {
				t.Fatalf("got %q, %q", status, message)
			}
		})
	}
}
