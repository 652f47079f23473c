// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

// unknownTenant returns the id of a tenant that no provider knows. Parallel reads use different
// tenants, so that no read waits for the access token of another tenant.
func unknownTenant(n int) tenant.GUID {
	return tenant.GUID(fmt.Sprintf("11111111-2222-4333-8444-%012d", n))
}

// reads are the read methods of a mail tenant by name, without their results.
var reads = map[string]func(context.Context, sdk.MailTenant) error{
	"Profile":       func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Profile(ctx); return err },
	"Domains":       func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Domains(ctx); return err },
	"Domain":        func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Domain(ctx, "example.com"); return err },
	"Records":       func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Records(ctx, "example.com"); return err },
	"SMTPAuth":      func(ctx context.Context, m sdk.MailTenant) error { _, err := m.SMTPAuth(ctx); return err },
	"MailDomains":   func(ctx context.Context, m sdk.MailTenant) error { _, err := m.MailDomains(ctx); return err },
	"Signing":       func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Signing(ctx, "example.com"); return err },
	"Mailboxes":     func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Mailboxes(ctx); return err },
	"UserMailboxes": func(ctx context.Context, m sdk.MailTenant) error { _, err := m.UserMailboxes(ctx); return err },
	"EmailLicenses": func(ctx context.Context, m sdk.MailTenant) error { _, err := m.EmailLicenses(ctx); return err },
	"Rules":         func(ctx context.Context, m sdk.MailTenant) error { _, err := m.Rules(ctx); return err },
	"Mailbox": func(ctx context.Context, m sdk.MailTenant) error {
		_, err := m.Mailbox(ctx, "a@example.com")
		return err
	},
	"Sent": func(ctx context.Context, m sdk.MailTenant) error {
		_, err := m.Sent(ctx, sendlimit.TraceQuery{From: time.Now().Add(-time.Hour), To: time.Now(), Senders: []string{"a@example.com"}})
		return err
	},
}

// mailFailureChecks run the plugin against servers that fail outside the provider's own API. The
// contract of the port covers the errors that a provider defines.
var mailFailureChecks = []check{
	{"connection refused: down", func(t T, b Binary) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		expectOutcome(t, b, "http://"+l.Addr().String(), outcome.Down)
	}},
	{"an HTML page instead of an answer: broken", func(t T, b Binary) {
		page := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>Welcome!</html>") }
		expectOutcome(t, b, startServer(t, page), outcome.Broken)
	}},
	{"a 500 without a body: broken or down", func(t T, b Binary) {
		expectOutcome(t, b, startServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }),
			outcome.Broken, outcome.Down)
	}},
	{"an endless answer: broken", func(t T, b Binary) {
		flood := bytes.Repeat([]byte("[[[["), 1<<14)
		expectOutcome(t, b, startServer(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(flood); err != nil {
					return
				}
			}
		}), outcome.Broken)
	}},
	{"redirects are not followed", func(t T, b Binary) {
		elsewhere := startServer(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
		expectOutcome(t, b, startServer(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}),
			outcome.Broken, outcome.Down)
	}},
	{"no answer before the deadline: unknown", func(t T, b Binary) {
		m := Platform(b.Start(t), b.Connect(startSilentServer(t))).For(unknownTenant(0))
		for name, read := range reads {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			result := make(chan error, 1)
			go func() { result <- read(ctx, m) }()
			select {
			case err := <-result:
				if outcome.Of(err) != outcome.Unknown {
					t.Errorf("%s returned %v", name, err)
				}
			case <-time.After(callTimeout):
				t.Errorf("%s did not return at its deadline", name)
			}
			cancel()
		}
	}},
	{"a cancelled call returns", func(t T, b Binary) {
		m := Platform(b.Start(t), b.Connect(startSilentServer(t))).For(unknownTenant(0))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		result := make(chan error, 1)
		go func() { result <- reads["Profile"](ctx, m) }()
		select {
		case err := <-result:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it returned %v", err)
			}
		case <-time.After(callTimeout):
			t.Error("the call did not return when it was cancelled")
		}
	}},
}

// expectOutcome calls Check and every read of a plugin whose provider is at url. Each call must
// fail with one of the outcomes in want and with a cause that the plugin named. Afterwards the
// plugin must still answer Describe.
func expectOutcome(t T, b Binary, url string, want ...outcome.Kind) {
	t.Helper()
	p := b.Start(t)
	platform := Platform(p, b.Connect(url))
	var pending sync.WaitGroup
	n := 0
	calls := map[string]func(context.Context) error{"Check": platform.Check}
	for name, read := range reads {
		n++
		m := platform.For(unknownTenant(n))
		calls[name] = func(ctx context.Context) error { return read(ctx, m) }
	}
	for name, call := range calls {
		pending.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
			defer cancel()
			err := call(ctx)
			var failure *outcome.Error
			switch {
			case !errors.As(err, &failure) || !slices.Contains(want, failure.Kind):
				t.Errorf("%s returned %v, want %v", name, err, want)
			case failure.Cause == wire.CausePanic || failure.Cause == wire.CauseUnclassified:
				t.Errorf("%s: the plugin did not classify the failure: %v", name, err)
			}
		})
	}
	pending.Wait()
	describe(t, p)
}

// startServer returns the URL of a server that runs until the test ends.
func startServer(t T, answer http.HandlerFunc) string {
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

// startSilentServer returns the URL of a server that reads requests and never answers them.
func startSilentServer(t T) string {
	end := make(chan struct{})
	url := startServer(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(end) }) // runs before the server waits for its handlers
	return url
}
