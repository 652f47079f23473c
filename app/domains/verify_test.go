// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestVerifySettlesTheDomain(t *testing.T) {
	h := newHouse(t)
	d := h.verified(t)
	if !d.Verified || !d.MailReady || d.DKIM || len(d.Service) == 0 || d.Signing.Selector2.Content == "" || !d.Status.VerificationSeen {
		t.Fatalf("got %+v", d)
	}
	stored := h.stored(t, zone)
	if !stored.Verified || !stored.MailReady || len(stored.Service) == 0 || stored.Signing != d.Signing {
		t.Fatalf("stored %+v", stored)
	}
	again, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if !again.Verified || h.fake.Effects("VerifyDomain") != 1 || h.fake.Effects("EnsureSigning") != 1 {
		t.Fatalf("again: %+v", again)
	}
}

func TestVerifyBeforeTheMailServerIsReady(t *testing.T) {
	h := newHouse(t)
	h.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	d := h.verified(t)
	if !d.Verified || d.MailReady || len(d.Service) == 0 || h.fake.Calls("MailDomains") != 0 {
		t.Fatalf("got %+v", d)
	}
}

func TestVerifyWhileTheMailServerLags(t *testing.T) {
	h := newHouse(t)
	h.lag()
	if d := h.verified(t); !d.Verified || d.MailReady || len(d.Service) == 0 {
		t.Fatalf("got %+v", d)
	}
}

func TestVerifyFails(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrange func(*house)
		want    fault.Code // the zero Code: none
	}{
		{"the record is missing", func(h *house) { h.fake.DNS.Publish(zone) }, fault.VerificationFailed},
		{"the domain belongs to another tenant", func(h *house) { h.fake.TakeDomain(zone) }, fault.DomainUnavailable},
		{"the answer is lost", func(h *house) {
			h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Unknown, AfterEffect: true})
		}, fault.Code{}},
		{"the request is lost", func(h *house) {
			h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Unknown})
		}, fault.ProviderTimeout},
		{"the platform is throttled", func(h *house) {
			h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Throttled})
		}, fault.ProviderUnavailable},
		{"consent is gone", func(h *house) { h.fake.Revoke(guid, "consent") }, fault.AccessDenied},
		{"the mail server's grant is gone", func(h *house) { h.fake.Revoke(guid, "exchange_role") }, fault.Code{}},
		{"the pass is throttled", func(h *house) {
			h.fake.Fail(fake.Fault{Method: "EnableMail", Kind: outcome.Throttled})
		}, fault.Code{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
			h.published(t)
			tt.arrange(h)
			d, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
			if tt.want == (fault.Code{}) {
				must(t, err)
			} else {
				refused(t, err, tt.want)
			}
			if done := tt.want == (fault.Code{}); d.Verified != done || h.stored(t, zone).Verified != done {
				t.Fatalf("answered %v, stored %v", d.Verified, h.stored(t, zone).Verified)
			}
		})
	}
}

// A domain is verified even when the consent is lost just then.
func TestVerifyNoticesALostConsent(t *testing.T) {
	h := newHouse(t)
	h.published(t)
	for _, method := range []string{"EnableMail", "Profile"} {
		h.fake.Fail(fake.Fault{Method: method, Kind: outcome.Refused, Code: fault.AccessDenied})
	}
	d, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if !d.Verified || h.tenant(t).Consent != tenant.ConsentRevoked {
		t.Fatalf("verified %v, consent %s", d.Verified, h.tenant(t).Consent)
	}
}

// A failed verification shows in the stored DNS whether the record is missing
// or only not seen by the platform yet.
func TestFailedVerificationLooksAtTheDNS(t *testing.T) {
	h := newHouse(t)
	h.published(t)
	h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.VerificationFailed, Times: 1})
	_, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
	refused(t, err, fault.VerificationFailed)
	if !h.stored(t, zone).Status.VerificationSeen {
		t.Fatal("the published record is not seen")
	}
	h.fake.DNS.Trouble("no_authoritative_answer")
	h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.VerificationFailed, Times: 1})
	_, err = h.Verify(t.Context(), h.acc.ID, guid, zone)
	refused(t, err, fault.VerificationFailed)
	if !h.stored(t, zone).Status.VerificationSeen {
		t.Fatal("a read without answers took back what an earlier one saw")
	}
}

func TestVerifyGoesOnWithoutItsCaller(t *testing.T) {
	h := newHouse(t)
	h.published(t)
	gate := h.fake.Hold("VerifyDomain")
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := h.Verify(ctx, h.acc.ID, guid, zone)
		done <- err
	}()
	<-gate.Arrived()
	leave()
	gate.Release()
	must(t, <-done)
	if !h.stored(t, zone).Verified {
		t.Fatal("it is not stored")
	}
}

func TestEnableDKIM(t *testing.T) {
	h := newHouse(t)
	h.signable(t)
	d, err := h.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if !d.DKIM || !h.stored(t, zone).DKIM || d.Status.DKIM != dns.DKIMHealthy {
		t.Fatalf("got %+v", d)
	}
	_, err = h.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if h.fake.Calls("EnableSigning") != 1 {
		t.Fatalf("asked %d times", h.fake.Calls("EnableSigning"))
	}
}

func TestEnableDKIMRefusals(t *testing.T) {
	notReady := func(t *testing.T, h *house) {
		h.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	}
	for _, tt := range []struct {
		name    string
		arrange func(*testing.T, *house)
		want    fault.Code // the zero Code: none
		asked   bool
	}{
		{"an unverified domain", func(t *testing.T, h *house) { h.added(t) }, fault.DKIMNotReady, false},
		{"the rules before the state", func(t *testing.T, h *house) { h.added(t); notReady(t, h) }, fault.DKIMNotReady, false},
		{"bootstrap not ready", func(t *testing.T, h *house) { h.signable(t); notReady(t, h) }, fault.ExchangeNotReady, false},
		{"no records made", func(t *testing.T, h *house) {
			h.lag()
			h.verified(t)
		}, fault.DKIMNotReady, false},
		{"no CNAME published", func(t *testing.T, h *house) { h.verified(t) }, fault.DKIMNotReady, false},
		{"one CNAME published", func(t *testing.T, h *house) {
			d := h.verified(t)
			h.publish(d, d.Signing.Selector1)
		}, fault.DKIMNotReady, false},
		{"a CNAME to somewhere else", func(t *testing.T, h *house) {
			d := h.verified(t)
			wrong := d.Signing.Selector2
			wrong.Content = "elsewhere.test"
			h.publish(d, d.Signing.Selector1, wrong)
		}, fault.DKIMNotReady, false},
		{"the platform does not see them", func(t *testing.T, h *house) {
			h.signable(t)
			h.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Refused, Code: fault.DKIMNotReady})
		}, fault.DKIMNotReady, true},
		{"the answer is lost", func(t *testing.T, h *house) {
			h.signable(t)
			h.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Unknown, AfterEffect: true})
		}, fault.Code{}, true},
		{"the request is lost", func(t *testing.T, h *house) {
			h.signable(t)
			h.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Unknown})
		}, fault.ProviderTimeout, true},
		{"the platform is throttled", func(t *testing.T, h *house) {
			h.signable(t)
			h.fake.Fail(fake.Fault{Method: "EnableSigning", Kind: outcome.Throttled})
		}, fault.ProviderUnavailable, true},
		{"the mail server's grant is gone", func(t *testing.T, h *house) {
			h.signable(t)
			h.fake.Revoke(guid, "exchange_role")
		}, fault.AccessDenied, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
			tt.arrange(t, h)
			_, err := h.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
			done := tt.want == (fault.Code{})
			if done {
				must(t, err)
			} else {
				refused(t, err, tt.want)
			}
			if h.stored(t, zone).DKIM != done || (h.fake.Calls("EnableSigning") > 0) != tt.asked {
				t.Fatalf("stored as enabled %v, asked %d times", h.stored(t, zone).DKIM, h.fake.Calls("EnableSigning"))
			}
			if h.tenant(t).Consent != tenant.ConsentGranted {
				t.Fatal("a consent that holds is stored as revoked")
			}
		})
	}
}

func TestDKIMStatus(t *testing.T) {
	for _, tt := range []struct {
		name     string
		arrange  func(*testing.T, *house)
		status   string
		one, two dns.Selector
	}{
		{"unverified", func(t *testing.T, h *house) { h.added(t) }, domain.DKIMPending, dns.SelectorMissing, dns.SelectorMissing},
		{"one of two", func(t *testing.T, h *house) {
			d := h.verified(t)
			h.publish(d, d.Signing.Selector1)
		}, domain.DKIMPending, dns.SelectorPropagated, dns.SelectorMissing},
		{"one elsewhere", func(t *testing.T, h *house) {
			d := h.verified(t)
			wrong := d.Signing.Selector2
			wrong.Content = "elsewhere.test"
			h.publish(d, d.Signing.Selector1, wrong)
		}, domain.DKIMPending, dns.SelectorPropagated, dns.SelectorMismatch},
		{"both", func(t *testing.T, h *house) { h.signable(t) }, domain.DKIMReady, dns.SelectorPropagated, dns.SelectorPropagated},
		{"enabled", func(t *testing.T, h *house) {
			h.signable(t)
			_, err := h.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
			must(t, err)
		}, domain.DKIMEnabled, dns.SelectorPropagated, dns.SelectorPropagated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
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

func TestDKIMStatusAsksForTargetsItDoesNotKnow(t *testing.T) {
	h := newHouse(t)
	d := h.verified(t)
	known := d.Signing
	d.Signing = dns.Signing{}
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, d))
	h.publish(d, known.Selector1, known.Selector2)
	r, err := h.DKIMStatus(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if r.Status != domain.DKIMReady || h.stored(t, zone).Signing != known {
		t.Fatalf("got %+v", r)
	}
	h.fake.Revoke(guid, "consent")
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, d))
	_, err = h.DKIMStatus(t.Context(), h.acc.ID, guid, zone)
	refused(t, err, fault.AccessDenied)
}
