// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

var (
	must       = apptest.Must
	inFakeTime = apptest.InFakeTime
)

const (
	guid = tenant.GUID("11111111-2222-4333-8444-555555555555")
	zone = "example.test"
)

// domains renames ports.Domains, so that oneDomain can embed it. An embedded field named Domains
// would hide the method Domains.
type domains = ports.Domains

// oneDomain is a store with one domain. If err is set, ChangeDomain fails with err.
type oneDomain struct {
	domains
	stored domain.Domain
	err    error
}

func (s *oneDomain) ChangeDomain(_ context.Context, _ access.AccountID, observed domain.Domain) (domain.Domain, error) {
	if s.err != nil {
		return s.stored, s.err
	}
	s.stored = s.stored.Merge(observed)
	return s.stored, nil
}

// newReconciler returns a Reconciler, its platform with a verified domain, and its store with this
// domain.
func newReconciler(t *testing.T, setup fake.Setup) (*Reconciler, *fake.Platform, *oneDomain) {
	t.Helper()
	platform := fake.New()
	platform.Connect(guid, setup)
	mailTenant := platform.For(guid)
	_, err := mailTenant.AddDomain(t.Context(), zone)
	must(t, err)
	records, err := mailTenant.Records(t.Context(), zone)
	must(t, err)
	platform.DNS.Publish(zone, records.Verification...)
	_, err = mailTenant.VerifyDomain(t.Context(), zone)
	must(t, err)
	store := &oneDomain{stored: domain.Domain{TenantGUID: guid, Name: zone, Added: true, Verified: true}}
	return &Reconciler{
		Platform: platform, Domains: store, DNS: platform.DNS, Facts: platform, Now: time.Now, Timeout: apptest.HangTimeout, Pause: time.Millisecond,
	}, platform, store
}

func TestReconcileDomainRunsAllStepsWithinItsTimeout(t *testing.T) {
	for _, tc := range []struct {
		name            string
		setup           fake.Setup
		mailServerReady bool
		fault           fake.Fault
		want            fault.Code // the zero Code if ReconcileDomain succeeds
		wantMail        bool       // whether MailReady is true afterwards
		wantSigning     bool       // whether the domain has DKIM records afterwards
	}{
		{name: "all changes are visible at once", mailServerReady: true, wantMail: true, wantSigning: true},
		{name: "the bootstrap is not ready", mailServerReady: false},
		{name: "the domain is accepted after some reads", setup: fake.Setup{Lag: fake.Lag{CallsUntilListed: 3}}, mailServerReady: true, wantMail: true, wantSigning: true},
		{name: "the domain is not accepted in time", setup: fake.Setup{Lag: fake.Lag{AcceptedDomain: time.Hour}}, mailServerReady: true},
		{name: "an answer is lost", mailServerReady: true, fault: fake.Fault{Method: "EnableMail", Kind: outcome.Unknown, AfterEffect: true, Times: 1}, wantMail: true, wantSigning: true},
		{name: "all answers are lost", mailServerReady: true, fault: fake.Fault{Method: "EnsureSigning", Kind: outcome.Unknown}, wantMail: true},
		{name: "signing is not ready in time", mailServerReady: true, fault: fake.Fault{Method: "EnsureSigning", Kind: outcome.NotReady}, wantMail: true},
		{name: "the platform throttles", mailServerReady: true, fault: fake.Fault{Method: "EnsureSigning", Kind: outcome.Throttled}, want: fault.ProviderUnavailable, wantMail: true},
		{name: "the answer of the platform is broken", mailServerReady: true, fault: fake.Fault{Method: "MailDomains", Kind: outcome.Broken}, want: fault.ProviderError},
		{name: "access is denied", mailServerReady: true, fault: fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied}, want: fault.AccessDenied},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			reconciler, platform, store := newReconciler(t, tc.setup)
			reconciler.Timeout = 300 * time.Millisecond
			if tc.fault.Kind != 0 {
				platform.Fail(tc.fault)
			}
			d, err := reconciler.ReconcileDomain(t.Context(), "owner", store.stored, tc.mailServerReady)
			if tc.want == (fault.Code{}) {
				must(t, err)
			} else if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %s", err, tc.want.Name)
			}
			if d.MailReady != tc.wantMail || (d.Signing.Selector1.Content != "") != tc.wantSigning {
				t.Fatalf("got MailReady %t and the signing %+v, want MailReady %t and DKIM records %t", d.MailReady, d.Signing, tc.wantMail, tc.wantSigning)
			}
			if tc.want == (fault.Code{}) && (len(d.Service) == 0 || len(d.Verification) == 0 || !d.Status.VerificationSeen) {
				t.Fatalf("got the domain %+v, want its records and its DNS status", d)
			}
			if store.stored.MailReady != d.MailReady || store.stored.CheckedAt.IsZero() {
				t.Fatalf("stored is %+v, want MailReady %t and the time of the check", store.stored, d.MailReady)
			}
		})
	}
}

// TestReconcileDomainReadsBeforeItWrites checks that the e-mail service is enabled once, even after
// an unknown outcome or a crash.
func TestReconcileDomainReadsBeforeItWrites(t *testing.T) {
	reconciler, platform, store := newReconciler(t, fake.Setup{})
	platform.Fail(fake.Fault{Method: "EnableMail", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	for range 2 {
		d := store.stored
		d.MailReady = false // as if nothing had been stored
		d, err := reconciler.ReconcileDomain(t.Context(), "", d, true)
		must(t, err)
		if !d.MailReady || platform.Calls("EnableMail") != 1 {
			t.Fatalf("MailReady is %v after %d calls of EnableMail, want true after 1", d.MailReady, platform.Calls("EnableMail"))
		}
	}
	if reads := platform.Calls("MailDomains"); reads != 3 { // before and after the write, and in the second ReconcileDomain
		t.Errorf("the accepted domains were read %d times, want 3", reads)
	}
}

// TestReconcileDomainEnablesMailWithoutTheMailServer checks that ReconcileDomain enables the e-mail
// service even if the mail server denies reads.
func TestReconcileDomainEnablesMailWithoutTheMailServer(t *testing.T) {
	reconciler, platform, store := newReconciler(t, fake.Setup{})
	platform.Revoke(guid, "exchange_role")
	_, err := reconciler.ReconcileDomain(t.Context(), "", store.stored, true)
	if !errors.Is(err, fault.AccessDenied) || platform.Effects("EnableMail") != 1 {
		t.Fatalf("got %v after %d effects of EnableMail, want access_denied after 1", err, platform.Effects("EnableMail"))
	}
}

// TestSetUpMailEnablesTheServiceOfAnAcceptedDomain checks that SetUpMail enables the e-mail service
// if the mail server already accepts the domain, but the platform shows no service records.
func TestSetUpMailEnablesTheServiceOfAnAcceptedDomain(t *testing.T) {
	reconciler, platform, store := newReconciler(t, fake.Setup{})
	store.stored.MailReady = true
	if _, err := reconciler.SetUpMail(t.Context(), "", store.stored, true); outcome.KindOf(err) != outcome.NotReady || platform.Effects("EnableMail") != 1 {
		t.Fatalf("got %v after %d effects of EnableMail, want NotReady because of the missing records, after 1", err, platform.Effects("EnableMail"))
	}
	d, err := reconciler.SetUpMail(t.Context(), "", store.stored, true)
	must(t, err)
	if len(d.Service) == 0 || platform.Calls("EnableMail") != 1 {
		t.Errorf("the service records are %v after %d calls of EnableMail, want some after 1", d.Service, platform.Calls("EnableMail"))
	}
}

func TestReconcileDomainKeepsConcurrentChanges(t *testing.T) {
	reconciler, _, store := newReconciler(t, fake.Setup{})
	loaded := store.stored
	store.stored.Default, store.stored.Observed.Verified = true, time.Now()
	d, err := reconciler.ReconcileDomain(t.Context(), "owner", loaded, true)
	must(t, err)
	if !d.Default || !store.stored.Default || !store.stored.MailReady {
		t.Fatalf("stored is %+v, want Default of the concurrent change and MailReady", store.stored)
	}
}

func TestReconcileDomainFailsForADeletedDomain(t *testing.T) {
	reconciler, _, store := newReconciler(t, fake.Setup{})
	store.err = fault.DomainNotFound.With("gone")
	if _, err := reconciler.ReconcileDomain(t.Context(), "owner", store.stored, true); !errors.Is(err, fault.DomainNotFound) {
		t.Fatalf("got %v, want domain_not_found", err)
	}
}

func TestAnIncompleteReadKeepsTheStoredDNS(t *testing.T) {
	reconciler, platform, store := newReconciler(t, fake.Setup{})
	d := store.stored
	d.Status = dns.Status{MX: "mx.example.", SPF: "v=spf1 -all", VerificationSeen: true}
	platform.DNS.FailReads("no_authoritative_answer")
	got := reconciler.WithCurrentDNS(t.Context(), "", d)
	if got.Status.MX != d.Status.MX || !got.Status.VerificationSeen || got.CheckedAt.IsZero() {
		t.Fatalf("after an incomplete read, the domain is %+v, want the status %+v and the time of the read", got, d.Status)
	}
}

// TestAFlattenedSelectorIsPublished checks a selector whose DNS provider answers with the TXT
// record of the CNAME's target. The selector counts as published if the target has the same TXT
// record.
func TestAFlattenedSelectorIsPublished(t *testing.T) {
	reconciler, platform, store := newReconciler(t, fake.Setup{})
	d := store.stored
	d.Signing.Selector1 = dns.Record{Type: dns.CNAME, Name: "selector1._domainkey." + d.Name, Content: "key." + d.Name}
	for keyOfTarget, want := range map[string]string{"v=DKIM1; p=abc": dns.DKIMPartial, "v=DKIM1; p=other": dns.Missing} {
		platform.DNS.Publish(d.Name,
			dns.Record{Type: dns.TXT, Name: "selector1._domainkey." + d.Name, Content: "v=DKIM1; p=abc", TTL: 300},
			dns.Record{Type: dns.TXT, Name: "key." + d.Name, Content: keyOfTarget, TTL: 300})
		if got := reconciler.WithCurrentDNS(t.Context(), "", d).Status.DKIM; got != want {
			t.Errorf("with %q at the target: got the DKIM status %q, want %q", keyOfTarget, got, want)
		}
	}
}

func TestRunRepeatsByOutcome(t *testing.T) {
	errInternal := errors.New("an error that does not come from the provider")
	for _, tc := range []struct {
		name      string
		err       error // of each call
		wantTries int   // without a maximum of the policy; 0 if Run repeats until its context ends
	}{
		{"a call that succeeds", nil, 1},
		{"a refused call", &outcome.Error{Kind: outcome.Refused, Code: fault.WeakPassword}, 1},
		{"a throttled call", &outcome.Error{Kind: outcome.Throttled, RetryAfter: time.Millisecond}, 1},
		{"a platform that is down", &outcome.Error{Kind: outcome.Down}, 1},
		{"an error that does not come from the provider", errInternal, 1},
		{"a broken answer", &outcome.Error{Kind: outcome.Broken}, 3},
		{"a platform that is not ready", &outcome.Error{Kind: outcome.NotReady}, 0},
		{"an unknown outcome", &outcome.Error{Kind: outcome.Unknown}, 0},
		{"a call whose deadline is exceeded", context.DeadlineExceeded, 0},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			for _, policy := range []RetryPolicy{{Pause: time.Millisecond}, {Tries: 2, Pause: time.Millisecond}, Once} {
				tries, wantTries := 0, tc.wantTries
				if policy.Tries > 0 && (wantTries == 0 || wantTries > policy.Tries) {
					wantTries = policy.Tries
				}
				err := Run(ctx, policy, func(ctx context.Context) error {
					tries++
					if _, hasDeadline := ctx.Deadline(); !hasDeadline {
						t.Error("the call has no deadline")
					}
					return tc.err
				}, nil)
				if wantTries > 0 && tries != wantTries || wantTries == 0 && tries < 2 {
					t.Fatalf("%+v: %d tries, want %d (0: until the context ends)", policy, tries, wantTries)
				}
				if (err == nil) != (tc.err == nil) || errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("Run returned %v, want the error of the call: %v", err, tc.err)
				}
				ctx = t.Context() // the next policies end by their number of tries
			}
		})
	}
}

// TestRunChecksBeforeItRepeats checks that a call with an unknown outcome is repeated only after
// the check has found no effect.
func TestRunChecksBeforeItRepeats(t *testing.T) {
	lostAnswer := &outcome.Error{Kind: outcome.Unknown, Cause: "lost"}
	unanswered := &outcome.Error{Kind: outcome.Unknown, Cause: "unanswered"}
	down := &outcome.Error{Kind: outcome.Down}
	notFound, found := errors.New("not found"), errors.New("found")
	for _, tc := range []struct {
		name         string
		policy       RetryPolicy
		callResults  []error
		checkResults []error // notFound, found, or the error of the check
		want         error
		wantTrace    string // C for each call, R (read) for each check
	}{
		{"the check finds the effect", RetryPolicy{}, []error{lostAnswer}, []error{found}, nil, "CR"},
		{"the check finds no effect", RetryPolicy{}, []error{lostAnswer, nil}, []error{notFound}, nil, "CRC"},
		{"the check has no answer", RetryPolicy{}, []error{lostAnswer, nil}, []error{unanswered, unanswered, notFound}, nil, "CRRRC"},
		{"the check finds the platform down", RetryPolicy{}, []error{lostAnswer}, []error{down}, down, "CR"},
		{"the call changed nothing", RetryPolicy{}, []error{&outcome.Error{Kind: outcome.NotReady}, down}, nil, down, "CC"},
		{"one try, and the check finds no effect", Once, []error{lostAnswer}, []error{notFound}, lostAnswer, "CR"},
		{"one try, and the check fails", Once, []error{lostAnswer}, []error{down}, lostAnswer, "CR"},
		{"all answers are broken", RetryPolicy{}, []error{
			&outcome.Error{Kind: outcome.Broken}, &outcome.Error{Kind: outcome.Broken}, &outcome.Error{Kind: outcome.Broken, Cause: "last"},
		}, []error{notFound, notFound, notFound}, &outcome.Error{Kind: outcome.Broken, Cause: "last"}, "CRCRCR"},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			trace := ""
			nextResult := func(step string, results *[]error) (err error) {
				trace += step
				err, *results = (*results)[0], (*results)[1:]
				return err
			}
			err := Run(t.Context(), tc.policy,
				func(context.Context) error { return nextResult("C", &tc.callResults) },
				func(context.Context) (bool, error) {
					switch err := nextResult("R", &tc.checkResults); err {
					case notFound, found:
						return err == found, nil
					default:
						return false, err
					}
				})
			if trace != tc.wantTrace || !sameError(err, tc.want) {
				t.Fatalf("the steps %s ended with %v, want %s and %v", trace, err, tc.wantTrace, tc.want)
			}
		})
	}
}

// sameError reports whether two errors are both nil or have the same text.
func sameError(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// TestRunKeepsTheUnknownOutcomeAtItsEnd checks that Run returns the unknown outcome of the call,
// and not the error of the check, when the time is up.
func TestRunKeepsTheUnknownOutcomeAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		lostAnswer := &outcome.Error{Kind: outcome.Unknown, Cause: "lost"}
		err := Run(ctx, RetryPolicy{}, func(context.Context) error { return lostAnswer }, func(context.Context) (bool, error) {
			return false, &outcome.Error{Kind: outcome.NotReady}
		})
		if !errors.Is(err, lostAnswer) {
			t.Fatalf("got %v, want the unknown outcome of the call", err)
		}
	})
}

// TestRunWaitsOutAThrottle checks that Run waits for as long as the provider demands, if the policy
// allows the wait and enough time is left.
func TestRunWaitsOutAThrottle(t *testing.T) {
	for _, tc := range []struct {
		name      string
		demanded  time.Duration // the wait that the provider demands
		wantTries int
	}{
		{"the wait leaves the reserve of 5 s", 2 * time.Second, 2}, {"the wait leaves less", 6 * time.Second, 1}, {"the provider names no wait", 0, 1},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			policy := Once
			policy.ThrottleReserve = 5 * time.Second
			start, tries := time.Now(), 0
			err := Run(ctx, policy, func(context.Context) error {
				if tries++; tries == 1 {
					return &outcome.Error{Kind: outcome.Throttled, RetryAfter: tc.demanded}
				}
				return nil
			}, nil)
			if tries != tc.wantTries || (err == nil) != (tc.wantTries == 2) {
				t.Fatalf("%d tries end with %v, want %d tries, and no error after 2", tries, err, tc.wantTries)
			}
			if elapsed := time.Since(start); tries == 2 && elapsed != tc.demanded {
				t.Fatalf("Run waited %s, want %s", elapsed, tc.demanded)
			}
		})
	}
}

func TestDetachKeepsTheEarlierDeadline(t *testing.T) {
	caller, cancelCaller := context.WithTimeout(t.Context(), time.Hour)
	ctx, cancel := Detach(caller, 2*time.Hour)
	defer cancel()
	cancelCaller()
	deadline, _ := ctx.Deadline()
	if ctx.Err() != nil || time.Until(deadline) > time.Hour {
		t.Fatalf("the context ends in %s with %v, want at most an hour and no error", time.Until(deadline), ctx.Err())
	}
}

// TestStoreThatDoesNotAnswerIsUnavailable checks that a save that reaches its timeout fails with
// service_unavailable. An error of the store itself is returned unchanged.
func TestStoreThatDoesNotAnswerIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Store(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("save: %w", ctx.Err())
		})
		if !errors.Is(err, fault.ServiceUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a save without an answer: got %v, want service_unavailable because of the deadline", err)
		}
		refusal := fault.MailboxNotFound.With("gone")
		if err := Store(t.Context(), func(context.Context) error { return refusal }); err != refusal {
			t.Errorf("a save that is refused: got %v, want %v", err, refusal)
		}
	})
}

// TestRecordIfRevokedEndsAtTheDeadline checks a read of the profile that gets no answer. The read
// ends at the caller's deadline. Nothing is stored: a Consent without a store would panic.
func TestRecordIfRevokedEndsAtTheDeadline(t *testing.T) {
	const timeout = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		platform := fake.New()
		platform.Connect(guid, fake.Setup{})
		gate := platform.Hold("Profile")
		go func() { <-gate.Arrived() }()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		began := time.Now()
		denied := fault.AccessDenied.With("denied")
		if err := (Consent{Platform: platform, Now: time.Now}).RecordIfRevoked(ctx, "owner", guid, denied); err != denied {
			t.Errorf("got %v, want %v", err, denied)
		}
		if took := time.Since(began); took != timeout {
			t.Errorf("the read took %s, want %s", took, timeout)
		}
	})
}
