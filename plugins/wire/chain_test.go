// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// TestOperationsAreSnakeCase checks the names of operations, which metrics and budgets use.
func TestOperationsAreSnakeCase(t *testing.T) {
	for method, want := range map[string]string{
		"Check": "check", "ConsentURL": "consent_url", "SMTPAuth": "smtp_auth", "EnableSMTPAuth": "enable_smtp_auth", "SignInURL": "sign_in_url",
		"CreateMailbox": "create_mailbox", "UserMailboxes": "user_mailboxes",
	} {
		if got := snakeCase(method); got != want {
			t.Errorf("the operation of %s is %s, want %s", method, got, want)
		}
	}
}

// TestInterceptorsSeeTheCall checks the fields and the tenant of the Call that an interceptor gets.
func TestInterceptorsSeeTheCall(t *testing.T) {
	var lastCall Call
	platform := MailInProcess(&recordingPlatform{}, func(ctx context.Context, c Call, next func(context.Context) error) error {
		lastCall = c
		return next(ctx)
	})
	for _, tc := range []struct {
		call                      func() error
		operation, tenant         string
		readOnly, withoutProvider bool
	}{
		{func() error { return platform.Check(t.Context()) }, "check", "", true, false},
		{func() error { return errorOf(platform.ConsentURL(t.Context(), "s", "r")) }, "consent_url", "", true, true},
		{func() error { return errorOf(platform.SignInURL(t.Context(), ports.SignIn{Tenant: "t-1"})) }, "sign_in_url", "", true, false},
		{func() error {
			return errorOf(platform.Administrator(t.Context(), ports.SignIn{Tenant: "t-1"}, secret.New("c")))
		}, "administrator", "t-1", true, false},
		{func() error { return errorOf(platform.For("t-1").Profile(t.Context())) }, "profile", "t-1", true, false},
		{func() error { return errorOf(platform.For("t-1").AddDomain(t.Context(), "a.test")) }, "add_domain", "t-1", false, false},
		{func() error { return platform.For("t-1").RemoveRules(t.Context()) }, "remove_rules", "t-1", false, false},
	} {
		if err := tc.call(); err != nil {
			t.Errorf("the call of %s returns %v, want no error", tc.operation, err)
		}
		if lastCall.Operation != tc.operation || lastCall.Tenant() != tc.tenant || lastCall.ReadOnly != tc.readOnly || lastCall.WithoutProvider != tc.withoutProvider {
			t.Errorf("the interceptor received %+v of tenant %q, want %s of tenant %q, read-only %t, without provider %t", lastCall, lastCall.Tenant(), tc.operation, tc.tenant, tc.readOnly, tc.withoutProvider)
		}
	}
}

// TestInterceptorsRunInOrder checks that the first interceptor is the outermost.
func TestInterceptorsRunInOrder(t *testing.T) {
	var order []string
	recordName := func(name string) Interceptor {
		return func(ctx context.Context, _ Call, next func(context.Context) error) error {
			order = append(order, name)
			return next(ctx)
		}
	}
	if err := MailInProcess(&recordingPlatform{}, recordName("outer"), recordName("inner")).Check(t.Context()); err != nil || !slices.Equal(order, []string{"outer", "inner"}) {
		t.Errorf("the interceptors ran in the order %v, %v, want outer and then inner", order, err)
	}
}

var sampleZone = dns.Zone{ID: "z", Name: "a.test"}

// TestProbeIsAReadOfTheSameProvider checks which read Call.Probe returns for a write of each kind
// of provider.
func TestProbeIsAReadOfTheSameProvider(t *testing.T) {
	var probe Call
	var sendErr error
	sendProbe := func(ctx context.Context, c Call, _ func(context.Context) error) error {
		probe = c.Probe()
		sendErr = probe.Send(ctx)
		return errors.New("only the probe is sent")
	}
	mail, zones, sending := &recordingPlatform{}, &recordingDNS{}, &recordingSending{}
	_ = MailInProcess(mail, sendProbe).For("t-1").RemoveRules(t.Context())
	if probe.Operation != "profile" || !probe.ReadOnly || probe.Tenant() != "t-1" || sendErr != nil || !strings.HasPrefix(mail.lastCall, "Profile") {
		t.Errorf("mail: the probe is %+v, %v, and the platform received %s, want the read profile of t-1", probe, sendErr, mail.lastCall)
	}
	_, _ = DNSInProcess(zones, sendProbe).Apply(t.Context(), sampleZone, nil)
	if probe.Operation != "zone" || !probe.ReadOnly || sendErr != nil {
		t.Errorf("DNS: the probe is %+v, %v, want the read zone", probe, sendErr)
	}
	_ = SendingInProcess(sending, sendProbe).Remove(t.Context(), "a")
	if probe.Operation != "check" || !probe.ReadOnly || sendErr != nil {
		t.Errorf("sending: the probe is %+v, %v, want the read check", probe, sendErr)
	}
}

// TestSecretsOfARequestReachTheOpener checks that the Opener receives the values of the fields that
// are marked as secret.
func TestSecretsOfARequestReachTheOpener(t *testing.T) {
	var received []string
	platform := MailClient(func(_ context.Context, secrets ...secret.Text) (Session, error) {
		received = nil
		for _, s := range secrets {
			received = append(received, s.Reveal())
		}
		return Session{}, errors.New("not sent")
	})
	_, _ = platform.Administrator(t.Context(), ports.SignIn{Verifier: secret.New("verifier"), State: "state"}, secret.New("code"))
	if slices.Sort(received); !slices.Equal(received, []string{"code", "verifier"}) {
		t.Errorf("Administrator: the opener received %q, want code and verifier", received)
	}
	_ = platform.For("t-1").OpenSignIn(t.Context(), "o", "a@a.test", secret.New("password"))
	if !slices.Equal(received, []string{"password"}) {
		t.Errorf("OpenSignIn: the opener received %q, want password", received)
	}
}

func TestTextsOfACallHaveNoSecrets(t *testing.T) {
	var request, answer string
	record := func(ctx context.Context, c Call, next func(context.Context) error) error {
		err := next(ctx)
		request, answer = c.Texts()
		return err
	}
	platform := MailInProcess(&recordingPlatform{}, record)
	_ = platform.For("t-1").OpenSignIn(t.Context(), "o-1", "anna@a.example", secret.New("the-password"))
	if !strings.Contains(request, "anna@a.example") || !strings.Contains(request, "[redacted]") || strings.Contains(request, "the-password") {
		t.Errorf("the text of the request is %s, want the address and no password", request)
	}
	sending := SendingInProcess(linkPlatform{}, record)
	if _, err := sending.StartSignIn(t.Context(), "anna@a.example"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(answer, "session-1") || !strings.Contains(answer, "[redacted]") || strings.Contains(answer, "login.example") {
		t.Errorf("the text of the answer is %s, want the session id and no link", answer)
	}
}

// linkPlatform is a platform whose sign-ins all have the same link.
type linkPlatform struct{ ports.SendingPlatform }

func (linkPlatform) StartSignIn(context.Context, string) (integration.SignIn, error) {
	return integration.SignIn{ID: "session-1", URL: "https://login.example/?state=x"}, nil
}

// hangingPlatform is a platform whose Check returns only when its context ends.
type hangingPlatform struct{ recordingPlatform }

func (*hangingPlatform) Check(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestCallsHaveATimeout checks when a call without a deadline ends, with and without the
// interceptor Timeout.
func TestCallsHaveATimeout(t *testing.T) {
	for want, interceptors := range map[time.Duration][]Interceptor{
		defaultCallTimeout: nil, time.Second: {Timeout(time.Second)},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			if err := MailInProcess(&hangingPlatform{}, interceptors...).Check(t.Context()); err == nil || time.Since(began) != want {
				t.Errorf("the call returned %v after %s, want an error after %s", err, time.Since(began), want)
			}
		})
	}
}

// TestFenceGuardsWrites checks that a fenced port runs each write inside the guard and each read
// outside of it, whether the port has interceptors or not.
func TestFenceGuardsWrites(t *testing.T) {
	guarded, refused := 0, errors.New("the lease is lost") // guarded counts the calls of guard
	guard := func(ctx context.Context, write func(context.Context) error) error {
		if guarded++; guarded > 1 { // the first write is allowed
			return refused
		}
		return write(ctx)
	}
	for name, platform := range map[string]ports.MailPlatform{"without a chain": &recordingPlatform{}, "with a chain": MailInProcess(&recordingPlatform{})} {
		guarded = 0
		fenced := Fence{}.Mail(platform, guard).For(tenant.GUID("t-1"))
		if _, err := fenced.Profile(t.Context()); err != nil || guarded != 0 {
			t.Errorf("%s: a read: got %v and %d guarded calls, want no error and 0", name, err, guarded)
		}
		if err := fenced.EnableMail(t.Context(), "a.test"); err != nil || guarded != 1 {
			t.Errorf("%s: a write: got %v and %d guarded calls, want no error and 1", name, err, guarded)
		}
		if err := fenced.EnableMail(t.Context(), "a.test"); !errors.Is(err, refused) {
			t.Errorf("%s: a write that the guard refuses: got %v, want %v", name, err, refused)
		}
	}
	for name, provider := range map[string]ports.DNSProvider{"without a chain": &recordingDNS{}, "with a chain": DNSInProcess(&recordingDNS{})} {
		guarded = 0
		fenced := Fence{}.DNS(provider, guard)
		if _, err := fenced.Check(t.Context()); err != nil || guarded != 0 {
			t.Errorf("%s: a read: got %v and %d guarded calls, want no error and 0", name, err, guarded)
		}
		if _, err := fenced.Apply(t.Context(), sampleZone, nil); err != nil || guarded != 1 {
			t.Errorf("%s: a write: got %v and %d guarded calls, want no error and 1", name, err, guarded)
		}
	}
}
