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

func TestEnableDKIM(t *testing.T) {
	h := newFixture(t)
	h.signable(t)
	d, err := h.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if !d.DKIMEnabled || !h.stored(t).DKIMEnabled || d.Status.DKIM != dns.DKIMHealthy {
		t.Fatalf("got %+v", d)
	}
	_, err = h.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if h.fake.Calls("EnableSigning") != 1 {
		t.Fatalf("asked %d times", h.fake.Calls("EnableSigning"))
	}
}

func TestEnableDKIMRefusals(t *testing.T) {
	notReady := func(t *testing.T, h *fixture) {
		h.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	}
	for _, tt := range []struct {
		name    string
		arrange func(*testing.T, *fixture)
		want    fault.Code // the zero Code: none
		asked   bool
	}{
		{"an unverified domain", func(t *testing.T, h *fixture) { h.added(t) }, fault.DKIMNotReady, false},
		{"the rules before the state", func(t *testing.T, h *fixture) { h.added(t); notReady(t, h) }, fault.DKIMNotReady, false},
		{"bootstrap not ready", func(t *testing.T, h *fixture) { h.signable(t); notReady(t, h) }, fault.ExchangeNotReady, false},
		{"no records made", func(t *testing.T, h *fixture) {
			h.lag()
			h.verified(t)
		}, fault.DKIMNotReady, false},
		{"no CNAME published", func(t *testing.T, h *fixture) { h.verified(t) }, fault.DKIMNotReady, false},
		{"one CNAME published", func(t *testing.T, h *fixture) {
			d := h.verified(t)
			h.publish(d, d.Signing.Selector1)
		}, fault.DKIMNotReady, false},
		{"a CNAME to somewhere else", func(t *testing.T, h *fixture) {
			d := h.verified(t)
			wrong := d.Signing.Selector2
			wrong.Content = "elsewhere.test"
			h.publish(d, d.Signing.Selector1, wrong)
		}, fault.DKIMNotReady, false},
		{"the platform does not see them", func(t *testing.T, h *fixture) {
			h.signable(t)
			h.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Refused, Code: fault.DKIMNotReady})
		}, fault.DKIMNotReady, true},
		{"the answer is lost", func(t *testing.T, h *fixture) {
			h.signable(t)
			h.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Unknown, AfterEffect: true})
		}, fault.Code{}, true},
		{"the request is lost", func(t *testing.T, h *fixture) {
			h.signable(t)
			h.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Unknown})
		}, fault.ProviderTimeout, true},
		{"the platform is throttled", func(t *testing.T, h *fixture) {
			h.signable(t)
			h.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Throttled})
		}, fault.ProviderUnavailable, true},
		{"the mail server's grant is gone", func(t *testing.T, h *fixture) {
			h.signable(t)
			h.fake.Revoke(guid, "exchange_role")
		}, fault.AccessDenied, false},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			h := newFixture(t)
			tt.arrange(t, h)
			_, err := h.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
			done := tt.want == (fault.Code{})
			if done {
				must(t, err)
			} else {
				refused(t, err, tt.want)
			}
			if h.stored(t).DKIMEnabled != done || (h.fake.Calls("EnableSigning") > 0) != tt.asked {
				t.Fatalf("stored as enabled %v, asked %d times", h.stored(t).DKIMEnabled, h.fake.Calls("EnableSigning"))
			}
			if h.tenant(t).Consent != tenant.ConsentGranted {
				t.Fatal("a valid consent is stored as revoked")
			}
		})
	}
}

func TestDKIMStatus(t *testing.T) {
	for _, tt := range []struct {
		name     string
		arrange  func(*testing.T, *fixture)
		status   string
		one, two dns.Selector
	}{
		{"unverified", func(t *testing.T, h *fixture) { h.added(t) }, domain.DKIMPending, dns.SelectorMissing, dns.SelectorMissing},
		{"one of two", func(t *testing.T, h *fixture) {
			d := h.verified(t)
			h.publish(d, d.Signing.Selector1)
		}, domain.DKIMPending, dns.SelectorPropagated, dns.SelectorMissing},
		{"one elsewhere", func(t *testing.T, h *fixture) {
			d := h.verified(t)
			wrong := d.Signing.Selector2
			wrong.Content = "elsewhere.test"
			h.publish(d, d.Signing.Selector1, wrong)
		}, domain.DKIMPending, dns.SelectorPropagated, dns.SelectorMismatch},
		{"both", func(t *testing.T, h *fixture) { h.signable(t) }, domain.DKIMReady, dns.SelectorPropagated, dns.SelectorPropagated},
		{"enabled", func(t *testing.T, h *fixture) {
			h.signable(t)
			_, err := h.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
			must(t, err)
		}, domain.DKIMEnabled, dns.SelectorPropagated, dns.SelectorPropagated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(t)
			tt.arrange(t, h)
			reads := h.fake.DNS.Reads()
			r, err := h.DKIMStatus(t.Context(), h.acc.ID, guid, zone)
			must(t, err)
			if r.Status != tt.status || r.Selector1 != tt.one || r.Selector2 != tt.two ||
				r.ReadyToEnable != (tt.status == domain.DKIMReady) || r.CheckedAt.IsZero() {
				t.Fatalf("got %+v", r)
			}
			if h.fake.DNS.Reads() == reads {
				t.Fatal("the DNS was not read")
			}
		})
	}
}

func TestDKIMStatusReadsMissingTargets(t *testing.T) {
	h := newFixture(t)
	d := h.verified(t)
	known := d.Signing
	d.Signing = dns.Signing{}
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, d, nil))
	h.publish(d, known.Selector1, known.Selector2)
	r, err := h.DKIMStatus(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if r.Status != domain.DKIMReady || h.stored(t).Signing != known {
		t.Fatalf("got %+v", r)
	}
	h.fake.Revoke(guid, "consent")
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, d.WithSigning(dns.Signing{}, h.Now()), nil))
	_, err = h.DKIMStatus(t.Context(), h.acc.ID, guid, zone)
	refused(t, err, fault.AccessDenied)
}
