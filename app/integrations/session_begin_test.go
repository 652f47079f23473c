// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// TestBeginRefusesBeforeItCallsThePlatform checks the order of refusals, and that the platform is
// not called.
func TestBeginRefusesBeforeItCallsThePlatform(t *testing.T) {
	fx := newFixture(t)
	fx.platform("emailbison", func([]string) integration.Capabilities { return integration.Capabilities{MailboxRefresh: true} })
	id, second, bison := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe"), fx.integrate(t, "emailbison")
	foreign := fx.mailbox(t, fx.bob, "33333333-2222-4333-8444-555555555555", "bob")
	found := fx.discovered(t)
	fx.connect(t, second, fx.ben)
	asked := fx.instantly.Calls("Account") + fx.instantly.Calls("StartSignIn")
	over := fx.acc
	over.Plan.TenantSlots = 0
	for _, tt := range []struct {
		name        string
		id, mailbox string
		slots       int
		want        fault.Code
	}{
		{"no integration, whatever the mailbox", stranger, stranger, 0, fault.IntegrationNotFound},
		{"no mailbox", id, stranger, 0, fault.MailboxNotFound},
		{"no id", id, "anna", 0, fault.MailboxNotFound},
		{"another account's mailbox", id, foreign.ID, 0, fault.MailboxNotFound},
		{"one that discovery found", id, found.ID, 0, fault.MailboxNotFound},
		{"over the plan", id, fx.ben.ID, 0, fault.TenantLimitReached},
		{"connected elsewhere", id, fx.ben.ID, 1, fault.ConnectedElsewhere},
		{"what it can do comes before where the mailbox is", bison, fx.ben.ID, 1, fault.CapabilityMissing},
		{"cannot do it", bison, fx.anna.ID, 1, fault.CapabilityMissing},
	} {
		over.Plan.TenantSlots = tt.slots
		_, err := fx.Begin(t.Context(), over, tt.id, tt.mailbox, nil)
		if fault.Of(err).Code != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want.Name)
		}
	}
	_, err := fx.Begin(t.Context(), fx.bob, id, fx.anna.ID, nil)
	refused(t, err, fault.IntegrationNotFound)
	if n := fx.instantly.Calls("Account") + fx.instantly.Calls("StartSignIn"); n != asked {
		t.Errorf("the platform was called")
	}
	fx.begin(t, id, fx.anna)
	_, err = fx.Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
	refused(t, err, fault.SessionActive)
	_, err = fx.Begin(t.Context(), fx.acc, second, fx.anna.ID, nil)
	refused(t, err, fault.ConnectedElsewhere)
}

// discovered returns an existing mailbox that tenantry did not create.
func (fx *fixture) discovered(t *testing.T) mailbox.Mailbox {
	t.Helper()
	d, err := fx.store.Domain(t.Context(), fx.acc.ID, theTenant, zone)
	must(t, err)
	rows, err := fx.store.ReserveMailboxes(t.Context(), fx.acc.ID, d.ID, []mailbox.Spec{{Address: "found@" + zone}}, 99, fx.clock)
	must(t, err)
	m := rows[0]
	m.Stage = mailbox.Ready
	must(t, fx.store.SaveMailbox(t.Context(), fx.acc.ID, m))
	return m
}

// TestOneOfFiftyBegins checks that one of many concurrent requests, on two integrations, gets a
// session.
func TestOneOfFiftyBegins(t *testing.T) {
	fx := newFixture(t)
	ids := []string{fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")}
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			_, err := fx.Begin(t.Context(), fx.acc, ids[n%2], fx.anna.ID, nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got["begun"]++
			} else {
				got[fault.Of(err).Code.Name]++
			}
		})
	}
	all.Wait()
	if got["begun"] != 1 || got["begun"]+got[fault.SessionActive.Name]+got[fault.ConnectedElsewhere.Name] != 50 {
		t.Errorf("%v", got)
	}
	if n := fx.instantly.Calls("StartSignIn") + fx.plusvibe.Calls("StartSignIn"); n != 1 {
		t.Errorf("the platforms were asked for %d links", n)
	}
}

// slowSessions is a store whose BeginSession is slow.
type slowSessions struct {
	ports.Connections
	entered, proceed chan struct{}
}

func (s slowSessions) BeginSession(ctx context.Context, owner access.AccountID, begun integration.Session, id string, stale time.Time) error {
	s.entered <- struct{}{}
	<-s.proceed
	return s.Connections.BeginSession(ctx, owner, begun, id, stale)
}

// TestOneRequestAtTheStore checks that only one request at a time asks the store to begin a session
// of a mailbox. Other requests for the mailbox are refused without a call of the store. Requests
// for other mailboxes are not refused.
func TestOneRequestAtTheStore(t *testing.T) {
	fx := newFixture(t)
	id, slow := fx.integrate(t, "instantly"), slowSessions{fx.store, make(chan struct{}), make(chan struct{})}
	s := fx.service(fx.store, slow, fx.platforms)
	begun := make(chan error, 2)
	for _, m := range []mailbox.Mailbox{fx.anna, fx.ben} {
		go func() {
			_, err := s.Begin(t.Context(), fx.acc, id, m.ID, nil)
			begun <- err
		}()
		<-slow.entered
		_, err := s.Begin(t.Context(), fx.acc, id, m.ID, nil)
		refused(t, err, fault.SessionActive)
	}
	close(slow.proceed)
	for range cap(begun) {
		must(t, <-begun)
	}
}

// TestAFailedStartRestoresTheConnection checks that a failed start restores the mailbox's
// connection, and that the mailbox can then begin a session.
func TestAFailedStartRestoresTheConnection(t *testing.T) {
	fx := newFixture(t)
	for name, tt := range map[string]struct {
		fault fake.Fault
		want  fault.Code
	}{
		"throttled":          {fake.Fault{Method: "StartSignIn", Kind: outcome.Throttled, Times: 1}, fault.ProviderUnavailable},
		"refused":            {fake.Fault{Method: "StartSignIn", Kind: outcome.Refused, Code: fault.AccessDenied, Times: 1}, fault.CredentialRejected},
		"no answer":          {fake.Fault{Method: "StartSignIn", Kind: outcome.Unknown, AfterEffect: true, Times: 1}, fault.ProviderTimeout},
		"nonsense":           {fake.Fault{Method: "StartSignIn", Kind: outcome.Broken, Times: 1}, fault.ProviderError},
		"look-up unanswered": {fake.Fault{Method: "Account", Kind: outcome.Unknown, Times: 1}, fault.ProviderTimeout},
	} {
		for _, was := range []integration.ConnectionStatus{"", integration.ConnectionConnected, integration.ConnectionDisconnected} {
			t.Run(name+" "+string(was), func(t *testing.T) {
				fx.switchAccount(t)
				id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
				want := integration.ConnectionFailed
				if was != "" {
					fx.connect(t, id, fx.anna)
					want = was
				}
				if was == integration.ConnectionDisconnected {
					_, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
					must(t, err)
				}
				defer fx.instantly.Fail(tt.fault)()
				_, err := fx.Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
				refused(t, err, tt.want)
				fx.requireStatus(t, id, fx.anna, want)
				if i := fx.integration(t, id); i.HasError != (name == "refused") || (i.Status == integration.Failed) != i.HasError {
					t.Errorf("the integration is %+v", i)
				}
				if was == "" {
					fx.connect(t, second, fx.anna)
				} else {
					fx.connect(t, id, fx.anna)
				}
			})
		}
	}
}

// interruptedStarts is a platform that runs a function during each start of a session, and then
// fails.
type interruptedStarts struct {
	ports.SendingPlatform

	meanwhile func()
}

func (m interruptedStarts) StartSignIn(context.Context, string) (integration.SignIn, error) {
	m.meanwhile()
	return integration.SignIn{}, &outcome.Error{Kind: outcome.Throttled}
}

// TestRefreshDuringAStart checks that a failed start does not undo the result of a concurrent
// refresh.
func TestRefreshDuringAStart(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.platforms.AddWorkspace("instantly", "key", "ws-1", interruptedStarts{fx.instantly, func() {
		fx.instantly.DropAccount(fx.anna.Address)
		fx.wait(time.Second)
		fx.refresh(t, id)
		fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
	}})
	fx.wait(time.Second)
	_, err := fx.Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
	refused(t, err, fault.ProviderUnavailable)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
}

// TestLinkLeadsToDeclaredHosts checks that a link to an undeclared host is not returned.
func TestLinkLeadsToDeclaredHosts(t *testing.T) {
	fx := newFixture(t)
	fx.platforms.AddProvider(integration.Provider{ID: "evil", Title: "Evil", AuthHosts: []string{"login.other.example"}}, nil)
	fx.platforms.AddWorkspace("evil", "key", "", fx.instantly)
	fx.platforms.AddWorkspace("evil", "key", "ws-1", fx.instantly)
	id := fx.integrate(t, "evil")
	b, err := fx.Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
	refused(t, err, fault.ProviderError)
	if b.AuthURL.Reveal() != "" || strings.Contains(err.Error(), "microsoftonline") {
		t.Errorf("%v, %v", b.AuthURL.Reveal(), err)
	}
	fx.requireStatus(t, id, fx.anna, integration.ConnectionFailed)
}

// TestSlowRequestLosesItsSession checks that a request returns no link if another request has ended
// its session.
func TestSlowRequestLosesItsSession(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	gate := fx.instantly.Hold("StartSignIn")
	slow := make(chan error, 1)
	go func() {
		_, err := fx.Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
		slow <- err
	}()
	<-gate.Arrived()
	fx.wait(11 * time.Second)
	quick := make(chan error, 1)
	var b integrations.Begun
	go func() {
		var err error
		b, err = fx.Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
		quick <- err
	}()
	select {
	case <-gate.Arrived():
	case err := <-quick:
		quick <- err
	}
	gate.Release()
	first, second := <-slow, <-quick
	refused(t, first, fault.SessionActive)
	must(t, second)
	fx.instantly.CompleteSignIn(b.AuthURL.Reveal(), fx.anna.Address, "Anna")
	fx.status(t, b, integration.SessionConnected)
}

// TestBeginFindsALateSignIn checks that Begin does not end an expired session without a check at
// the platform. The person signed in after the last check.
func TestBeginFindsALateSignIn(t *testing.T) {
	for name, late := range map[string]struct {
		provider string
		after    time.Duration
		signIn   bool
		want     integration.SessionStatus
	}{
		"signed in, a platform with sessions":    {"instantly", 20 * time.Minute, true, integration.SessionConnected},
		"signed in, a platform without sessions": {"plusvibe", 20 * time.Minute, true, integration.SessionConnected},
		"not signed in":                          {"instantly", 20 * time.Minute, false, integration.SessionExpired},
		"within the grace of the platform":       {"instantly", 10*time.Minute + time.Second, false, integration.SessionExpired},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			id := fx.integrate(t, late.provider)
			first := fx.begin(t, id, fx.anna)
			if late.signIn {
				fx.at(t, id).CompleteSignIn(first.AuthURL.Reveal(), fx.anna.Address, "Anna")
			}
			fx.wait(late.after)
			second := fx.begin(t, id, fx.anna)
			fx.status(t, first, late.want)
			fx.status(t, second, integration.SessionPending)
			want := integration.ConnectionPending
			if late.signIn {
				want = integration.ConnectionConnected
			}
			fx.requireStatus(t, id, fx.anna, want)
		})
	}
}

// TestBeginAfterASessionThatCannotBeChecked checks that no session begins while the platform cannot
// say how the expired session ended. After maxCheckDelay the expired session ends without a check.
func TestBeginAfterASessionThatCannotBeChecked(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	first := fx.begin(t, id, fx.anna)
	fx.wait(20 * time.Minute)
	lift := fx.instantly.Fail(fake.Fault{Method: "SignIn", Kind: outcome.Down})
	_, err := fx.Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
	refused(t, err, fault.ProviderUnavailable)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionPending)
	fx.wait(time.Hour)
	second := fx.begin(t, id, fx.anna)
	lift()
	fx.status(t, first, integration.SessionExpired)
	fx.status(t, second, integration.SessionPending)
}
