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
	id, secondID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	mailboxes := map[string]mailbox.Mailbox{}
	for _, name := range []string{"closed", "vanished", "revoked", "steady", "elsewhere", "never", "found", "paused"} {
		mailboxes[name] = fx.createMailbox(t, fx.ann, tenantGUID, name)
	}
	for _, name := range []string{"vanished", "revoked", "steady", "paused"} {
		fx.connect(t, id, mailboxes[name])
	}
	fx.connect(t, secondID, mailboxes["elsewhere"])
	b := fx.beginSession(t, id, mailboxes["closed"])
	fx.instantly.CompleteSignIn(b.AuthURL.Reveal(), mailboxes["closed"].Address, "Closed")
	fx.instantly.DropAccount(mailboxes["vanished"].Address)
	fx.instantly.Put(
		integration.Account{Address: mailboxes["revoked"].Address, State: integration.AccountFailed, HasError: true, Reason: "connection_error"},
		integration.Account{Address: "ELSEWHERE@example.test", State: integration.AccountConnected},
		integration.Account{Address: "Found@Example.test", State: integration.AccountConnected},
		integration.Account{ID: fx.storedConnection(t, id, mailboxes["paused"]).PlatformAccountID, Address: mailboxes["paused"].Address, State: integration.AccountConnected, Paused: true},
		integration.Account{Address: "stranger@other.test", State: integration.AccountConnected})
	fx.instantly.PageSize = 2
	fx.advance(time.Minute) // the accounts of the sign-ins cannot show late any more
	r := fx.refresh(t, id)
	want := integrations.RefreshResult{IntegrationID: id, Provider: "instantly", Status: integrations.RefreshCompleted,
		Tally: integration.Tally{Checked: 10, Connected: 4, NewlyConnected: 2, Unchanged: 6}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	for name, status := range map[string]integration.ConnectionStatus{
		"closed": integration.ConnectionConnected, "vanished": integration.ConnectionDisconnected, "revoked": integration.ConnectionFailed,
		"steady": integration.ConnectionConnected, "elsewhere": "", "never": "", "found": integration.ConnectionConnected, "paused": integration.ConnectionConnected,
	} {
		fx.requireStatus(t, id, mailboxes[name], status)
	}
	if c := fx.storedConnection(t, id, mailboxes["revoked"]); !c.HasError || c.Reason != "connection_error" {
		t.Errorf("the connection is %+v, want the error of the platform", c)
	}
	fx.requireStatus(t, secondID, mailboxes["elsewhere"], integration.ConnectionConnected)
	if diff := cmp.Diff(map[integration.Drift]int{integration.DriftGone: 1, integration.DriftGrantLost: 1, integration.DriftAppeared: 1}, countDrifts(fx.drifts)); diff != "" {
		t.Error(diff)
	}
	if i := fx.storedIntegration(t, id); i.RefreshedAt != fx.clock || i.HasError {
		t.Errorf("the integration is %+v, want a refresh at %s without an error", i, fx.clock)
	}
	fx.requireSession(t, b, integration.SessionConnected)
	if again := fx.refresh(t, id); again.Unchanged != 10 || again.NewlyConnected != 0 || again.Connected != 4 {
		t.Errorf("again: %+v", again)
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
// platform is down when the accounts are read again.
func TestRefreshWaitsForAccountsThatShowLate(t *testing.T) {
	for name, tt := range map[string]struct {
		age     time.Duration // of the sign-ins
		late    time.Duration // how long the platform does not show the accounts
		removed bool          // the account of anna
		fails   bool          // the platform is down when the accounts are read again
		want    integration.ConnectionStatus
		waits   time.Duration
	}{
		"the accounts show after a few seconds":               {late: 5 * time.Second, want: integration.ConnectionConnected, waits: 6 * time.Second},
		"an account was removed":                              {removed: true, want: integration.ConnectionDisconnected, waits: 6 * time.Second},
		"one account was removed, and the other shows late":   {late: 5 * time.Second, removed: true, want: integration.ConnectionDisconnected, waits: 6 * time.Second},
		"an account was removed a minute after the sign-in":   {age: time.Minute, removed: true, want: integration.ConnectionDisconnected},
		"the platform does not say whether an account exists": {removed: true, fails: true, want: integration.ConnectionConnected},
	} {
		inFakeTime(t, name, func(t *testing.T) {
			fx := newFixture(t)
			id := fx.createIntegration(t, "instantly")
			fx.connect(t, id, fx.ben)
			fx.connect(t, id, fx.anna)
			if tt.removed {
				fx.instantly.DropAccount(fx.anna.Address)
			}
			if tt.fails {
				fx.instantly.Fail(fake.Fault{Method: "Account", Kind: outcome.Down})
			}
			fx.platforms.AddWorkspace("instantly", "key", "ws-1", latePlatform{fx.instantly, time.Now().Add(tt.late)})
			fx.advance(tt.age)
			began := time.Now()
			r := fx.refresh(t, id)
			if wantErrors := map[bool]int{true: 1}[tt.fails]; r.ErrorCount != wantErrors || (r.Status == integrations.RefreshPartial) != tt.fails || fx.storedIntegration(t, id).HasError {
				t.Errorf("got %+v, want %d errors", r, wantErrors)
			}
			if waited := time.Since(began); waited != tt.waits {
				t.Errorf("the refresh waited %s, want %s", waited, tt.waits)
			}
			fx.requireStatus(t, id, fx.anna, tt.want)
			fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
		})
	}
}

// TestRefreshReadsAtMostFiveLateAccounts checks seven accounts that the platform does not show. The
// refresh reads five of them, and does not change the connections of the other two mailboxes.
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

func TestIncompleteListingChangesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		fault     fake.Fault
		cycle     bool       // the cursors of the list form a cycle
		want      fault.Code // the zero Code if Refresh returns a partial result
		wantError bool       // the integration is marked with an error
	}{
		"the first page is broken":                      {fault: fake.Fault{Method: "Accounts", Kind: outcome.Broken}, want: fault.ProviderError, wantError: true},
		"the first page is throttled":                   {fault: fake.Fault{Method: "Accounts", Kind: outcome.Throttled}, want: fault.ProviderUnavailable},
		"the credential is rejected":                    {fault: fake.Fault{Method: "Accounts", Kind: outcome.Refused, Code: fault.AccessDenied}, want: fault.CredentialRejected, wantError: true},
		"the request for the second page is lost":       {fault: fake.Fault{Method: "Accounts", Kind: outcome.Unknown, Skip: 1}, wantError: true},
		"the second page is throttled":                  {fault: fake.Fault{Method: "Accounts", Kind: outcome.Throttled, Skip: 1}, wantError: true},
		"the platform is down at the second page":       {fault: fake.Fault{Method: "Accounts", Kind: outcome.Down, Skip: 1}, wantError: true},
		"the cursors form a cycle":                      {cycle: true, wantError: true},
		"the credential is rejected at the second page": {fault: fake.Fault{Method: "Accounts", Kind: outcome.Refused, Code: fault.AccessDenied, Skip: 1}, want: fault.CredentialRejected, wantError: true},
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
			if tt.cycle {
				fx.platforms.AddWorkspace("instantly", "key", "ws-1", cyclicPlatform{fx.instantly})
			} else {
				fx.instantly.Fail(tt.fault)
			}
			if tt.fault.Kind == outcome.Throttled {
				fx.Timeout = time.Second // too short for a pause
			}
			r, err := fx.Refresh(t.Context(), fx.ann.ID, id, nil)
			if tt.want.Name != "" {
				requireRefusal(t, err, tt.want)
			} else {
				must(t, err)
				want := integration.Tally{Checked: 3, Connected: 2, Unchanged: 1, ErrorCount: 2}
				if r.Tally != want || r.Status != integrations.RefreshPartial {
					t.Errorf("got %+v, want a partial result with %+v", r, want)
				}
			}
			if n := fx.instantly.Calls("Accounts"); n > 5 || n > 1 && tt.fault.Skip == 0 && !tt.cycle {
				t.Errorf("%d pages were read, want at most 5, or 1 if the first page fails", n)
			}
			fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
			fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
			i := fx.storedIntegration(t, id)
			if i.HasError != tt.wantError || !i.RefreshedAt.IsZero() || (i.Status == integration.Failed) != (tt.want == fault.CredentialRejected) {
				t.Errorf("the integration is %+v", i)
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
		t.Errorf("a cancelled refresh marked the integration as failing: %+v", i)
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

func TestRefreshNeedsTheCapability(t *testing.T) {
	fx := newFixture(t)
	platform := fx.addPlatform("blind", func([]string) integration.Capabilities { return integration.Capabilities{} })
	id := fx.createIntegration(t, "blind")
	_, err := fx.Refresh(t.Context(), fx.ann.ID, id, nil)
	requireRefusal(t, err, fault.CapabilityMissing)
	_, err = fx.Refresh(t.Context(), fx.bob.ID, id, nil)
	requireRefusal(t, err, fault.IntegrationNotFound)
	if n := platform.Calls("Accounts"); n != 0 {
		t.Error("the platform was called")
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
// refresh whose list is newer is kept, even if the other refresh ends last.
func TestOlderListingDoesNotOverwriteNewerOne(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	m := fx.createMailbox(t, fx.ann, tenantGUID, "gone")
	fx.connect(t, id, m)
	fx.advance(time.Minute)
	held := heldPlatforms{fx.Platforms, make(chan struct{}), make(chan struct{})}
	older := make(chan error)
	go func() {
		_, err := fx.service(fx.store, fx.store, held).Refresh(context.WithoutCancel(t.Context()), fx.ann.ID, id, nil)
		older <- err
	}()
	<-held.created
	fx.instantly.DropAccount(m.Address)
	fx.advance(time.Minute)
	fx.refresh(t, id)
	fx.requireStatus(t, id, m, integration.ConnectionDisconnected)
	close(held.release)
	must(t, <-older)
	fx.requireStatus(t, id, m, integration.ConnectionDisconnected)
}

// TestRefreshEndsAFailedConnectionWhoseAccountIsGone checks a mailbox that was connected through a
// different integration after its account had failed. When the failed account is removed at its
// platform, a refresh ends the failed connection. The other connection does not change.
func TestRefreshEndsAFailedConnectionWhoseAccountIsGone(t *testing.T) {
	fx := newFixture(t)
	id, secondID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	fx.connect(t, id, fx.anna)
	fx.instantly.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountFailed, HasError: true})
	fx.refresh(t, id)
	fx.connect(t, secondID, fx.anna)
	fx.refresh(t, id)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionFailed)
	fx.instantly.DropAccount(fx.anna.Address)
	if r := fx.refresh(t, id); r.Unchanged != 1 || r.Connected != 0 {
		t.Errorf("got %+v, want only ben unchanged", r)
	}
	if c := fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected); c.HasError || c.PlatformAccountID != "" {
		t.Errorf("the connection is %+v, want neither an error nor an account", c)
	}
	fx.requireStatus(t, secondID, fx.anna, integration.ConnectionConnected)
}
