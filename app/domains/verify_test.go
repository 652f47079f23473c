// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestVerifyReconcilesTheDomain(t *testing.T) {
	fx := newFixture(t)
	d := fx.addAndVerify(t)
	if !d.Verified || !d.MailReady || d.DKIMEnabled || len(d.Service) == 0 || d.Signing.Selector2.Content == "" || !d.Status.VerificationSeen {
		t.Fatalf("Verify returns %+v, want the domain verified and ready for mail, with service and DKIM records, but DKIM not enabled", d)
	}
	stored := fx.storedDomain(t)
	if !stored.Verified || !stored.MailReady || len(stored.Service) == 0 || stored.Signing != d.Signing {
		t.Fatalf("the stored domain is %+v, want it verified and ready for mail, with the records that Verify returned", stored)
	}
	repeated, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	if !repeated.Verified || fx.fake.Effects("VerifyDomain") != 1 || fx.fake.Effects("EnsureSigning") != 1 {
		t.Fatalf("the repeated Verify returns %+v, want it verified without a second effect at the platform", repeated)
	}
}

// TestVerifyIgnoresTheStateOfARemovedDomain checks that Verify does not use the stored state of a
// removed domain for a new domain with the same name.
func TestVerifyIgnoresTheStateOfARemovedDomain(t *testing.T) {
	fx := newFixture(t)
	fx.addAndVerify(t)
	must(t, fx.fake.For(guid).RemoveDomain(t.Context(), zone))
	fx.addAtPlatform(t)
	d, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	if n := fx.fake.Effects("EnableMail"); n != 2 || !d.Verified || !d.MailReady {
		t.Fatalf("EnableMail took effect %d times, want 2; the domain is %+v, want it verified and ready for mail", n, d)
	}
}

func TestOneLaggingReadDoesNotFailVerify(t *testing.T) {
	fx := newFixture(t)
	fx.addAndVerify(t)
	fx.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.DomainNotFound, Times: 1})
	d, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	if !d.Verified || !d.MailReady || fx.fake.Calls("VerifyDomain") != 2 {
		t.Fatalf("after one lagging read the domain is %+v, want it verified by a second call of VerifyDomain", d)
	}
	must(t, fx.fake.For(guid).RemoveDomain(t.Context(), zone))
	_, err = fx.Verify(t.Context(), fx.account.ID, guid, zone)
	requireRefusal(t, err, fault.DomainNotFound)
}

// TestFailedVerificationNoticesADomainAddedAgain verifies a domain that was verified, removed and
// added again. First a read shows the domain as not verified, then the verification fails. Within
// ReplicaLag after the first verification, this read can come from a lagging replica. Within that
// time, the domain is stored as not verified only if the error is verification_failed. Later, it is
// stored as not verified after any error.
func TestFailedVerificationNoticesADomainAddedAgain(t *testing.T) {
	for _, tc := range []struct {
		name          string
		after         time.Duration // since the first verification
		code          fault.Code    // of the failed verification
		staysVerified bool
	}{
		{"a failed verification soon after", time.Minute, fault.VerificationFailed, false},
		{"another error soon after", time.Minute, fault.ProviderError, true},
		{"a failed verification later", observation.ReplicaLag, fault.VerificationFailed, false},
		{"another error later", observation.ReplicaLag, fault.ProviderError, false},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.addAndVerify(t)
			must(t, fx.fake.For(guid).RemoveDomain(t.Context(), zone))
			fx.addAtPlatform(t)
			time.Sleep(tc.after)
			fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: tc.code, Times: 1})
			_, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
			requireRefusal(t, err, tc.code)
			if d := fx.storedDomain(t); d.Verified != tc.staysVerified || d.MailReady {
				t.Errorf("stored is %+v, want Verified %v and MailReady false", d, tc.staysVerified)
			}
			d, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
			must(t, err)
			if !d.Verified || !fx.storedDomain(t).Verified {
				t.Errorf("the next Verify returns %+v, want it verified, also in the store", d)
			}
		})
	}
}

// TestLaggingListKeepsAVerifiedDomain checks that a domain stays verified if a discovery shows it
// as not verified within ReplicaLag after its verification. A later discovery with the same result
// makes the domain unverified.
func TestLaggingListKeepsAVerifiedDomain(t *testing.T) {
	loseAnswer := func(fx *fixture) {
		fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	}
	for name, arrange := range map[string]func(*fixture){"the verification is answered": func(*fixture) {}, "the answer of the verification is lost": loseAnswer} {
		inFakeTime(t, name, func(t *testing.T) {
			fx := newFixture(t)
			fx.addAndPublish(t)
			arrange(fx)
			_, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
			must(t, err)
			discoverUnverified := func(after time.Duration, wantVerified bool) {
				t.Helper()
				time.Sleep(after)
				found := ports.DiscoveryResult{Began: fx.Now(), At: fx.Now(), Domains: []domain.Platform{{Name: zone}}}
				must(t, fx.store.SaveDiscovery(t.Context(), fx.account.ID, guid, found))
				if d := fx.storedDomain(t); d.Verified != wantVerified || d.MailReady != wantVerified {
					t.Errorf("stored is %+v, want Verified and MailReady %v", d, wantVerified)
				}
			}
			discoverUnverified(time.Second, true)
			discoverUnverified(observation.ReplicaLag-time.Minute, true)
			discoverUnverified(time.Minute, false)
		})
	}
}

func TestVerifySucceedsBeforeTheMailServerIsReady(t *testing.T) {
	fx := newFixture(t)
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	d := fx.addAndVerify(t)
	if !d.Verified || d.MailReady || len(d.Service) == 0 || fx.fake.Calls("MailDomains") != 0 {
		t.Fatalf("without a ready mail server the domain is %+v, want it verified, with its service records and not ready for mail", d)
	}
}

func TestVerifySucceedsWhileTheMailServerLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.lagMailServer()
		if d := fx.addAndVerify(t); !d.Verified || d.MailReady || len(d.Service) == 0 {
			t.Fatalf("while the mail server lags the domain is %+v, want it verified, with its service records and not ready for mail", d)
		}
	})
}

func TestVerifyReportsWhyItFailed(t *testing.T) {
	for _, tc := range []struct {
		name    string
		arrange func(*fixture)
		want    fault.Code // the zero Code if Verify succeeds
	}{
		{"the record is missing", func(fx *fixture) { fx.fake.DNS.Publish(zone) }, fault.VerificationFailed},
		{"the domain belongs to another tenant", func(fx *fixture) { fx.fake.TakeDomain(zone) }, fault.DomainUnavailable},
		{"the answer is lost", func(fx *fixture) {
			fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Unknown, AfterEffect: true})
		}, fault.Code{}},
		{"the request is lost", func(fx *fixture) {
			fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Unknown})
		}, fault.ProviderTimeout},
		{"the platform is throttled", func(fx *fixture) {
			fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Throttled})
		}, fault.ProviderUnavailable},
		{"the platform refuses the request", func(fx *fixture) {
			fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.ProviderError})
		}, fault.ProviderError},
		{"the consent was withdrawn", func(fx *fixture) { fx.fake.Revoke(guid, "consent") }, fault.AccessDenied},
		{"the role at the mail server was withdrawn", func(fx *fixture) { fx.fake.Revoke(guid, "exchange_role") }, fault.Code{}},
		{"the platform throttles EnableMail", func(fx *fixture) {
			fx.fake.Fail(fake.Fault{Method: "EnableMail", Kind: outcome.Throttled})
		}, fault.Code{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.addAndPublish(t)
			tc.arrange(fx)
			d, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
			if tc.want == (fault.Code{}) {
				must(t, err)
			} else {
				requireRefusal(t, err, tc.want)
			}
			if succeeds := tc.want == (fault.Code{}); d.Verified != succeeds || fx.storedDomain(t).Verified != succeeds {
				t.Fatalf("Verify returns Verified %v, and stored is %v, want %v", d.Verified, fx.storedDomain(t).Verified, succeeds)
			}
		})
	}
}

// TestVerifyNoticesALostConsent checks that a domain counts as verified even if the consent is lost
// right after the verification. The lost consent is stored.
func TestVerifyNoticesALostConsent(t *testing.T) {
	fx := newFixture(t)
	fx.addAndPublish(t)
	for _, method := range []string{"EnableMail", "Profile"} {
		fx.fake.Fail(fake.Fault{Method: method, Kind: outcome.Refused, Code: fault.AccessDenied})
	}
	d, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	if !d.Verified || fx.storedTenant(t).Consent != tenant.ConsentRevoked {
		t.Fatalf("verified is %v, want true; the stored consent is %s, want revoked", d.Verified, fx.storedTenant(t).Consent)
	}
}

func TestFailedVerificationNamesTheExpectedRecord(t *testing.T) {
	fx := newFixture(t)
	fx.addAndPublish(t)
	fx.fake.DNS.Publish(zone)
	_, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
	requireRefusal(t, err, fault.VerificationFailed)
	record, _ := dns.VerificationRecord(fx.storedDomain(t).Verification)
	if want := "It expects this record: TXT at " + zone + " with the content " + record.Content; record.Content == "" || !strings.Contains(fault.ErrorOf(err).Detail, want) {
		t.Errorf("the error says %q, want %q", fault.ErrorOf(err).Detail, want)
	}
	if outcome.KindOf(err) != outcome.NotReady && outcome.KindOf(err) != outcome.Refused {
		t.Errorf("got %v, want the outcome NotReady or Refused of the platform", err)
	}
}

// TestFailedVerificationReadsTheDNS checks that a failed verification stores whether the DNS has
// the record. A read without answers does not change the stored state.
func TestFailedVerificationReadsTheDNS(t *testing.T) {
	fx := newFixture(t)
	fx.addAndPublish(t)
	fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.VerificationFailed, Times: 1})
	_, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
	requireRefusal(t, err, fault.VerificationFailed)
	if !fx.storedDomain(t).Status.VerificationSeen {
		t.Fatal("the stored status does not show the published record")
	}
	fx.fake.DNS.FailReads("no_authoritative_answer")
	fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.VerificationFailed, Times: 1})
	_, err = fx.Verify(t.Context(), fx.account.ID, guid, zone)
	requireRefusal(t, err, fault.VerificationFailed)
	if !fx.storedDomain(t).Status.VerificationSeen {
		t.Fatal("a read without answers deleted the result of an earlier read")
	}
}

// slowPlatform is a platform that answers Domain after 15 seconds. It verifies a domain, but never
// answers VerifyDomain and Records.
type slowPlatform struct{ ports.MailPlatform }

func (p slowPlatform) For(id tenant.GUID) ports.MailTenant {
	return slowTenant{p.MailPlatform.For(id)}
}

type slowTenant struct{ ports.MailTenant }

func (m slowTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	reconcile.Wait(ctx, 15*time.Second)
	return m.MailTenant.Domain(ctx, name)
}

func (m slowTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	_, _ = m.MailTenant.VerifyDomain(ctx, name)
	<-ctx.Done()
	return domain.Platform{}, ctx.Err()
}

func (m slowTenant) Records(ctx context.Context, _ string) (domain.Records, error) {
	<-ctx.Done()
	return domain.Records{}, ctx.Err()
}

func TestVerifyEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndVerify(t)
		began := time.Now()
		d, err := fx.service(slowPlatform{fx.fake}, fx.store).Verify(t.Context(), fx.account.ID, guid, zone)
		must(t, err)
		if took := time.Since(began); !d.Verified || took > workTimeout {
			t.Errorf("verified is %v after %v, want true within %v", d.Verified, took, workTimeout)
		}
	})
}

func TestVerifyContinuesWithoutItsCaller(t *testing.T) {
	fx := newFixture(t)
	fx.addAndPublish(t)
	gate := fx.fake.Hold("VerifyDomain")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := fx.Verify(ctx, fx.account.ID, guid, zone)
		done <- err
	}()
	<-gate.Arrived()
	cancel()
	gate.Release()
	must(t, <-done)
	if !fx.storedDomain(t).Verified {
		t.Fatal("the verification is not stored")
	}
}
