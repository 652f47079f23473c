// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestRepeatedEnableDKIMCallsThePlatformOnce(t *testing.T) {
	fx := newFixture(t)
	fx.addAndPublishDKIM(t)
	d, err := fx.EnableDKIM(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	if !d.DKIMEnabled || !fx.storedDomain(t).DKIMEnabled || d.Status.DKIM != dns.DKIMHealthy {
		t.Fatalf("got %+v, want DKIM enabled and healthy, also in the store", d)
	}
	_, err = fx.EnableDKIM(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	if fx.fake.Calls("EnableSigning") != 1 {
		t.Fatalf("EnableSigning was called %d times, want once", fx.fake.Calls("EnableSigning"))
	}
}

func TestEnableDKIMReportsWhyItFailed(t *testing.T) {
	notReady := func(t *testing.T, fx *fixture) {
		fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	}
	for _, tc := range []struct {
		name     string
		arrange  func(*testing.T, *fixture)
		want     fault.Code // the zero Code if EnableDKIM succeeds
		wantCall bool       // whether EnableSigning is called
	}{
		{"an unverified domain", func(t *testing.T, fx *fixture) { fx.addDomain(t) }, fault.DKIMNotReady, false},
		{"an unverified domain of a tenant that is not ready", func(t *testing.T, fx *fixture) { fx.addDomain(t); notReady(t, fx) }, fault.DKIMNotReady, false},
		{"a tenant that is not ready", func(t *testing.T, fx *fixture) { fx.addAndPublishDKIM(t); notReady(t, fx) }, fault.ExchangeNotReady, false},
		{"no DKIM targets", func(t *testing.T, fx *fixture) {
			fx.lagMailServer()
			fx.addAndVerify(t)
		}, fault.DKIMNotReady, false},
		{"no CNAME published", func(t *testing.T, fx *fixture) { fx.addAndVerify(t) }, fault.DKIMNotReady, false},
		{"one CNAME published", func(t *testing.T, fx *fixture) {
			d := fx.addAndVerify(t)
			fx.publish(d, d.Signing.Selector1)
		}, fault.DKIMNotReady, false},
		{"one CNAME to a wrong target", func(t *testing.T, fx *fixture) {
			d := fx.addAndVerify(t)
			wrongSelector := d.Signing.Selector2
			wrongSelector.Content = "elsewhere.test"
			fx.publish(d, d.Signing.Selector1, wrongSelector)
		}, fault.DKIMNotReady, false},
		{"the platform does not see the CNAMEs", func(t *testing.T, fx *fixture) {
			fx.addAndPublishDKIM(t)
			fx.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Refused, Code: fault.DKIMNotReady})
		}, fault.DKIMNotReady, true},
		{"the answer is lost", func(t *testing.T, fx *fixture) {
			fx.addAndPublishDKIM(t)
			fx.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Unknown, AfterEffect: true})
		}, fault.Code{}, true},
		{"the request is lost", func(t *testing.T, fx *fixture) {
			fx.addAndPublishDKIM(t)
			fx.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Unknown})
		}, fault.ProviderTimeout, true},
		{"the platform is throttled", func(t *testing.T, fx *fixture) {
			fx.addAndPublishDKIM(t)
			fx.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Throttled})
		}, fault.ProviderUnavailable, true},
		{"the role at the mail server was withdrawn", func(t *testing.T, fx *fixture) {
			fx.addAndPublishDKIM(t)
			fx.fake.Revoke(guid, "exchange_role")
		}, fault.AccessDenied, false},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newFixture(t)
			tc.arrange(t, fx)
			_, err := fx.EnableDKIM(t.Context(), fx.account.ID, guid, zone)
			succeeds := tc.want == (fault.Code{})
			if succeeds {
				must(t, err)
			} else {
				requireRefusal(t, err, tc.want)
			}
			if fx.storedDomain(t).DKIMEnabled != succeeds || (fx.fake.Calls("EnableSigning") > 0) != tc.wantCall {
				t.Fatalf("stored as enabled %v, want %v; EnableSigning was called %d times, want a call: %v",
					fx.storedDomain(t).DKIMEnabled, succeeds, fx.fake.Calls("EnableSigning"), tc.wantCall)
			}
			if fx.storedTenant(t).Consent != tenant.ConsentGranted {
				t.Fatal("a valid consent is stored as revoked")
			}
		})
	}
}

func TestDKIMStatusFollowsThePublishedRecords(t *testing.T) {
	for _, tc := range []struct {
		name                         string
		arrange                      func(*testing.T, *fixture)
		wantStatus                   string
		wantSelector1, wantSelector2 dns.SelectorState
	}{
		{"an unverified domain", func(t *testing.T, fx *fixture) { fx.addDomain(t) }, domain.DKIMPending, dns.SelectorMissing, dns.SelectorMissing},
		{"one CNAME published", func(t *testing.T, fx *fixture) {
			d := fx.addAndVerify(t)
			fx.publish(d, d.Signing.Selector1)
		}, domain.DKIMPending, dns.SelectorPropagated, dns.SelectorMissing},
		{"one CNAME to a wrong target", func(t *testing.T, fx *fixture) {
			d := fx.addAndVerify(t)
			wrongSelector := d.Signing.Selector2
			wrongSelector.Content = "elsewhere.test"
			fx.publish(d, d.Signing.Selector1, wrongSelector)
		}, domain.DKIMPending, dns.SelectorPropagated, dns.SelectorMismatch},
		{"both CNAMEs published", func(t *testing.T, fx *fixture) { fx.addAndPublishDKIM(t) }, domain.DKIMReady, dns.SelectorPropagated, dns.SelectorPropagated},
		{"DKIM enabled", func(t *testing.T, fx *fixture) {
			fx.addAndPublishDKIM(t)
			_, err := fx.EnableDKIM(t.Context(), fx.account.ID, guid, zone)
			must(t, err)
		}, domain.DKIMEnabled, dns.SelectorPropagated, dns.SelectorPropagated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			tc.arrange(t, fx)
			reads := fx.fake.DNS.Reads()
			got, err := fx.DKIMStatus(t.Context(), fx.account.ID, guid, zone)
			must(t, err)
			if got.Status != tc.wantStatus || got.Selector1 != tc.wantSelector1 || got.Selector2 != tc.wantSelector2 ||
				got.ReadyToEnable != (tc.wantStatus == domain.DKIMReady) || got.CheckedAt.IsZero() {
				t.Fatalf("got %+v, want %s with the selectors %s and %s", got, tc.wantStatus, tc.wantSelector1, tc.wantSelector2)
			}
			if fx.fake.DNS.Reads() == reads {
				t.Fatal("the DNS was not read")
			}
		})
	}
}

func TestDKIMStatusReadsMissingTargets(t *testing.T) {
	fx := newFixture(t)
	d := fx.addAndVerify(t)
	signing := d.Signing
	d.Signing = dns.Signing{}
	must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, d, nil))
	fx.publish(d, signing.Selector1, signing.Selector2)
	got, err := fx.DKIMStatus(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	if got.Status != domain.DKIMReady || fx.storedDomain(t).Signing != signing {
		t.Fatalf("got %+v, want ready with the stored targets", got)
	}
	fx.fake.Revoke(guid, "consent")
	must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, d.WithSigning(dns.Signing{}, fx.Now()), nil))
	_, err = fx.DKIMStatus(t.Context(), fx.account.ID, guid, zone)
	requireRefusal(t, err, fault.AccessDenied)
}
