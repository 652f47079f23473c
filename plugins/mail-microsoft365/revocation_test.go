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

// In the fake platform, issued tokens stay valid when the consent is revoked. The plugin notices
// the revocation only when it requests a new token. A sync and a write request one if their token
// is at least login.MaxTokenAge old. A read does not.
func TestARevokedConsentIsNoticedBeforeTokensExpire(t *testing.T) {
	for name, tc := range map[string]struct {
		tokenAge  time.Duration // time since the tokens were issued
		call      func(context.Context, *fakePlatform) error
		isNoticed bool
	}{
		"sync, Profile":   {login.MaxTokenAge, func(ctx context.Context, fake *fakePlatform) error { _, err := fake.client.Profile(ctx); return err }, true},
		"sync, Bootstrap": {login.MaxTokenAge, func(ctx context.Context, fake *fakePlatform) error { _, err := fake.client.Bootstrap(ctx); return err }, true},
		"a sync with recent tokens": {login.MaxTokenAge - time.Second, func(ctx context.Context, fake *fakePlatform) error {
			if _, err := fake.client.Profile(ctx); err != nil {
				return err
			}
			_, err := fake.client.Bootstrap(ctx)
			return err
		}, false},
		"a write through Graph": {login.MaxTokenAge, func(ctx context.Context, fake *fakePlatform) error {
			return fake.client.OpenSignIn(ctx, "o-1", "anna@a.example", secret.New("Corr3ct-horse-battery"))
		}, true},
		"a write through Exchange": {login.MaxTokenAge, func(ctx context.Context, fake *fakePlatform) error {
			return fake.client.Rename(ctx, "anna@a.example", "Anna")
		}, true},
		"a write with recent tokens": {login.MaxTokenAge - time.Second, func(ctx context.Context, fake *fakePlatform) error {
			return fake.client.Rename(ctx, "anna@a.example", "Anna")
		}, false},
		"a read": {login.MaxTokenAge, func(ctx context.Context, fake *fakePlatform) error { _, err := fake.client.Mailboxes(ctx); return err }, false},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakePlatform(t)
			if _, err := fake.client.Bootstrap(t.Context()); err != nil {
				t.Fatal(err)
			}
			fake.consentRevoked, fake.now = true, fake.now.Add(tc.tokenAge)
			err := tc.call(t.Context(), fake)
			if !tc.isNoticed {
				expectEqual(t, err, nil, nil)
				return
			}
			expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
		})
	}
}

// A caller repeats a sync while its bootstrap waits for Microsoft. If each sync requested a new
// token, the login host would report a token loop.
func TestSyncsRenewTokensEveryFewMinutes(t *testing.T) {
	fake := newFakePlatform(t)
	fake.answers["Get-OrganizationConfig"] = `{"value":[{"IsDehydrated":true}]}`
	fake.answers["Enable-OrganizationCustomization"] = ``
	const syncInterval = 6 * time.Second
	for elapsed := time.Duration(0); elapsed < 2*login.MaxTokenAge; elapsed += syncInterval {
		_, err := fake.client.Profile(t.Context())
		expectEqual(t, err, nil, nil)
		progress, err := fake.client.Bootstrap(t.Context())
		expectEqual(t, err, progress.Step, tenant.StepWait)
		fake.now = fake.now.Add(syncInterval)
	}
	if fake.tokenRequests != 4 { // one token for each of the two APIs, and one renewal of each after MaxTokenAge
		t.Fatalf("%d tokens were requested in 10 minutes, want 4", fake.tokenRequests)
	}
}
