// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
)

// Issued tokens stay valid for an hour, so a revoked consent shows only when a new token is
// requested.
func TestARevokedConsentIsNoticedBeforeTokensExpire(t *testing.T) {
	for name, tt := range map[string]struct {
		later time.Duration // time since the tokens were issued
		call  func(context.Context, *fakePlatform) error
		seen  bool
	}{
		"sync, Profile":   {login.SyncTokenMaxAge, func(ctx context.Context, fake *fakePlatform) error { _, err := fake.client.Profile(ctx); return err }, true},
		"sync, Bootstrap": {login.SyncTokenMaxAge, func(ctx context.Context, fake *fakePlatform) error { _, err := fake.client.Bootstrap(ctx); return err }, true},
		"a write through Graph": {login.WriteTokenMaxAge, func(ctx context.Context, fake *fakePlatform) error {
			return fake.client.OpenSignIn(ctx, "o-1", "anna@a.example", secret.New("Corr3ct-horse-battery"))
		}, true},
		"a write through Exchange": {login.WriteTokenMaxAge, func(ctx context.Context, fake *fakePlatform) error {
			return fake.client.Rename(ctx, "anna@a.example", "Anna")
		}, true},
		"a write shortly after another": {login.WriteTokenMaxAge - time.Second, func(ctx context.Context, fake *fakePlatform) error {
			return fake.client.Rename(ctx, "anna@a.example", "Anna")
		}, false},
		"a read": {time.Minute, func(ctx context.Context, fake *fakePlatform) error { _, err := fake.client.Mailboxes(ctx); return err }, false},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakePlatform(t)
			if _, err := fake.client.Bootstrap(t.Context()); err != nil {
				t.Fatal(err)
			}
			fake.consentRevoked, fake.now = true, fake.now.Add(tt.later)
			err := tt.call(t.Context(), fake)
			if !tt.seen {
				expectEqual(t, err, nil, nil)
				return
			}
			expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
		})
	}
}

// While a bootstrap waits for Microsoft, a caller repeats it once a second. If each repetition
// requested a new token, the login host would see a loop.
func TestWaitingBootstrapsReuseTokens(t *testing.T) {
	fake := newFakePlatform(t)
	fake.answers["Get-OrganizationConfig"] = `{"value":[{"IsDehydrated":true}]}`
	fake.answers["Enable-OrganizationCustomization"] = ``
	for range 20 {
		p, err := fake.client.Bootstrap(t.Context())
		expectEqual(t, err, p.Step, tenant.StepWait)
		fake.now = fake.now.Add(time.Second)
	}
	if fake.tokens > 10 {
		t.Fatalf("%d tokens were requested in 20 s", fake.tokens)
	}
}
