// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestSurveyFetchesMissingRecords(t *testing.T) {
	h := newFixture(t)
	d := h.verified(t)
	forget := func() {
		d.Verification, d.Service, d.Signing = nil, nil, dns.Signing{}
		must(t, h.store.SaveDomain(t.Context(), h.acc.ID, d, nil))
	}
	forget()
	if got := h.survey(t).Plan.Desired; len(got) != 7 {
		t.Errorf("desired %+v", got)
	}
	if stored := h.stored(t); len(stored.Service) != 0 {
		t.Error("a read stored something")
	}
	for _, tt := range []struct {
		name  string
		fault fake.Fault
		want  fault.Code
	}{
		{"down", fake.Fault{Method: "Records", Kind: outcome.Down}, fault.ProviderUnavailable},
		{"no answer", fake.Fault{Method: "Records", Kind: outcome.Unknown}, fault.ProviderTimeout},
		{"breaks", fake.Fault{Method: "Records", Kind: outcome.Broken}, fault.ProviderError},
		{"the consent is gone", fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied}, fault.AccessDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lift := h.fake.Fail(tt.fault)
			defer lift()
			_, err := h.Survey(t.Context(), h.acc.ID, d.ID)
			refused(t, err, tt.want)
		})
	}
	if h.tenant(t).Consent != tenant.ConsentRevoked {
		t.Error("a lost consent was not noticed")
	}
	_, err := h.Survey(t.Context(), h.acc.ID, d.ID)
	refused(t, err, fault.AccessDenied)
}

// TestSurveyWithoutThePlatform checks that stored records suffice while the platform is down or the
// consent is gone.
func TestSurveyWithoutThePlatform(t *testing.T) {
	h := newFixture(t)
	d := h.verified(t)
	d.Signing = dns.Signing{}
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, d, nil))
	h.fake.Fail(fake.Fault{Kind: outcome.Down})
	if got := actions(h.survey(t).Plan); got[dns.Inbound] == "" || got[dns.Selector1] != "" {
		t.Errorf("got %v", got)
	}
	h.changeTenant(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentRevoked })
	if got := actions(h.survey(t).Plan); got[dns.Inbound] == "" {
		t.Errorf("got %v", got)
	}
}

// TestSurveyBeforeVerification checks a platform that returns only the ownership record before
// verification.
func TestSurveyBeforeVerification(t *testing.T) {
	h := newFixture(t)
	d := h.added(t).Domain
	d.Service = nil
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, d, nil))
	calls := h.platformCalls()
	h.fake.DNS.Publish(zone, dns.Record{Type: dns.MX, Name: zone, Content: "mx.other.test", Preference: 5})
	want := map[dns.Purpose]string{dns.Ownership: "create missing", dns.Policy: "create missing", dns.Inbound: "conflict mx_other_provider"}
	if diff := cmp.Diff(want, actions(h.survey(t).Plan)); diff != "" {
		t.Error(diff)
	}
	if h.platformCalls() != calls {
		t.Error("the mail platform was asked")
	}
}
