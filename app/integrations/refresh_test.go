// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"strconv"
	"testing"
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

func TestRefreshMakesStatesTrue(t *testing.T) {
	fx := newFixture(t)
	id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
	named := map[string]mailbox.Mailbox{}
	for _, name := range []string{"closed", "vanished", "revoked", "steady", "elsewhere", "never", "found", "paused"} {
		named[name] = fx.mailbox(t, fx.acc, theTenant, name)
	}
	for _, name := range []string{"vanished", "revoked", "steady", "paused"} {
		fx.connect(t, id, named[name])
	}
	fx.connect(t, second, named["elsewhere"])
	b := fx.begin(t, id, named["closed"])
	fx.instantly.CompleteSignIn(b.AuthURL.Reveal(), named["closed"].Address, "Closed")
	fx.instantly.DropAccount(named["vanished"].Address)
	fx.instantly.Put(
		integration.Account{Address: named["revoked"].Address, State: integration.AccountFailed, HasError: true, Reason: "connection_error"},
		integration.Account{Address: "ELSEWHERE@example.test", State: integration.AccountConnected},
		integration.Account{Address: "Found@Example.test", State: integration.AccountConnected},
		integration.Account{ID: fx.connection(t, id, named["paused"]).AccountID, Address: named["paused"].Address, State: integration.AccountConnected, Paused: true},
		integration.Account{Address: "stranger@other.test", State: integration.AccountConnected})
	fx.instantly.PageSize = 2
	r := fx.refresh(t, id)
	want := integrations.Refreshed{IntegrationID: id, Provider: "instantly", Status: integrations.RefreshCompleted,
		Tally: integration.Tally{Checked: 10, Connected: 4, NewlyConnected: 2, Unchanged: 6}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	for name, status := range map[string]integration.ConnectionStatus{
		"closed": integration.ConnectionConnected, "vanished": integration.ConnectionDisconnected, "revoked": integration.ConnectionFailed,
		"steady": integration.ConnectionConnected, "elsewhere": "", "never": "", "found": integration.ConnectionConnected, "paused": integration.ConnectionConnected,
	} {
		fx.requireStatus(t, id, named[name], status)
	}
	if c := fx.connection(t, id, named["revoked"]); !c.HasError || c.Reason != "connection_error" {
		t.Errorf("%+v", c)
	}
	fx.requireStatus(t, second, named["elsewhere"], integration.ConnectionConnected)
	if diff := cmp.Diff(map[integration.Drift]int{integration.DriftGone: 1, integration.DriftGrantLost: 1, integration.DriftAppeared: 1}, counted(fx.drifts)); diff != "" {
		t.Error(diff)
	}
	if i := fx.integration(t, id); i.RefreshedAt != fx.clock || i.HasError {
		t.Errorf("%+v", i)
	}
	fx.status(t, b, integration.SessionConnected)
	if again := fx.refresh(t, id); again.Unchanged != 10 || again.NewlyConnected != 0 || again.Connected != 4 {
		t.Errorf("again: %+v", again)
	}
}

func counted(drifts []integration.Drift) map[integration.Drift]int {
	n := map[integration.Drift]int{}
	for _, d := range drifts {
		n[d]++
	}
	return n
}

// TestIncompleteListingChangesNothing checks that an interrupted listing changes no connection.
func TestIncompleteListingChangesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		fault  fake.Fault
		loop   bool
		want   fault.Code // when there is no answer at all
		marked bool
	}{
		"the first page":               {fault: fake.Fault{Method: "Accounts", Kind: outcome.Broken}, want: fault.ProviderError, marked: true},
		"the first page, throttled":    {fault: fake.Fault{Method: "Accounts", Kind: outcome.Throttled}, want: fault.ProviderUnavailable},
		"the credential":               {fault: fake.Fault{Method: "Accounts", Kind: outcome.Refused, Code: fault.AccessDenied}, want: fault.CredentialRejected, marked: true},
		"the second page":              {fault: fake.Fault{Method: "Accounts", Kind: outcome.Unknown, Skip: 1}, marked: true},
		"the second page, throttled":   {fault: fake.Fault{Method: "Accounts", Kind: outcome.Throttled, Skip: 1}, marked: true},
		"the second page, down":        {fault: fake.Fault{Method: "Accounts", Kind: outcome.Down, Skip: 1}, marked: true},
		"a circle":                     {loop: true, marked: true},
		"the credential on the way":    {fault: fake.Fault{Method: "Accounts", Kind: outcome.Refused, Code: fault.AccessDenied, Skip: 1}, want: fault.CredentialRejected, marked: true},
		"an answer that came too late": {fault: fake.Fault{Method: "Accounts", Kind: outcome.Unknown, AfterEffect: true, Skip: 1}, marked: true},
	} {
		inFakeTime(t, name, func(t *testing.T) {
			fx := newFixture(t)
			id := fx.integrate(t, "instantly")
			fx.connect(t, id, fx.anna)
			fx.connect(t, id, fx.ben)
			fx.mailbox(t, fx.acc, theTenant, "never")
			fx.instantly.PageSize = 1
			fx.instantly.DropAccount(fx.ben.Address)
			fx.instantly.Put(integration.Account{Address: "x@other.test", State: integration.AccountConnected},
				integration.Account{Address: "y@other.test", State: integration.AccountConnected})
			if tt.loop {
				fx.platforms.AddWorkspace("instantly", "key", "ws-1", looping{fx.instantly})
			} else {
				fx.instantly.Fail(tt.fault)
			}
			if tt.fault.Kind == outcome.Throttled {
				fx.Limit = time.Second // less than a pause needs
			}
			r, err := fx.Refresh(t.Context(), fx.acc.ID, id, nil)
			if tt.want.Name != "" {
				refused(t, err, tt.want)
			} else {
				must(t, err)
				want := integration.Tally{Checked: 3, Connected: 2, Unchanged: 1, ErrorCount: 2}
				if r.Tally != want || r.Status != integrations.RefreshPartial {
					t.Errorf("%+v", r)
				}
			}
			if n := fx.instantly.Calls("Accounts"); n > 5 || n > 1 && tt.fault.Skip == 0 && !tt.loop {
				t.Errorf("%d pages were asked for", n)
			}
			fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
			fx.requireStatus(t, id, fx.ben, integration.ConnectionConnected)
			i := fx.integration(t, id)
			if i.HasError != tt.marked || !i.RefreshedAt.IsZero() || (i.Status == integration.Failed) != (tt.want == fault.CredentialRejected) {
				t.Errorf("the integration is %+v", i)
			}
		})
	}
}

// TestCancelledRefreshIsNotAFailure checks that a canceled refresh does not mark the integration as
// failing.
func TestCancelledRefreshIsNotAFailure(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	fx.connect(t, id, fx.anna)
	gate := fx.instantly.Hold("Accounts")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := fx.Refresh(ctx, fx.acc.ID, id, nil)
		ended <- err
	}()
	<-gate.Arrived()
	cancel()
	refused(t, <-ended, fault.ProviderTimeout)
	if i := fx.integration(t, id); i.HasError {
		t.Errorf("%+v", i)
	}
	fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
}

// looping is a platform whose cursors form a cycle.
type looping struct{ ports.SendingPlatform }

func (l looping) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	page, err := l.SendingPlatform.Accounts(ctx, cursor)
	if n, _ := strconv.Atoi(cursor); n > 0 {
		page = integration.Page{Next: strconv.Itoa(n%3 + 1)}
	}
	return page, err
}

func TestRefreshNeedsTheCapability(t *testing.T) {
	fx := newFixture(t)
	p := fx.platform("blind", func([]string) integration.Capabilities { return integration.Capabilities{} })
	id := fx.integrate(t, "blind")
	_, err := fx.Refresh(t.Context(), fx.acc.ID, id, nil)
	refused(t, err, fault.CapabilityMissing)
	_, err = fx.Refresh(t.Context(), fx.bob.ID, id, nil)
	refused(t, err, fault.IntegrationNotFound)
	if n := p.Calls("Accounts"); n != 0 {
		t.Error("the platform was called")
	}
}

// heldPlatforms are platforms whose lists of accounts arrive late: a list is created at the call,
// and returned when release is closed.
type heldPlatforms struct {
	ports.SendingPlatforms
	made, release chan struct{}
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
	close(p.held.made)
	<-p.held.release
	return page, err
}

// Of two concurrent refreshes, the result of the one that began to list later is kept, even if the
// other one ends last.
func TestOlderListingDoesNotOverwriteNewerOne(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	anna := fx.mailbox(t, fx.acc, theTenant, "gone")
	fx.connect(t, id, anna)
	fx.wait(time.Minute)
	held := heldPlatforms{fx.Platforms, make(chan struct{}), make(chan struct{})}
	older := make(chan error)
	go func() {
		_, err := fx.service(fx.store, fx.store, held).Refresh(context.WithoutCancel(t.Context()), fx.acc.ID, id, nil)
		older <- err
	}()
	<-held.made
	fx.instantly.DropAccount(anna.Address)
	fx.wait(time.Minute)
	fx.refresh(t, id)
	fx.requireStatus(t, id, anna, integration.ConnectionDisconnected)
	close(held.release)
	must(t, <-older)
	fx.requireStatus(t, id, anna, integration.ConnectionDisconnected)
}
