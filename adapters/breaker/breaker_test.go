// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// provider is a mail platform that returns err from every call and records the calls.
type provider struct {
	ports.MailTenant
	err   error
	calls []string
	wait  chan struct{} // when set, calls return only after the channel is closed
}

func (p *provider) answer(call string) error {
	p.calls = append(p.calls, call)
	if p.wait != nil {
		<-p.wait
	}
	return p.err
}

func (p *provider) For(tenant.GUID) ports.MailTenant { return p }

func (p *provider) Check(context.Context) error { return p.answer("Check") }

func (p *provider) ConsentURL(context.Context, string, string) (string, error) {
	return "url", p.answer("ConsentURL")
}

func (p *provider) Granted(context.Context, string) (tenant.GUID, error) {
	return "t", p.answer("Granted")
}

func (p *provider) SignInURL(context.Context, ports.SignIn) (string, error) {
	return "url", p.answer("SignInURL")
}

func (p *provider) Administrator(context.Context, ports.SignIn, secret.Text) (tenant.Administrator, error) {
	return tenant.Administrator{Name: "Ann"}, p.answer("Administrator")
}

func (p *provider) Profile(context.Context) (tenant.Profile, error) {
	return tenant.Profile{Name: "Contoso", BuiltinDomain: "contoso.mail.test"}, p.answer("Profile")
}

func (p *provider) Mailboxes(context.Context) ([]mailbox.Platform, error) {
	return nil, p.answer("Mailboxes")
}

func (p *provider) CreateMailbox(context.Context, mailbox.Spec) (mailbox.Platform, error) {
	return mailbox.Platform{ObjectID: "o"}, p.answer("CreateMailbox")
}

func (p *provider) Rename(context.Context, string, string) error { return p.answer("Rename") }

// guarded is a mail platform whose calls pass the circuits of a Breaker.
type guarded struct {
	ports.MailPlatform
	*Breaker
}

func newGuardedMail(p *provider, options Options) guarded {
	b := New(options)
	return guarded{wire.MailInProcess(p, b.Interceptor(ByTenant), p.failInHost), b}
}

// failInHost is a wire.Interceptor that returns p.err without calling the plugin if only the host
// creates such errors. The host does not accept such an error from a plugin.
func (p *provider) failInHost(ctx context.Context, _ wire.Call, next func(context.Context) error) error {
	var o *outcome.Error
	if errors.As(p.err, &o) && strings.HasPrefix(o.Cause, outcome.PluginCausePrefix) {
		return p.answer("the host")
	}
	return next(ctx)
}

func outcomeError(k outcome.Kind) error { return &outcome.Error{Kind: k, Code: fault.AccessDenied} }

func callRead(ctx context.Context, m ports.MailTenant) error {
	_, err := m.Mailboxes(ctx)
	return err
}

func callWrite(ctx context.Context, m ports.MailTenant) error {
	_, err := m.CreateMailbox(ctx, mailbox.Spec{})
	return err
}

// openCircuitWait returns the RetryAfter of an error with which a circuit refuses a call. ok is
// false for a different error.
func openCircuitWait(err error) (wait time.Duration, ok bool) {
	var failure *outcome.Error
	if errors.As(err, &failure) && failure.Kind == outcome.Down && failure.Cause == "circuit_open" {
		return failure.RetryAfter, true
	}
	return 0, false
}

var (
	errRestarting = &outcome.Error{Kind: outcome.Down, Cause: "plugin_restarting", RetryAfter: time.Second}
	errTooLarge   = &outcome.Error{Kind: outcome.Broken, Cause: outcome.CauseTooLarge}
)

// TestFailuresOpenACircuit checks which outcomes count as failures of the provider.
func TestFailuresOpenACircuit(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	lostLease, lose := context.WithCancelCause(t.Context())
	lose(errors.New("the lease was lost"))
	for _, tc := range []struct {
		name     string
		ctx      context.Context
		err      error
		wantOpen bool
	}{
		{"down", t.Context(), outcomeError(outcome.Down), true},
		{"broken", t.Context(), outcomeError(outcome.Broken), true},
		{"unknown", t.Context(), fmt.Errorf("list: %w", outcomeError(outcome.Unknown)), true},
		{"a deadline error without an outcome", t.Context(), context.DeadlineExceeded, true},
		{"no answer of the plugin in time", t.Context(), &outcome.Error{Kind: outcome.Unknown, Cause: wire.CauseDeadline}, true},
		{"an unclassified error of the plugin", t.Context(), &outcome.Error{Kind: outcome.Broken, Cause: wire.CauseUnclassified}, true},
		{"the plugin's process died", t.Context(), &outcome.Error{Kind: outcome.Unknown, Cause: wire.CausePluginExited}, false},
		{"the plugin panicked", t.Context(), &outcome.Error{Kind: outcome.Broken, Cause: wire.CausePanic}, false},
		{"an invalid message of the plugin", t.Context(), &outcome.Error{Kind: outcome.Broken, Cause: wire.CauseProtocol}, false},
		{"a message of the plugin that is too large", t.Context(), &outcome.Error{Kind: outcome.Broken, Cause: wire.CauseTooLarge}, false},
		{"the plugin's restart is delayed", t.Context(), errRestarting, false},
		{"the plugin starts slowly", t.Context(), fmt.Errorf("%w: %w", &outcome.Error{Kind: outcome.Down, Cause: "plugin_starting"}, context.DeadlineExceeded), false},
		{"an answer of the provider that is too large", t.Context(), errTooLarge, false},
		{"a refusal", t.Context(), outcomeError(outcome.Refused), false},
		{"not ready", t.Context(), outcomeError(outcome.NotReady), false},
		{"throttled", t.Context(), outcomeError(outcome.Throttled), false},
		{"a setting is missing", t.Context(), fault.ServiceUnavailable.With("not configured"), false},
		{"the caller cancelled the call", canceled, outcomeError(outcome.Unknown), false},
		{"the caller lost its lease", lostLease, outcomeError(outcome.Unknown), false},
		{"success", t.Context(), nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			backend := &provider{err: tc.err}
			mailTenant := newGuardedMail(backend, Options{OpenTime: time.Hour}).For("t")
			for range 50 {
				_ = callRead(tc.ctx, mailTenant)
			}
			if _, open := openCircuitWait(callRead(tc.ctx, mailTenant)); open != tc.wantOpen {
				t.Fatalf("after %d calls, the circuit is open: %v, want %v", len(backend.calls), open, tc.wantOpen)
			}
			const defaultFailures = 5
			if tc.wantOpen && len(backend.calls) != defaultFailures {
				t.Fatalf("the circuit opened after %d calls, want %d", len(backend.calls), defaultFailures)
			}
		})
	}
}

func TestManyFailuresAmongSuccessesOpenACircuit(t *testing.T) {
	backend := &provider{}
	mailTenant := newGuardedMail(backend, Options{OpenTime: time.Hour}).For("t")
	for i := range 30 {
		backend.err = nil
		if i%2 == 0 {
			backend.err = outcomeError(outcome.Broken)
		}
		_ = callRead(t.Context(), mailTenant)
	}
	if _, open := openCircuitWait(callRead(t.Context(), mailTenant)); !open {
		t.Fatal("the circuit is closed, want it open because every second call failed")
	}
}

func TestOldFailuresDoNotOpenACircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &provider{err: outcomeError(outcome.Down)}
		mailTenant := newGuardedMail(backend, Options{Failures: 2}).For("t")
		for range 10 {
			if _, open := openCircuitWait(callRead(t.Context(), mailTenant)); open {
				t.Fatal("failures with long pauses between them opened the circuit")
			}
			time.Sleep(5 * time.Minute)
		}
	})
}

// TestOpeningIsMeasuredByTheMonotonicClock checks that a circuit stores the time from its creation
// to its opening. A change of the wall clock does not affect this time or the Retry-After of the
// calls.
func TestOpeningIsMeasuredByTheMonotonicClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		platform := newGuardedMail(&provider{err: outcomeError(outcome.Down)}, Options{Failures: 2, OpenTime: time.Minute})
		mailTenant := platform.For("t")
		_ = callRead(t.Context(), mailTenant) // creates the circuit
		time.Sleep(3 * time.Second)
		_ = callRead(t.Context(), mailTenant) // opens the circuit
		if openedAfter := time.Duration(platform.circuits.circuit("tenant/t").openedAfter.Load()); openedAfter != 3*time.Second {
			t.Errorf("the circuit opened %s after its creation, want 3s", openedAfter)
		}
		time.Sleep(20 * time.Second)
		if wait, open := openCircuitWait(callRead(t.Context(), mailTenant)); !open || wait != 40*time.Second+time.Millisecond {
			t.Errorf("the circuit is open: %v, for %s; want an open circuit, for 40.001s", open, wait)
		}
	})
}

// TestFailedSignInsOfATenantDoNotAffectOthers checks that failed calls of Administrator for one
// tenant do not open the circuit of the login host or of a different tenant.
func TestFailedSignInsOfATenantDoNotAffectOthers(t *testing.T) {
	backend := &provider{err: outcomeError(outcome.Broken)}
	platform := newGuardedMail(backend, Options{})
	for range 5 {
		_, _ = platform.Administrator(t.Context(), ports.SignIn{Tenant: "ann"}, secret.New("c"))
	}
	backend.err = nil
	if _, err := platform.ConsentURL(t.Context(), "s", "r"); err != nil {
		t.Errorf("ConsentURL: got %v, want success", err)
	}
	if _, err := platform.Administrator(t.Context(), ports.SignIn{Tenant: "bob"}, secret.New("c")); err != nil {
		t.Errorf("Administrator of a different tenant: got %v, want success", err)
	}
}

func TestFailuresOfATenantDoNotAffectOthers(t *testing.T) {
	backend := &provider{err: outcomeError(outcome.Down)}
	platform := newGuardedMail(backend, Options{OpenTime: time.Hour})
	for range 6 {
		_ = callRead(t.Context(), platform.For("ann"))
	}
	if _, open := openCircuitWait(callRead(t.Context(), platform.For("ann"))); !open {
		t.Fatal("the circuit of the tenant whose calls failed is closed, want it open")
	}
	backend.err = nil
	if err := callRead(t.Context(), platform.For("bob")); err != nil {
		t.Fatalf("a read of a different tenant: got %v, want success", err)
	}
	if _, err := platform.SignInURL(t.Context(), ports.SignIn{Tenant: "ann"}); err != nil {
		t.Fatalf("a request to the login host: got %v, want success", err)
	}
}

// TestReadIsSentBeforeAWrite checks that a read tests the provider if the circuit is half open and
// the caller makes a write.
func TestReadIsSentBeforeAWrite(t *testing.T) {
	for _, tc := range []struct {
		name      string
		recovered bool // the provider works again when the circuit is half open
		write     func(context.Context, ports.MailTenant) error
		wantCalls string
	}{
		{"the provider works again", true, callWrite, "[Profile CreateMailbox]"},
		{"the provider is still down", false, callWrite, "[Profile]"},
		{"a write without a result", true, func(ctx context.Context, m ports.MailTenant) error { return m.Rename(ctx, "a", "b") }, "[Profile Rename]"},
		{"a transport rule", true, func(ctx context.Context, m ports.MailTenant) error { _, err := m.Block(ctx, "", nil); return err }, "[Profile Block]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := &provider{err: outcomeError(outcome.Down)}
				mailTenant := newGuardedMail(backend, Options{OpenTime: time.Minute}).For("t")
				for range 5 {
					_ = callWrite(t.Context(), mailTenant)
				}
				wait, open := openCircuitWait(tc.write(t.Context(), mailTenant))
				if !open || wait < 59*time.Second || wait > 61*time.Second {
					t.Fatalf("right after the failures, the circuit is open: %v, for %s; want an open circuit, for a minute", open, wait)
				}
				time.Sleep(wait)
				backend.calls = nil
				if tc.recovered {
					backend.err = nil
				}
				err := tc.write(t.Context(), mailTenant)
				if got := fmt.Sprint(backend.calls); got != tc.wantCalls {
					t.Fatalf("the provider received %s, want %s", got, tc.wantCalls)
				}
				if _, open := openCircuitWait(err); open == tc.recovered || tc.recovered && err != nil {
					t.Fatalf("the write returned %v, want success: %v", err, tc.recovered)
				}
			})
		})
	}
}

// TestOnlyOneProbeIsSentAtATime checks that further calls are refused while one read tests the
// provider.
func TestOnlyOneProbeIsSentAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &provider{err: outcomeError(outcome.Down)}
		mailTenant := newGuardedMail(backend, Options{}).For("t")
		for range 5 {
			_ = callRead(t.Context(), mailTenant)
		}
		time.Sleep(time.Minute)
		backend.err, backend.calls, backend.wait = nil, nil, make(chan struct{})
		probe := make(chan error, 1)
		go func() { probe <- callRead(t.Context(), mailTenant) }()
		synctest.Wait()
		for _, call := range []func(context.Context, ports.MailTenant) error{callRead, callWrite} {
			if wait, open := openCircuitWait(call(t.Context(), mailTenant)); !open || wait <= 0 {
				t.Fatalf("a call during the probe: refused %v, retry after %s; want a refusal with a time to retry", open, wait)
			}
		}
		close(backend.wait)
		if err := <-probe; err != nil || len(backend.calls) != 1 {
			t.Fatalf("the probe returned %v, the provider got %v; want success and one call", err, backend.calls)
		}
		if err := callWrite(t.Context(), mailTenant); err != nil {
			t.Fatalf("a write after the probe: got %v, want success", err)
		}
	})
}

// TestURLsDoNotCloseACircuit checks that ConsentURL does not close the circuit of the login host.
// ConsentURL only builds a URL and does not reach the login host.
func TestURLsDoNotCloseACircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &provider{err: outcomeError(outcome.Unknown)}
		platform := newGuardedMail(backend, Options{OpenTime: time.Minute})
		signIn := func() error {
			_, err := platform.SignInURL(t.Context(), ports.SignIn{})
			return err
		}
		for range 5 {
			_ = signIn()
		}
		if _, err := platform.ConsentURL(t.Context(), "s", "r"); err == nil {
			t.Fatal("ConsentURL succeeded while the circuit was open, want an error")
		}
		time.Sleep(2 * time.Minute)
		backend.err = nil
		if consentURL, err := platform.ConsentURL(t.Context(), "s", "r"); err != nil || consentURL != "url" {
			t.Fatalf("ConsentURL while the circuit is half open: got %q, %v, want the URL of the provider", consentURL, err)
		}
		if got := platform.Circuits()[0]; got.State != HalfOpen {
			t.Fatalf("after ConsentURL, the circuit is %+v, want it half open", got)
		}
		if err := signIn(); err != nil {
			t.Fatal(err)
		}
		if got := platform.Circuits()[0]; got.State != Closed || got.Domain != "login" {
			t.Fatalf("after SignInURL, the circuit is %+v, want the closed circuit of the login host", got)
		}
	})
}

// TestOnlyAnswersOfTheProviderCloseACircuit checks which outcomes of a read close a half-open
// circuit.
func TestOnlyAnswersOfTheProviderCloseACircuit(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want State // of the circuit after the read
	}{
		{"success", nil, Closed},
		{"a refusal", outcomeError(outcome.Refused), Closed},
		{"an answer that is too large", errTooLarge, Closed},
		{"the provider is down", outcomeError(outcome.Down), Open},
		{"the plugin's process died", &outcome.Error{Kind: outcome.Unknown, Cause: wire.CausePluginExited}, HalfOpen},
		{"the plugin's restart is delayed", errRestarting, HalfOpen},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := &provider{err: outcomeError(outcome.Down)}
				platform := newGuardedMail(backend, Options{Failures: 1, OpenTime: time.Minute})
				_ = callRead(t.Context(), platform.For("t"))
				time.Sleep(2 * time.Minute)
				backend.err = tc.err
				_ = callRead(t.Context(), platform.For("t"))
				if got := platform.Circuits()[0].State; got != tc.want {
					t.Errorf("the circuit is %s, want %s", got, tc.want)
				}
			})
		})
	}
}

// TestDeclinedConsentDoesNotCloseACircuit checks that the consent callback does not change the
// circuit of the login host. The plugin parses the callback without calling the provider.
func TestDeclinedConsentDoesNotCloseACircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &provider{err: outcomeError(outcome.Down)}
		platform := newGuardedMail(backend, Options{Failures: 1, OpenTime: time.Minute})
		_, _ = platform.SignInURL(t.Context(), ports.SignIn{})
		time.Sleep(2 * time.Minute)
		backend.err = &outcome.Error{Kind: outcome.Refused, Code: fault.ConsentDeclined}
		if _, err := platform.Granted(t.Context(), "error=access_denied"); !errors.Is(err, fault.ConsentDeclined) {
			t.Fatalf("Granted returned %v, want consent_declined", err)
		}
		if got := platform.Circuits()[0]; got.State != HalfOpen {
			t.Errorf("the circuit %s is %s, want half open", got.Domain, got.State)
		}
	})
}

// TestFewFailedSignInsAmongManyDoNotStopConnecting checks that the circuit of the login host stays
// closed if 1 of 50 calls fails. Ten failures would open the circuit if they were half of the
// calls.
func TestFewFailedSignInsAmongManyDoNotStopConnecting(t *testing.T) {
	backend := &provider{}
	platform := newGuardedMail(backend, Options{})
	for i := range 500 {
		backend.err = nil
		if i%50 == 49 {
			backend.err = outcomeError(outcome.Down)
		}
		_, _ = platform.SignInURL(t.Context(), ports.SignIn{Tenant: "t"})
	}
	backend.err = nil
	if _, err := platform.ConsentURL(t.Context(), "s", "r"); err != nil {
		t.Errorf("ConsentURL: got %v, want success", err)
	}
}

func (p *provider) Sent(context.Context, sendlimit.TraceQuery) (sendlimit.Trace, error) {
	return sendlimit.Trace{Next: "2"}, p.answer("Sent")
}

func (p *provider) Block(context.Context, string, []string) (sendlimit.Rule, error) {
	return sendlimit.Rule{Name: "r"}, p.answer("Block")
}

// TestBudgetGetsDomainAndOperation checks that Options.Budget gets the fault domain and the
// operation of each call. A call that exceeds the budget is not sent.
func TestBudgetGetsDomainAndOperation(t *testing.T) {
	var counted []string
	exceeded := false
	backend := &provider{}
	mailTenant := newGuardedMail(backend, Options{Budget: func(_ context.Context, domain, operation string) (func(), time.Duration, bool) {
		counted = append(counted, domain+" "+operation)
		return nil, time.Minute, !exceeded
	}}).For("t")
	if page, err := mailTenant.Sent(t.Context(), sendlimit.TraceQuery{}); err != nil || page.Next != "2" {
		t.Fatalf("got %+v, %v, want the page that the platform returned", page, err)
	}
	if rule, err := mailTenant.Block(t.Context(), "", nil); err != nil || rule.Name != "r" {
		t.Fatalf("got %+v, %v, want the rule that the platform returned", rule, err)
	}
	if got := fmt.Sprint(counted); got != "[tenant/t sent tenant/t block]" {
		t.Errorf("the budget counted %s, want the calls sent and block of tenant/t", got)
	}
	exceeded, backend.calls = true, nil
	_, err := mailTenant.Sent(t.Context(), sendlimit.TraceQuery{})
	var failure *outcome.Error
	if !errors.As(err, &failure) || failure.Kind != outcome.Throttled || failure.RetryAfter != time.Minute || len(backend.calls) > 0 {
		t.Errorf("got %v, and the provider got %v; want an error with outcome.Throttled, and no call", err, backend.calls)
	}
}

// TestUnsentCallUsesNoBudget checks that a call that the plugin did not send uses no budget and
// does not close a circuit. If a setting is invalid or the plugin has no process, ports.Effects
// does not record the call.
func TestUnsentCallUsesNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heldBack := &outcome.Error{Kind: outcome.Throttled, Cause: outcome.CauseHeldBack, RetryAfter: time.Second}
		invalidSetting := &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: outcome.CauseSetting + "server"}
		counted := 0
		backend := &provider{}
		b := New(Options{Failures: 1, OpenTime: time.Minute, Budget: func(context.Context, string, string) (func(), time.Duration, bool) {
			counted++
			return func() { counted-- }, 0, true
		}})
		mailTenant := wire.MailInProcess(backend, b.Interceptor(ByTenant), backend.failInHost).For("t")
		for _, step := range []struct {
			err          error
			wait         time.Duration // before the call
			wantCounted  int           // calls that the budget counted since the first step
			wantState    State
			wantRecorded bool
		}{
			{heldBack, 0, 0, Closed, true},
			{invalidSetting, 0, 0, Closed, false},
			{errRestarting, 0, 0, Closed, false},
			{&outcome.Error{Kind: outcome.Throttled, Cause: "http_429", RetryAfter: time.Second}, 0, 1, Closed, true},
			{outcomeError(outcome.Down), 0, 2, Open, true},
			{heldBack, 2 * time.Minute, 2, HalfOpen, true},
			{invalidSetting, 0, 2, HalfOpen, false},
			{errRestarting, 0, 2, HalfOpen, false},
			{nil, 0, 3, Closed, true},
		} {
			time.Sleep(step.wait)
			backend.err = step.err
			var effects ports.Effects
			if _, err := mailTenant.Sent(ports.WithEffects(t.Context(), &effects), sendlimit.TraceQuery{}); fmt.Sprint(err) != fmt.Sprint(step.err) {
				t.Fatalf("the call returned %v, want %v", err, step.err)
			}
			if recorded := effects.Recorded().ProviderCalled; recorded != step.wantRecorded {
				t.Errorf("after %v: the call is recorded: %t, want %t", step.err, recorded, step.wantRecorded)
			}
			if state := b.Circuits()[0].State; counted != step.wantCounted || state != step.wantState {
				t.Errorf("after %v: %d calls counted, circuit %s; want %d, %s", step.err, counted, state, step.wantCounted, step.wantState)
			}
		}
	})
}

// TestWriteFailsLikeAProbeThatIsNotSent checks a write while the circuit is half open. The read
// before the write, its probe, exceeds a budget or is held back by the plugin. The write must not
// be sent, and its error must have the RetryAfter of the probe.
func TestWriteFailsLikeAProbeThatIsNotSent(t *testing.T) {
	heldBack := &outcome.Error{Kind: outcome.Throttled, Cause: outcome.CauseHeldBack, RetryAfter: time.Hour}
	for _, tc := range []struct {
		name        string
		budgetLeft  bool
		providerErr error
	}{
		{"the budget is exceeded", false, nil},
		{"the plugin holds the probe back", true, heldBack},
	} {
		synctest.Test(t, func(t *testing.T) {
			backend := &provider{err: outcomeError(outcome.Unknown)}
			allowed := true
			mailTenant := newGuardedMail(backend, Options{Failures: 1, OpenTime: time.Minute, Budget: func(context.Context, string, string) (func(), time.Duration, bool) {
				return func() {}, time.Hour, allowed
			}}).For("t")
			_, _ = mailTenant.Sent(t.Context(), sendlimit.TraceQuery{})
			time.Sleep(time.Minute + time.Second)
			allowed, backend.calls = tc.budgetLeft, nil
			backend.err = tc.providerErr
			_, err := mailTenant.Block(t.Context(), "", nil)
			if outcome.KindOf(err) != outcome.Throttled || outcome.RetryAfter(err) != time.Hour || slices.Contains(backend.calls, "Block") {
				t.Errorf("%s: got %v, the provider got %v; want the error of the probe, and no Block", tc.name, err, backend.calls)
			}
		})
	}
}

// TestWriteFailsLikeAProbeWithoutProcess checks a write while the circuit is half open and the
// plugin has no process. The read before the write, and not the write, may open a session.
func TestWriteFailsLikeAProbeWithoutProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		openErr, opened := outcomeError(outcome.Unknown), 0
		open := func(context.Context, ...secret.Text) (wire.Session, error) {
			opened++
			return wire.Session{}, openErr
		}
		mailTenant := wire.MailClient(open, New(Options{Failures: 1, OpenTime: time.Minute}).Interceptor(ByTenant)).For("t")
		_, _ = mailTenant.Sent(t.Context(), sendlimit.TraceQuery{})
		time.Sleep(time.Minute + time.Second)
		opened, openErr = 0, &outcome.Error{Kind: outcome.Down, Cause: "plugin_crash_loop", RetryAfter: time.Hour}
		_, err := mailTenant.Block(t.Context(), "", nil)
		if outcome.KindOf(err) != outcome.Down || outcome.RetryAfter(err) != time.Hour || opened != 1 {
			t.Errorf("got %v after opening %d sessions, want the error of the read after opening 1", err, opened)
		}
	})
}

func TestCircuitsAreListedAndBounded(t *testing.T) {
	backend := &provider{err: outcomeError(outcome.Down)}
	platform := newGuardedMail(backend, Options{MaxCircuits: 3, Failures: 1})
	for _, id := range []tenant.GUID{"a", "b", "c", "a", "d"} {
		_ = callRead(t.Context(), platform.For(id))
	}
	var domains []string
	for _, circuit := range platform.Circuits() {
		if circuit.State != Open || circuit.RetryIn <= 0 {
			t.Errorf("the circuit is %+v, want it open, with a time to retry", circuit)
		}
		domains = append(domains, circuit.Domain)
	}
	if fmt.Sprint(domains) != "[tenant/d tenant/a tenant/c]" {
		t.Fatalf("the circuits are %v, want those of d, a and c, which were used last", domains)
	}
}
