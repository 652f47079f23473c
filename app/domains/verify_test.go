// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestVerifyReconcilesTheDomain(t *testing.T) {
	h := newFixture(t)
	d := h.verified(t)
	if !d.Verified || !d.MailReady || d.DKIM || len(d.Service) == 0 || d.Signing.Selector2.Content == "" || !d.Status.VerificationSeen {
		t.Fatalf("got %+v", d)
	}
	stored := h.stored(t)
	if !stored.Verified || !stored.MailReady || len(stored.Service) == 0 || stored.Signing != d.Signing {
		t.Fatalf("stored %+v", stored)
	}
	again, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if !again.Verified || h.fake.Effects("VerifyDomain") != 1 || h.fake.Effects("EnsureSigning") != 1 {
		t.Fatalf("again: %+v", again)
	}
}

// TestVerifyOfADomainThatWasAddedAgain checks that the state of a removed domain does not count for
// a new domain with the same name.
func TestVerifyOfADomainThatWasAddedAgain(t *testing.T) {
	h := newFixture(t)
	h.verified(t)
	must(t, h.fake.For(guid).RemoveDomain(t.Context(), zone))
	h.addAtPlatform(t)
	d, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if n := h.fake.Effects("EnableMail"); n != 2 || !d.Verified || !d.MailReady {
		t.Fatalf("mail was enabled %d times, the domain is %+v", n, d)
	}
}

// TestVerifyOfAVerifiedDomainThatReplicasHide checks that one lagging read does not fail a
// verification.
func TestVerifyOfAVerifiedDomainThatReplicasHide(t *testing.T) {
	h := newFixture(t)
	h.verified(t)
	h.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.DomainNotFound, Times: 1})
	d, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	if !d.Verified || !d.MailReady || h.fake.Calls("VerifyDomain") != 2 {
		t.Fatalf("got %+v", d)
	}
	must(t, h.fake.For(guid).RemoveDomain(t.Context(), zone))
	_, err = h.Verify(t.Context(), h.acc.ID, guid, zone)
	refused(t, err, fault.DomainNotFound)
}

// TestFailedVerificationStoresANewDomain checks that a domain that was removed and added again is
// stored as not verified, although its verification fails. Soon after the first verification, only
// a failed verification shows that the domain is new, because replicas can show the old state.
func TestFailedVerificationStoresANewDomain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration // since the first verification
		code  fault.Code
		held  bool // the domain stays verified
	}{
		{"not verified soon after", time.Minute, fault.VerificationFailed, false},
		{"an error soon after", time.Minute, fault.ProviderError, true},
		{"not verified later", observation.ReplicaLag, fault.VerificationFailed, false},
		{"an error later", observation.ReplicaLag, fault.ProviderError, false},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			h := newFixture(t)
			h.verified(t)
			must(t, h.fake.For(guid).RemoveDomain(t.Context(), zone))
			h.addAtPlatform(t)
			time.Sleep(tt.after)
			h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: tt.code, Times: 1})
			_, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
			refused(t, err, tt.code)
			if d := h.stored(t); d.Verified != tt.held || d.MailReady {
				t.Errorf("stored is %+v", d)
			}
			d, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
			must(t, err)
			if !d.Verified || !h.stored(t).Verified {
				t.Errorf("after the next verification, stored is %+v", d)
			}
		})
	}
}

// TestLaggingListKeepsAVerifiedDomain checks that a discovery does not unverify a domain while the
// platform's replicas may show the state before its verification. A later discovery does.
func TestLaggingListKeepsAVerifiedDomain(t *testing.T) {
	lost := func(h *fixture) {
		h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	}
	for name, arrange := range map[string]func(*fixture){"answered": func(*fixture) {}, "its answer is lost": lost} {
		inFakeTime(t, name, func(t *testing.T) {
			h := newFixture(t)
			h.published(t)
			arrange(h)
			_, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
			must(t, err)
			discover := func(after time.Duration, verified bool) {
				t.Helper()
				time.Sleep(after)
				found := ports.Found{Began: h.Now(), At: h.Now(), Domains: []domain.Platform{{Name: zone}}}
				must(t, h.store.SaveDiscovery(t.Context(), h.acc.ID, guid, found))
				if d := h.stored(t); d.Verified != verified || d.MailReady != verified {
					t.Errorf("stored is %+v", d)
				}
			}
			discover(time.Second, true)
			discover(observation.ReplicaLag-time.Minute, true)
			discover(time.Minute, false)
		})
	}
}

func TestVerifyBeforeTheMailServerIsReady(t *testing.T) {
	h := newFixture(t)
	h.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	d := h.verified(t)
	if !d.Verified || d.MailReady || len(d.Service) == 0 || h.fake.Calls("MailDomains") != 0 {
		t.Fatalf("got %+v", d)
	}
}

func TestVerifyWhileTheMailServerLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		h.lag()
		if d := h.verified(t); !d.Verified || d.MailReady || len(d.Service) == 0 {
			t.Fatalf("got %+v", d)
		}
	})
}

func TestVerifyReportsWhyItFailed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrange func(*fixture)
		want    fault.Code // the zero Code: none
	}{
		{"the record is missing", func(h *fixture) { h.fake.DNS.Publish(zone) }, fault.VerificationFailed},
		{"the domain belongs to another tenant", func(h *fixture) { h.fake.TakeDomain(zone) }, fault.DomainUnavailable},
		{"the answer is lost", func(h *fixture) {
			h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Unknown, AfterEffect: true})
		}, fault.Code{}},
		{"the request is lost", func(h *fixture) {
			h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Unknown})
		}, fault.ProviderTimeout},
		{"the platform is throttled", func(h *fixture) {
			h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Throttled})
		}, fault.ProviderUnavailable},
		{"the platform refuses the request", func(h *fixture) {
			h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.ProviderError})
		}, fault.ProviderError},
		{"consent is gone", func(h *fixture) { h.fake.Revoke(guid, "consent") }, fault.AccessDenied},
		{"the mail server's grant is gone", func(h *fixture) { h.fake.Revoke(guid, "exchange_role") }, fault.Code{}},
		{"the pass is throttled", func(h *fixture) {
			h.fake.Fail(fake.Fault{Method: "EnableMail", Kind: outcome.Throttled})
		}, fault.Code{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(t)
			h.published(t)
			tt.arrange(h)
			d, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
			if tt.want == (fault.Code{}) {
				must(t, err)
			} else {
				refused(t, err, tt.want)
			}
			if done := tt.want == (fault.Code{}); d.Verified != done || h.stored(t).Verified != done {
				t.Fatalf("answered %v, stored %v", d.Verified, h.stored(t).Verified)
			}
		})
	}
}

// TestVerifyNoticesALostConsent checks that a domain counts as verified even when the consent is
// lost during the pass.
func TestVerifyNoticesALostConsent(t *testing.T) {
	h := newFixture(t)
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

// TestFailedVerificationNamesTheExpectedRecord checks that the error repeats the record to publish.
func TestFailedVerificationNamesTheExpectedRecord(t *testing.T) {
	h := newFixture(t)
	h.published(t)
	h.fake.DNS.Publish(zone)
	_, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
	refused(t, err, fault.VerificationFailed)
	record, _ := dns.Verification(h.stored(t).Verification)
	if want := "It expects this record: TXT at " + zone + " with the content " + record.Content; record.Content == "" || !strings.Contains(fault.Of(err).Detail, want) {
		t.Errorf("it says %q, want %q", fault.Of(err).Detail, want)
	}
	if outcome.Of(err) != outcome.NotReady && outcome.Of(err) != outcome.Refused {
		t.Errorf("the outcome is lost: %v", err)
	}
}

// TestFailedVerificationReadsTheDNS checks that the stored DNS shows whether the record is
// missing or only not visible to the platform.
func TestFailedVerificationReadsTheDNS(t *testing.T) {
	h := newFixture(t)
	h.published(t)
	h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.VerificationFailed, Times: 1})
	_, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
	refused(t, err, fault.VerificationFailed)
	if !h.stored(t).Status.VerificationSeen {
		t.Fatal("the published record is not seen")
	}
	h.fake.DNS.FailReads("no_authoritative_answer")
	h.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.VerificationFailed, Times: 1})
	_, err = h.Verify(t.Context(), h.acc.ID, guid, zone)
	refused(t, err, fault.VerificationFailed)
	if !h.stored(t).Status.VerificationSeen {
		t.Fatal("a read without answers deleted the result of an earlier read")
	}
}

func TestVerifyContinuesWithoutItsCaller(t *testing.T) {
	h := newFixture(t)
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
	if !h.stored(t).Verified {
		t.Fatal("it is not stored")
	}
}
