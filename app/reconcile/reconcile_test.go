// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	must       = apptest.Must
	inFakeTime = apptest.InFakeTime
)

const (
	guid = tenant.GUID("11111111-2222-4333-8444-555555555555")
	zone = "example.test"
)

// domains is an alias of the port whose name differs from all of the port's methods.
type domains = ports.Domains

// oneDomain is a store with one domain.
type oneDomain struct {
	domains
	d   domain.Domain
	err error
}

func (s *oneDomain) ChangeDomain(_ context.Context, _ access.AccountID, now domain.Domain) (domain.Domain, error) {
	if s.err != nil {
		return s.d, s.err
	}
	s.d = s.d.Merge(now)
	return s.d, nil
}

func verified(t *testing.T, s fake.Setup) (*Pass, *fake.Platform, *oneDomain) {
	t.Helper()
	p := fake.New()
	p.Connect(guid, s)
	at := p.For(guid)
	_, err := at.AddDomain(t.Context(), zone)
	must(t, err)
	records, err := at.Records(t.Context(), zone)
	must(t, err)
	p.DNS.Publish(zone, records.Verification...)
	_, err = at.VerifyDomain(t.Context(), zone)
	must(t, err)
	store := &oneDomain{d: domain.Domain{TenantGUID: guid, Name: zone, Added: true, Verified: true}}
	return &Pass{
		Platform: p, Domains: store, DNS: p.DNS, Facts: p, Now: time.Now, Limit: 300 * time.Millisecond, Pause: time.Millisecond,
	}, p, store
}

func TestAPassRunsAllStepsWithinItsLimit(t *testing.T) {
	for _, tt := range []struct {
		name       string
		setup      fake.Setup
		mailServer bool
		fault      fake.Fault
		want       fault.Code // the zero Code: none
		accepted   bool
		signing    bool
	}{
		{name: "everything exists at once", mailServer: true, accepted: true, signing: true},
		{name: "the bootstrap is not ready", mailServer: false},
		{name: "the domain is accepted after some reads", setup: fake.Setup{Lag: fake.Lag{CallsUntilListed: 3}}, mailServer: true, accepted: true, signing: true},
		{name: "the domain is not accepted in time", setup: fake.Setup{Lag: fake.Lag{AcceptedDomain: time.Hour}}, mailServer: true},
		{name: "an answer is lost", mailServer: true, fault: fake.Fault{Method: "EnableMail", Kind: outcome.Unknown, AfterEffect: true, Times: 1}, accepted: true, signing: true},
		{name: "answers get lost until the end", mailServer: true, fault: fake.Fault{Method: "EnsureSigning", Kind: outcome.Unknown}, accepted: true},
		{name: "signing is not ready in time", mailServer: true, fault: fake.Fault{Method: "EnsureSigning", Kind: outcome.NotReady}, accepted: true},
		{name: "the platform throttles", mailServer: true, fault: fake.Fault{Method: "EnsureSigning", Kind: outcome.Throttled}, want: fault.ProviderUnavailable, accepted: true},
		{name: "the platform breaks", mailServer: true, fault: fake.Fault{Method: "MailDomains", Kind: outcome.Broken}, want: fault.ProviderError},
		{name: "access is gone", mailServer: true, fault: fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied}, want: fault.AccessDenied},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			pass, p, store := verified(t, tt.setup)
			if tt.fault.Kind != 0 {
				p.Fail(tt.fault)
			}
			d, err := pass.Domain(t.Context(), "owner", store.d, tt.mailServer)
			if tt.want == (fault.Code{}) {
				must(t, err)
			} else if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %s", err, tt.want.Name)
			}
			if d.MailReady != tt.accepted || (d.Signing.Selector1.Content != "") != tt.signing {
				t.Fatalf("accepted %v, signing %+v", d.MailReady, d.Signing)
			}
			if tt.want == (fault.Code{}) && (len(d.Service) == 0 || len(d.Verification) == 0 || !d.Status.VerificationSeen) {
				t.Fatalf("records or DNS are not read: %+v", d)
			}
			if store.d.MailReady != d.MailReady || store.d.CheckedAt.IsZero() {
				t.Fatalf("stored %+v", store.d)
			}
		})
	}
}

// TestPassReadsBeforeItWrites checks that the e-mail service is enabled once, even after an unknown
// outcome or a crash.
func TestPassReadsBeforeItWrites(t *testing.T) {
	pass, p, store := verified(t, fake.Setup{})
	p.Fail(fake.Fault{Method: "EnableMail", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	for range 2 {
		d := store.d
		d.MailReady = false // as if nothing had been stored
		d, err := pass.Domain(t.Context(), "", d, true)
		must(t, err)
		if !d.MailReady || p.Calls("EnableMail") != 1 {
			t.Fatalf("ready %v after %d writes", d.MailReady, p.Calls("EnableMail"))
		}
	}
	if n := p.Calls("MailDomains"); n != 3 { // before the write, after it, and of the second pass
		t.Errorf("%d reads of the accepted domains", n)
	}
}

// TestPassEnablesMailWithoutTheMailServer checks that the directory enables the e-mail service even
// if the mail server denies reads.
func TestPassEnablesMailWithoutTheMailServer(t *testing.T) {
	pass, p, store := verified(t, fake.Setup{})
	p.Revoke(guid, "exchange_role")
	_, err := pass.Domain(t.Context(), "", store.d, true)
	if !errors.Is(err, fault.AccessDenied) || p.Effects("EnableMail") != 1 {
		t.Fatalf("got %v after %d writes", err, p.Effects("EnableMail"))
	}
}

func TestPassKeepsChangesOfOthers(t *testing.T) {
	pass, _, store := verified(t, fake.Setup{})
	loaded := store.d
	store.d.Default, store.d.Observed.Verified = true, time.Now()
	d, err := pass.Domain(t.Context(), "owner", loaded, true)
	must(t, err)
	if !d.Default || !store.d.Default || !store.d.MailReady {
		t.Fatalf("stored %+v", store.d)
	}
}

func TestPassFailsForADeletedDomain(t *testing.T) {
	pass, _, store := verified(t, fake.Setup{})
	store.err = fault.DomainNotFound.With("gone")
	if _, err := pass.Domain(t.Context(), "owner", store.d, true); !errors.Is(err, fault.DomainNotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestAnIncompleteReadKeepsTheStoredDNS(t *testing.T) {
	pass, p, store := verified(t, fake.Setup{})
	d := store.d
	d.Status = dns.Status{MX: "mx.example.", SPF: "v=spf1 -all", VerificationSeen: true}
	p.DNS.FailReads("no_authoritative_answer")
	got := pass.WithCurrentDNS(t.Context(), "", d)
	if got.Status.MX != d.Status.MX || !got.Status.VerificationSeen || got.CheckedAt.IsZero() {
		t.Fatalf("got %+v", got)
	}
}

func TestAFlattenedSelectorIsPublished(t *testing.T) {
	pass, p, store := verified(t, fake.Setup{})
	d := store.d
	d.Signing.Selector1 = dns.Record{Type: dns.CNAME, Name: "selector1._domainkey." + d.Name, Content: "key." + d.Name}
	for key, want := range map[string]string{"v=DKIM1; p=abc": dns.DKIMPartial, "v=DKIM1; p=other": dns.Missing} {
		p.DNS.Publish(d.Name,
			dns.Record{Type: dns.TXT, Name: "selector1._domainkey." + d.Name, Content: "v=DKIM1; p=abc", TTL: 300},
			dns.Record{Type: dns.TXT, Name: "key." + d.Name, Content: key, TTL: 300})
		if got := pass.WithCurrentDNS(t.Context(), "", d).Status.DKIM; got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestRunDecidesByTheOutcome(t *testing.T) {
	internal := errors.New("not a provider's answer")
	for _, tt := range []struct {
		name  string
		err   error
		tries int // 0: until the end
	}{
		{"done", nil, 1},
		{"refused", &outcome.Error{Kind: outcome.Refused, Code: fault.WeakPassword}, 1},
		{"throttled", &outcome.Error{Kind: outcome.Throttled, RetryAfter: time.Millisecond}, 1},
		{"down", &outcome.Error{Kind: outcome.Down}, 1},
		{"an error of tenantry itself", internal, 1},
		{"broken", &outcome.Error{Kind: outcome.Broken}, 3},
		{"not ready", &outcome.Error{Kind: outcome.NotReady}, 0},
		{"unknown", &outcome.Error{Kind: outcome.Unknown}, 0},
		{"a dead context", context.DeadlineExceeded, 0},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			for _, policy := range []RetryPolicy{{Pause: time.Millisecond}, {Tries: 2, Pause: time.Millisecond}, Once} {
				tries, want := 0, tt.tries
				if policy.Tries > 0 && (want == 0 || want > policy.Tries) {
					want = policy.Tries
				}
				err := Run(ctx, policy, func(ctx context.Context) error {
					tries++
					if _, bounded := ctx.Deadline(); !bounded {
						t.Error("the call has no deadline")
					}
					return tt.err
				}, nil)
				if want > 0 && tries != want || want == 0 && tries < 2 {
					t.Fatalf("%+v: %d tries, want %d", policy, tries, want)
				}
				if (err == nil) != (tt.err == nil) || errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v", err)
				}
				ctx = t.Context() // the other policies end by their number of tries
			}
		})
	}
}

// TestRunChecksBeforeItRepeats checks that a call with an unknown outcome is repeated only after
// the check has found no effect.
func TestRunChecksBeforeItRepeats(t *testing.T) {
	lost := &outcome.Error{Kind: outcome.Unknown, Cause: "lost"}
	unanswered := &outcome.Error{Kind: outcome.Unknown, Cause: "unanswered"}
	down := &outcome.Error{Kind: outcome.Down}
	absent, there := errors.New("absent"), errors.New("there")
	for _, tt := range []struct {
		name   string
		policy RetryPolicy
		calls  []error
		checks []error // absent, there, or the error of the check
		want   error
		trace  string // C for each call, R for each check
	}{
		{"the effect is there", RetryPolicy{}, []error{lost}, []error{there}, nil, "CR"},
		{"there is no effect", RetryPolicy{}, []error{lost, nil}, []error{absent}, nil, "CRC"},
		{"the check has no answer", RetryPolicy{}, []error{lost, nil}, []error{unanswered, unanswered, absent}, nil, "CRRRC"},
		{"the check finds the platform down", RetryPolicy{}, []error{lost}, []error{down}, down, "CR"},
		{"nothing changed", RetryPolicy{}, []error{&outcome.Error{Kind: outcome.NotReady}, down}, nil, down, "CC"},
		{"one try, no effect", Once, []error{lost}, []error{absent}, lost, "CR"},
		{"one try, the check fails", Once, []error{lost}, []error{down}, lost, "CR"},
		{"broken", RetryPolicy{}, []error{
			&outcome.Error{Kind: outcome.Broken}, &outcome.Error{Kind: outcome.Broken}, &outcome.Error{Kind: outcome.Broken, Cause: "last"},
		}, []error{absent, absent, absent}, &outcome.Error{Kind: outcome.Broken, Cause: "last"}, "CRCRCR"},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			trace := ""
			next := func(step string, errs *[]error) (err error) {
				trace += step
				err, *errs = (*errs)[0], (*errs)[1:]
				return err
			}
			err := Run(t.Context(), tt.policy,
				func(context.Context) error { return next("C", &tt.calls) },
				func(context.Context) (bool, error) {
					switch err := next("R", &tt.checks); err {
					case absent, there:
						return err == there, nil
					default:
						return false, err
					}
				})
			if trace != tt.trace || !sameError(err, tt.want) {
				t.Fatalf("%s ended with %v, want %s and %v", trace, err, tt.trace, tt.want)
			}
		})
	}
}

func sameError(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// TestRunKeepsTheUnknownOutcomeAtItsEnd checks that a check without an answer does not replace
// the outcome of the call when the time is up.
func TestRunKeepsTheUnknownOutcomeAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		lost := &outcome.Error{Kind: outcome.Unknown, Cause: "lost"}
		err := Run(ctx, RetryPolicy{}, func(context.Context) error { return lost }, func(context.Context) (bool, error) {
			return false, &outcome.Error{Kind: outcome.NotReady}
		})
		if !errors.Is(err, lost) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestRunWaitsOutAThrottle checks that Run waits for as long as the provider demands, if the policy
// allows the wait and enough time is left.
func TestRunWaitsOutAThrottle(t *testing.T) {
	for _, tt := range []struct {
		name     string
		demanded time.Duration
		tries    int
	}{
		{"there is time", 2 * time.Second, 2}, {"there is no time", 6 * time.Second, 1}, {"no wait is known", 0, 1},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			policy := Once
			policy.ThrottleReserve = 5 * time.Second
			began, tries := time.Now(), 0
			err := Run(ctx, policy, func(context.Context) error {
				if tries++; tries == 1 {
					return &outcome.Error{Kind: outcome.Throttled, RetryAfter: tt.demanded}
				}
				return nil
			}, nil)
			if tries != tt.tries || (err == nil) != (tt.tries == 2) {
				t.Fatalf("%d tries end with %v", tries, err)
			}
			if took := time.Since(began); tries == 2 && took != tt.demanded {
				t.Fatalf("Run waited %s", took)
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
		t.Fatalf("the context ends in %s with %v", time.Until(deadline), ctx.Err())
	}
}

// TestStoreThatDoesNotAnswerIsUnavailable checks the error of a save that reaches the timeout.
// Without a code of its own, it would look like a provider that did not answer in time.
func TestStoreThatDoesNotAnswerIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Store(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("save: %w", ctx.Err())
		})
		if !errors.Is(err, fault.ServiceUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a save without an answer: %v", err)
		}
		refusal := fault.MailboxNotFound.With("gone")
		if err := Store(t.Context(), func(context.Context) error { return refusal }); err != refusal {
			t.Errorf("a save that is refused: %v", err)
		}
	})
}
