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
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

// someTenant is the nth of the tenants that no provider knows. Reads side by
// side are of several, so that none waits for another's token.
func someTenant(n int) tenant.GUID {
	return tenant.GUID(fmt.Sprintf("11111111-2222-4333-8444-%012d", n))
}

// reads are the reads of a tenant, as calls of which only the end counts.
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

// troubleChecks put the plugin before a provider that is not what it should
// be. What the provider's own errors mean is for the contract's suite.
var troubleChecks = []check{
	{"nobody listens at the provider: down", func(t testing.TB, b Binary) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		eachRead(t, b, "http://"+l.Addr().String(), outcome.Down)
	}},
	{"the provider answers with pages of its proxy: broken", func(t testing.TB, b Binary) {
		page := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>Welcome!</html>") }
		eachRead(t, b, server(t, page), outcome.Broken)
	}},
	{"the provider fails without a word: broken or down", func(t testing.TB, b Binary) {
		eachRead(t, b, server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }),
			outcome.Broken, outcome.Down)
	}},
	{"the provider's answer does not end: broken", func(t testing.TB, b Binary) {
		flood := bytes.Repeat([]byte("[[[["), 1<<14)
		eachRead(t, b, server(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(flood); err != nil {
					return
				}
			}
		}), outcome.Broken)
	}},
	{"redirects are not followed", func(t testing.TB, b Binary) {
		elsewhere := server(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
		eachRead(t, b, server(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}),
			outcome.Broken, outcome.Down)
	}},
	{"no answer in time: unknown", func(t testing.TB, b Binary) {
		m := Platform(b.Start(t), b.Connect(silent(t))).For(someTenant(0))
		for name, read := range reads {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			ended := make(chan error, 1)
			go func() { ended <- read(ctx, m) }()
			select {
			case err := <-ended:
				if outcome.Of(err) != outcome.Unknown {
					t.Errorf("%s ended with %v", name, err)
				}
			case <-time.After(callTime):
				t.Errorf("%s did not end at its deadline", name)
			}
			cancel()
		}
	}},
	{"a caller who leaves is not kept", func(t testing.TB, b Binary) {
		m := Platform(b.Start(t), b.Connect(silent(t))).For(someTenant(0))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		ended := make(chan error, 1)
		go func() { ended <- reads["Profile"](ctx, m) }()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(callTime):
			t.Error("the call did not end when it was cancelled")
		}
	}},
}

// eachRead makes every read, and Check, and looks for one of these outcomes; then the
// plugin has to be as well as before.
func eachRead(t testing.TB, b Binary, url string, want ...outcome.Kind) {
	t.Helper()
	p := b.Start(t)
	platform := Platform(p, b.Connect(url))
	var all sync.WaitGroup
	n := 0
	calls := map[string]func(context.Context) error{"Check": platform.Check}
	for name, read := range reads {
		n++
		m := platform.For(someTenant(n))
		calls[name] = func(ctx context.Context) error { return read(ctx, m) }
	}
	for name, call := range calls {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), callTime)
			defer cancel()
			err := call(ctx)
			var o *outcome.Error
			switch {
			case !errors.As(err, &o) || !slices.Contains(want, o.Kind):
				t.Errorf("%s ended with %v, want %v", name, err, want)
			case o.Cause == wire.CausePanic || o.Cause == wire.CauseUnclassified:
				t.Errorf("%s: the plugin did not say what happened: %v", name, err)
			}
		})
	}
	all.Wait()
	described(t, p)
}

func server(t testing.TB, answer http.HandlerFunc) string {
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

// silent is a provider that takes requests and never answers.
func silent(t testing.TB) string {
	end := make(chan struct{})
	url := server(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(end) }) // runs before the server waits for its handlers
	return url
}
