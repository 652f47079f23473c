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

// Tokens that were issued live on for an hour, so a withdrawn consent shows
// only where a new one is asked for.
func TestAWithdrawnConsentIsNoticedWhileTokensLive(t *testing.T) {
	for name, tt := range map[string]struct {
		later time.Duration // after the tokens were got
		call  func(context.Context, *imitation) error
		seen  bool
	}{
		"sync, the directory": {0, func(ctx context.Context, im *imitation) error { _, err := im.client.Profile(ctx); return err }, true},
		"sync, the grants":    {0, func(ctx context.Context, im *imitation) error { _, err := im.client.Bootstrap(ctx); return err }, true},
		"a write to the directory": {login.Fresh, func(ctx context.Context, im *imitation) error {
			return im.client.OpenSignIn(ctx, "o-1", "anna@a.example", secret.New("Corr3ct-horse-battery"))
		}, true},
		"a write to the mail server": {login.Fresh, func(ctx context.Context, im *imitation) error {
			return im.client.Rename(ctx, "anna@a.example", "Anna")
		}, true},
		"a write that follows another": {login.Fresh - time.Second, func(ctx context.Context, im *imitation) error {
			return im.client.Rename(ctx, "anna@a.example", "Anna")
		}, false},
		"a read": {time.Minute, func(ctx context.Context, im *imitation) error { _, err := im.client.Mailboxes(ctx); return err }, false},
	} {
		t.Run(name, func(t *testing.T) {
			im := newImitation(t)
			if _, err := im.client.Bootstrap(t.Context()); err != nil {
				t.Fatal(err)
			}
			im.withdrawn, im.now = true, im.now.Add(tt.later)
			err := tt.call(t.Context(), im)
			if !tt.seen {
				same(t, err, nil, nil)
				return
			}
			ends(t, err, outcome.Refused, fault.AccessDenied)
		})
	}
}

// Who is told to wait asks again once a second: a new token for each time is
// what the login host calls a loop.
func TestWaitingDoesNotLoopAtTheLoginHost(t *testing.T) {
	im := newImitation(t)
	im.answers["Get-OrganizationConfig"] = `{"value":[{"IsDehydrated":true}]}`
	im.answers["Enable-OrganizationCustomization"] = ``
	for range 20 {
		p, err := im.client.Bootstrap(t.Context())
		same(t, err, p.Step, tenant.StepWait)
		im.now = im.now.Add(time.Second)
	}
	if im.tokens > 10 {
		t.Fatalf("%d tokens were asked for in 20 s", im.tokens)
	}
}
