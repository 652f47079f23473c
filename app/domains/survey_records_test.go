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
	fx := newFixture(t)
	d := fx.addAndVerify(t)
	d.MailReady, d.Verification, d.Service, d.Signing = false, nil, nil, dns.Signing{} // no record is stored
	must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, d, nil))
	if got := fx.survey(t).Plan.Desired; len(got) != 7 {
		t.Errorf("the survey has the records %+v, want 7: ownership, MX, SPF, Autodiscover, DMARC and two of DKIM", got)
	}
	if stored := fx.storedDomain(t); len(stored.Service) != 0 {
		t.Error("the survey stored the records")
	}
	for _, tc := range []struct {
		name  string
		fault fake.Fault
		want  fault.Code
	}{
		{"the platform is down", fake.Fault{Method: "Records", Kind: outcome.Down}, fault.ProviderUnavailable},
		{"the answer is lost", fake.Fault{Method: "Records", Kind: outcome.Unknown}, fault.ProviderTimeout},
		{"the answer is broken", fake.Fault{Method: "Records", Kind: outcome.Broken}, fault.ProviderError},
		{"the consent was withdrawn", fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied}, fault.AccessDenied},
	} {
		t.Run(tc.name, func(t *testing.T) {
			endFault := fx.fake.Fail(tc.fault)
			defer endFault()
			_, err := fx.Survey(t.Context(), fx.account.ID, d.ID)
			requireRefusal(t, err, tc.want)
		})
	}
	if fx.storedTenant(t).Consent != tenant.ConsentRevoked {
		t.Error("the lost consent is not stored")
	}
	_, err := fx.Survey(t.Context(), fx.account.ID, d.ID)
	requireRefusal(t, err, fault.AccessDenied)
}

// TestSurveyWithoutThePlatformUsesStoredRecords checks that a survey uses the stored records while
// the platform is down or the consent is revoked.
func TestSurveyWithoutThePlatformUsesStoredRecords(t *testing.T) {
	fx := newFixture(t)
	d := fx.addAndVerify(t)
	d.Signing = dns.Signing{}
	must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, d, nil))
	fx.fake.Fail(fake.Fault{Kind: outcome.Down})
	if got := actions(fx.survey(t).Plan); got[dns.Inbound] == "" || got[dns.Selector1] != "" {
		t.Errorf("while the platform is down the actions are %v, want one for MX and none for the DKIM selectors", got)
	}
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentRevoked })
	if got := actions(fx.survey(t).Plan); got[dns.Inbound] == "" {
		t.Errorf("without consent the actions are %v, want one for MX", got)
	}
}

// TestSurveyBeforeVerificationNeedsNoPlatform checks an unverified domain for which the platform
// has returned only the ownership record. The survey does not call the platform for the missing
// records.
func TestSurveyBeforeVerificationNeedsNoPlatform(t *testing.T) {
	fx := newFixture(t)
	d := fx.addDomain(t).Domain
	d.Service = nil
	must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, d, nil))
	calls := fx.platformCalls()
	fx.fake.DNS.Publish(zone, dns.Record{Type: dns.MX, Name: zone, Content: "mx.other.test", Preference: 5})
	want := map[dns.Purpose]string{dns.Ownership: "create missing", dns.Policy: "create missing", dns.Inbound: "conflict mx_other_provider"}
	if diff := cmp.Diff(want, actions(fx.survey(t).Plan)); diff != "" {
		t.Errorf("the actions (-want +got):\n%s", diff)
	}
	if fx.platformCalls() != calls {
		t.Error("the mail platform was called")
	}
}
