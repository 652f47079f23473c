// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

func TestRefreshStoresTheStatesOfThePlatform(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	mailboxes := map[string]mailbox.Mailbox{}
	for _, name := range []string{"closed", "vanished", "revoked", "steady", "elsewhere", "never", "found", "paused"} {
		mailboxes[name] = fx.createMailbox(t, fx.ann, tenantGUID, name)
	}
	for _, name := range []string{"vanished", "revoked", "steady", "paused"} {
		fx.connect(t, instantlyID, mailboxes[name])
	}
	fx.connect(t, plusvibeID, mailboxes["elsewhere"])
	started := fx.beginSession(t, instantlyID, mailboxes["closed"])
	fx.instantly.CompleteSignIn(started.AuthURL.Reveal(), mailboxes["closed"].Address, "Closed")
	fx.instantly.DropAccount(mailboxes["vanished"].Address)
	fx.instantly.Put(
		integration.Account{Address: mailboxes["revoked"].Address, State: integration.AccountFailed, HasError: true, Reason: "connection_error"},
		integration.Account{Address: "ELSEWHERE@example.test", State: integration.AccountConnected},
		integration.Account{Address: "Found@Example.test", State: integration.AccountConnected},
		integration.Account{ID: fx.storedConnection(t, instantlyID, mailboxes["paused"]).PlatformAccountID, Address: mailboxes["paused"].Address, State: integration.AccountConnected, Paused: true},
		integration.Account{Address: "stranger@other.test", State: integration.AccountConnected})
	fx.instantly.PageSize = 2
	fx.advance(time.Minute) // the accounts of the sign-ins cannot show late any more
	result := fx.refresh(t, instantlyID)
	want := integrations.RefreshResult{IntegrationID: instantlyID, Provider: "instantly", Status: integrations.RefreshCompleted,
		Tally: integration.Tally{Checked: 10, Connected: 4, NewlyConnected: 2, Unchanged: 6}}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Errorf("Refresh returned the wrong result (-want +got):\n%s", diff)
	}
	for name, status := range map[string]integration.ConnectionStatus{
		"closed": integration.ConnectionConnected, "vanished": integration.ConnectionDisconnected, "revoked": integration.ConnectionFailed,
		"steady": integration.ConnectionConnected, "elsewhere": "", "never": "", "found": integration.ConnectionConnected, "paused": integration.ConnectionConnected,
	} {
		fx.requireStatus(t, instantlyID, mailboxes[name], status)
	}
	if c := fx.storedConnection(t, instantlyID, mailboxes["revoked"]); !c.HasError || c.Reason != "connection_error" {
		t.Errorf("the connection is %+v, want the error of the platform", c)
	}
	fx.requireStatus(t, plusvibeID, mailboxes["elsewhere"], integration.ConnectionConnected)
	if diff := cmp.Diff(map[integration.Drift]int{integration.DriftGone: 1, integration.DriftGrantLost: 1, integration.DriftAppeared: 1}, countDrifts(fx.drifts)); diff != "" {
		t.Errorf("the refresh reported the wrong drifts (-want +got):\n%s", diff)
	}
	if i := fx.storedIntegration(t, instantlyID); i.RefreshedAt != fx.clock || i.HasError {
		t.Errorf("the integration is %+v, want a refresh at %s without an error", i, fx.clock)
	}
	fx.requireSession(t, started, integration.SessionConnected)
	if repeated := fx.refresh(t, instantlyID); repeated.Unchanged != 10 || repeated.NewlyConnected != 0 || repeated.Connected != 4 {
		t.Errorf("a repeated refresh returned %+v, want 10 unchanged and 4 connected mailboxes", repeated)
	}
}

// latePlatform is a platform that shows its accounts only from a certain time on.
type latePlatform struct {
	ports.SendingPlatform
	shownFrom time.Time
}

func (p latePlatform) Account(ctx context.Context, address string) (integration.Account, error) {
	if a, err := p.SendingPlatform.Account(ctx, address); err != nil || !time.Now().Before(p.shownFrom) {
		return a, err
	}
	return integration.Account{}, nil
}

func (p latePlatform) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	if time.Now().Before(p.shownFrom) {
		return integration.Page{}, nil
	}
	return p.SendingPlatform.Accounts(ctx, cursor)
}

// TestRefreshWaitsForAccountsThatShowLate checks refreshes after the sign-ins of two mailboxes. The
// platform shows both accounts late, or the account of anna was removed, or both. In one case the
// platform is down when the refresh reads a single account.
func TestRefreshWaitsForAccountsThatShowLate(t *testing.T) {
	for name, tc := range map[string]struct {
		signedInAgo   time.Duration                // age of the sign-ins
		hiddenFor     time.Duration                // how long the platform does not show the accounts
		annaRemoved   bool                         // the account of anna was removed
		platformFails bool                         // the platform is down when the refresh reads a single account
		wantAnna      integration.ConnectionStatus // after the refresh
		wantWait      time.Duration                // how long the refresh waits
	}{
		"both accounts show after a few seconds":                              {hiddenFor: 5 * time.Second, wantAnna: integration.ConnectionConnected, wantWait: 6 * time.Second},
		"the account of anna was removed":                                     {annaRemoved: true, wantAnna: integration.ConnectionDisconnected, wantWait: 6 * time.Second},
		"the account of anna was removed, and the account of ben shows late":  {hiddenFor: 5 * time.Second, annaRemoved: true, wantAnna: integration.ConnectionDisconnected, wantWait: 6 * time.Second},
		"the account of anna was removed, and the sign-ins were a minute ago": {signedInAgo: time.Minute, annaRemoved: true, wantAnna: integration.ConnectionDisconnected},
		"the platform does not say whether an account exists":                 {annaRemoved: true, platformFails: true, wantAnna: integration.ConnectionConnected},
	} {
		inFakeTime(t, name, func(t *testing.T) {
			fx := newFixture(t)
			id := fx.createIntegration(t, "instantly")
			fx.connect(t, id, fx.ben)
			fx.connect(t, id, fx.anna)
			if tc.annaRemoved {
				fx.instantly.DropAccount(fx.anna.Address)
			}
			if tc.platformFails {
				fx.instantly.Fail(fake.Fault{Method: "Account", Kind: outcome.Down})
			}
			fx.platforms.AddWorkspace("instantly", "key", "ws-1", latePlatform{fx.instantly, time.Now().Add(tc.hiddenFor)})
			fx.advance(tc.signedInAgo)
			began := time.Now()
			result := fx.refresh(t, id)
			if wantErrors := map[bool]int{true: 1}[tc.platformFails]; result.ErrorCount != wantErrors || (result.Status == integrations.RefreshPartial) != tc.platformFails || fx.storedIntegration(t, id).HasError {
				t.Errorf("got %+v, want %d errors, a partial result only after an error, and no error of the integration", result, wantErrors)
			}
			if waited := time.Since(began); waited != tc.wantWait {
				t.Errorf("the refresh waited %s, want %s", waited, tc.wantWait)
			}
			fx.requireStatus(t, id, fx.anna, tc.wantAnna)
			fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
		})
	}
}

// TestRefreshReadsAtMostFiveLateAccounts checks seven accounts that the platform does not show. The
// refresh reads five of them, and does not change the connections of the two mailboxes whose
// accounts it did not read.
func TestRefreshReadsAtMostFiveLateAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		id := fx.createIntegration(t, "instantly")
		for _, name := range []string{"m1", "m2", "m3", "m4", "m5", "m6", "m7"} {
			fx.connect(t, id, fx.createMailbox(t, fx.ann, tenantGUID, name))
		}
		fx.platforms.AddWorkspace("instantly", "key", "ws-1", latePlatform{fx.instantly, time.Now().Add(time.Hour)})
		if r := fx.refresh(t, id); r.Status != integrations.RefreshPartial || r.Connected != 2 || r.ErrorCount != 2 {
			t.Errorf("got %+v, want two mailboxes that were not read and stay connected", r)
		}
	})
}

// TestRefreshEndsWhileItWaitsForLateAccounts checks that a refresh whose time ends while it waits
// for a late account changes no connection.
func TestRefreshEndsWhileItWaitsForLateAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		id := fx.createIntegration(t, "instantly")
		fx.connect(t, id, fx.anna)
		fx.platforms.AddWorkspace("instantly", "key", "ws-1", latePlatform{fx.instantly, time.Now().Add(time.Hour)})
		fx.Timeout = 3 * time.Second
		if r := fx.refresh(t, id); r.Status != integrations.RefreshPartial {
			t.Errorf("got %+v, want a partial result", r)
		}
		fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
	})
}

func countDrifts(drifts []integration.Drift) map[integration.Drift]int {
	counts := map[integration.Drift]int{}
	for _, d := range drifts {
		counts[d]++
	}
	return counts
}

func TestIncompleteListingChangesNoConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		fault     fake.Fault
		cycle     bool       // the cursors of the list form a cycle
		wantCode  fault.Code // the zero Code if Refresh returns a partial result
		wantError bool       // the integration is marked with an error
	}{
		"the first page is broken":                      {fault: fake.Fault{Method: "Accounts", Kind: outcome.Broken}, wantCode: fault.ProviderError, wantError: true},
		"the first page is throttled":                   {fault: fake.Fault{Method: "Accounts", Kind: outcome.Throttled}, wantCode: fault.ProviderUnavailable},
		"the credential is rejected":                    {fault: fake.Fault{Method: "Accounts", Kind: outcome.Refused, Code: fault.AccessDenied}, wantCode: fault.CredentialRejected, wantError: true},
		"the request for the second page is lost":       {fault: fake.Fault{Method: "Accounts", Kind: outcome.Unknown, Skip: 1}, wantError: true},
		"the second page is throttled":                  {fault: fake.Fault{Method: "Accounts", Kind: outcome.Throttled, Skip: 1}, wantError: true},
		"the platform is down at the second page":       {fault: fake.Fault{Method: "Accounts", Kind: outcome.Down, Skip: 1}, wantError: true},
		"the cursors form a cycle":                      {cycle: true, wantError: true},
		"the credential is rejected at the second page": {fault: fake.Fault{Method: "Accounts", Kind: outcome.Refused, Code: fault.AccessDenied, Skip: 1}, wantCode: fault.CredentialRejected, wantError: true},
		"the answer with the second page is lost":       {fault: fake.Fault{Method: "Accounts", Kind: outcome.Unknown, AfterEffect: true, Skip: 1}, wantError: true},
	} {
		inFakeTime(t, name, func(t *testing.T) {
			fx := newFixture(t)
			id := fx.createIntegration(t, "instantly")
			fx.connect(t, id, fx.anna)
			fx.connect(t, id, fx.ben)
			fx.createMailbox(t, fx.ann, tenantGUID, "never")
			fx.instantly.PageSize = 1
			fx.instantly.DropAccount(fx.ben.Address)
			fx.instantly.Put(integration.Account{Address: "x@other.test", State: integration.AccountConnected},
				integration.Account{Address: "y@other.test", State: integration.AccountConnected})
			if tc.cycle {
				fx.platforms.AddWorkspace("instantly", "key", "ws-1", cyclicPlatform{fx.instantly})
			} else {
				fx.instantly.Fail(tc.fault)
			}
			if tc.fault.Kind == outcome.Throttled {
				fx.Timeout = time.Second // too short for a pause
			}
			result, err := fx.Refresh(t.Context(), fx.ann.ID, id, nil)
			if tc.wantCode.Name != "" {
				requireRefusal(t, err, tc.wantCode)
			} else {
				must(t, err)
				want := integration.Tally{Checked: 3, Connected: 2, Unchanged: 1, ErrorCount: 2}
				if result.Tally != want || result.Status != integrations.RefreshPartial {
					t.Errorf("got %+v, want a partial result with %+v", result, want)
				}
			}
			if n := fx.instantly.Calls("Accounts"); n > 5 || n > 1 && tc.fault.Skip == 0 && !tc.cycle {
				t.Errorf("%d pages were read, want at most 5, or 1 if the first page fails", n)
			}
			fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
			fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
			i := fx.storedIntegration(t, id)
			if i.HasError != tc.wantError || !i.RefreshedAt.IsZero() || (i.Status == integration.Failed) != (tc.wantCode == fault.CredentialRejected) {
				t.Errorf("the integration is %+v, want an error: %v, no completed refresh, and the status failed only after a rejected credential", i, tc.wantError)
			}
		})
	}
}

func TestCancelledRefreshIsNotAFailure(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.anna)
	gate := fx.instantly.Hold("Accounts")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := fx.Refresh(ctx, fx.ann.ID, id, nil)
		ended <- err
	}()
	<-gate.Arrived()
	cancel()
	requireRefusal(t, <-ended, fault.ProviderTimeout)
	if i := fx.storedIntegration(t, id); i.HasError {
		t.Errorf("after a cancelled refresh the integration is %+v, want no error", i)
	}
	fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
}

// cyclicPlatform is a platform whose cursors form a cycle.
type cyclicPlatform struct{ ports.SendingPlatform }

func (p cyclicPlatform) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	page, err := p.SendingPlatform.Accounts(ctx, cursor)
	if n, _ := strconv.Atoi(cursor); n > 0 {
		page = integration.Page{Next: strconv.Itoa(n%3 + 1)}
	}
	return page, err
}

// TestRefreshNeedsTheCapability checks a platform that cannot list its accounts. A different
// account does not learn that the integration exists.
func TestRefreshNeedsTheCapability(t *testing.T) {
	fx := newFixture(t)
	platform := fx.addPlatform("blind", func([]string) integration.Capabilities { return integration.Capabilities{} })
	id := fx.createIntegration(t, "blind")
	_, err := fx.Refresh(t.Context(), fx.ann.ID, id, nil)
	requireRefusal(t, err, fault.CapabilityMissing)
	_, err = fx.Refresh(t.Context(), fx.bob.ID, id, nil)
	requireRefusal(t, err, fault.IntegrationNotFound)
	if n := platform.Calls("Accounts"); n != 0 {
		t.Errorf("the platform got %d calls, want 0", n)
	}
}

// TestPluginThatDoesNotRunIsUnavailable checks an integration while the plugin of its platform does
// not run. The capabilities of the integration are not known, so requests that need a capability
// fail with provider_unavailable. List still returns the integration.
func TestPluginThatDoesNotRunIsUnavailable(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.ben)
	fx.platforms.StopPlugin("instantly")
	_, err := fx.BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, nil)
	requireRefusal(t, err, fault.ProviderUnavailable)
	_, err = fx.Refresh(t.Context(), fx.ann.ID, id, nil)
	requireRefusal(t, err, fault.ProviderUnavailable)
	_, err = fx.Disconnect(t.Context(), fx.ann.ID, id, fx.ben.ID, nil)
	requireRefusal(t, err, fault.ProviderUnavailable)
	fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
	views, err := fx.List(t.Context(), fx.ann.ID)
	if err != nil || len(views) != 1 || views[0].Capabilities != (integration.Capabilities{}) || views[0].HasError {
		t.Errorf("the integrations are %+v, %v; want one without capabilities", views, err)
	}
}

// heldPlatforms are platforms whose lists of accounts arrive late. A list is created when it is
// requested, and returned when release is closed.
type heldPlatforms struct {
	ports.SendingPlatforms
	created, release chan struct{}
}

func (p heldPlatforms) For(provider string, c secret.Credential) ports.SendingPlatform {
	return heldPlatform{p.SendingPlatforms.For(provider, c), p}
}

type heldPlatform struct {
	ports.SendingPlatform
	held heldPlatforms
}

func (p heldPlatform) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	page, err := p.SendingPlatform.Accounts(ctx, cursor)
	close(p.held.created)
	<-p.held.release
	return page, err
}

// TestOlderListingDoesNotOverwriteNewerOne checks two concurrent refreshes. The result of the
// refresh whose list is newer is kept, even if the refresh with the older list ends last.
func TestOlderListingDoesNotOverwriteNewerOne(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.advance(time.Minute)
	held := heldPlatforms{fx.Platforms, make(chan struct{}), make(chan struct{})}
	olderRefresh := make(chan error)
	go func() {
		_, err := fx.service(fx.store, fx.store, held).Refresh(context.WithoutCancel(t.Context()), fx.ann.ID, id, nil)
		olderRefresh <- err
	}()
	<-held.created
	fx.instantly.DropAccount(fx.anna.Address)
	fx.advance(time.Minute)
	fx.refresh(t, id)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
	close(held.release)
	must(t, <-olderRefresh)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
}

// TestRefreshEndsAFailedConnectionWhoseAccountIsGone checks a mailbox that was connected through a
// different integration after its account had failed. When the failed account is removed at its
// platform, a refresh ends the failed connection. The connection through the different integration
// does not change.
func TestRefreshEndsAFailedConnectionWhoseAccountIsGone(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	fx.connect(t, instantlyID, fx.anna)
	fx.instantly.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountFailed, HasError: true})
	fx.refresh(t, instantlyID)
	fx.connect(t, plusvibeID, fx.anna)
	fx.refresh(t, instantlyID)
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionFailed)
	fx.instantly.DropAccount(fx.anna.Address)
	if result := fx.refresh(t, instantlyID); result.Unchanged != 1 || result.Connected != 0 {
		t.Errorf("got %+v, want only ben unchanged and no mailbox connected", result)
	}
	if c := fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected); c.HasError || c.PlatformAccountID != "" {
		t.Errorf("the connection is %+v, want neither an error nor an account", c)
	}
	fx.requireStatus(t, plusvibeID, fx.anna, integration.ConnectionConnected)
}
