// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// TestConnectedAccountOfTwoIsUsed checks a list with two accounts that have the same address. The
// connected account is used, in both orders of the accounts.
func TestConnectedAccountOfTwoIsUsed(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	working := integration.Account{ID: "1", Address: fx.anna.Address, State: integration.AccountConnected}
	broken := integration.Account{ID: "2", Address: fx.anna.Address, State: integration.AccountFailed}
	for _, accounts := range [][]integration.Account{{working, broken}, {broken, working}} {
		fx.platforms.AddWorkspace("instantly", "key", "ws-1", onePage{fx.instantly, accounts})
		fx.refresh(t, id)
		if c := fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected); c.PlatformAccountID != "1" {
			t.Errorf("the connection is %+v, want the connected account 1", c)
		}
	}
}

// onePage is a platform whose list is one page.
type onePage struct {
	ports.SendingPlatform

	accounts []integration.Account
}

func (p onePage) Accounts(context.Context, string) (integration.Page, error) {
	return integration.Page{Accounts: p.accounts}, nil
}

// TestListingPausesAtAThrottledPage checks that a listing pauses when the platform throttles a
// page. If too little time remains for the pause and the page, the listing ends early.
func TestListingPausesAtAThrottledPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		id := fx.createIntegration(t, "instantly")
		fx.connect(t, id, fx.anna)
		fx.connect(t, id, fx.ben)
		fx.instantly.PageSize = 1
		fx.platforms.AddWorkspace("instantly", "key", "ws-1", &throttledOnce{SendingPlatform: fx.instantly})
		if r := fx.refresh(t, id); r.Status != integrations.RefreshCompleted || r.Connected != 2 {
			t.Errorf("with time for the pause: got %+v, want a complete listing with 2 connected mailboxes", r)
		}
		fx.Timeout = 5 * time.Second // too short for the pause and the page
		fx.platforms.AddWorkspace("instantly", "key", "ws-1", &throttledOnce{SendingPlatform: fx.instantly})
		if r := fx.refresh(t, id); r.Status != integrations.RefreshPartial {
			t.Errorf("without time for the pause: got %+v, want a partial result", r)
		}
	})
}

// throttledOnce is a platform that throttles the second call of Accounts.
type throttledOnce struct {
	ports.SendingPlatform

	calls int // number of calls of Accounts
}

func (p *throttledOnce) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	if p.calls++; p.calls == 2 {
		return integration.Page{}, &outcome.Error{Kind: outcome.Throttled, RetryAfter: time.Millisecond}
	}
	return p.SendingPlatform.Accounts(ctx, cursor)
}
