// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"errors"
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

// TestBeginRefusesBeforeItCallsThePlatform checks the error code of each refused request, and that
// a refused request does not call the platform.
func TestBeginRefusesBeforeItCallsThePlatform(t *testing.T) {
	fx := newFixture(t)
	fx.addPlatform("emailbison", func([]string) integration.Capabilities { return integration.Capabilities{MailboxRefresh: true} })
	instantlyID, plusvibeID, emailbisonID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe"), fx.createIntegration(t, "emailbison")
	mailboxOfBob := fx.createMailbox(t, fx.bob, "33333333-2222-4333-8444-555555555555", "bob")
	foreignMailbox := fx.createForeignMailbox(t)
	fx.connect(t, plusvibeID, fx.ben)
	callsBefore := fx.instantly.Calls("Account") + fx.instantly.Calls("StartSignIn")
	accountWithPlan := fx.ann
	accountWithPlan.Plan.TenantSlots = 0
	for _, tc := range []struct {
		name                     string
		integrationID, mailboxID string
		tenantSlots              int // of the plan
		wantCode                 fault.Code
	}{
		{"an unknown integration and an unknown mailbox", unknownID, unknownID, 0, fault.IntegrationNotFound},
		{"an unknown mailbox", instantlyID, unknownID, 0, fault.MailboxNotFound},
		{"a malformed mailbox id", instantlyID, "anna", 0, fault.MailboxNotFound},
		{"a mailbox of a different account", instantlyID, mailboxOfBob.ID, 0, fault.MailboxNotFound},
		{"a mailbox that the service did not create", instantlyID, foreignMailbox.ID, 0, fault.MailboxNotFound},
		{"more tenants than the plan allows", instantlyID, fx.ben.ID, 0, fault.TenantLimitReached},
		{"a mailbox that a different integration has connected", instantlyID, fx.ben.ID, 1, fault.ConnectedElsewhere},
		{"a missing capability, and a different integration that has connected the mailbox", emailbisonID, fx.ben.ID, 1, fault.CapabilityMissing},
		{"a missing capability", emailbisonID, fx.anna.ID, 1, fault.CapabilityMissing},
	} {
		accountWithPlan.Plan.TenantSlots = tc.tenantSlots
		_, err := fx.BeginSignIn(t.Context(), accountWithPlan, tc.integrationID, tc.mailboxID, nil)
		if fault.ErrorOf(err).Code != tc.wantCode {
			t.Errorf("%s: got the error %v, want %s", tc.name, err, tc.wantCode.Name)
		}
	}
	_, err := fx.BeginSignIn(t.Context(), fx.bob, instantlyID, fx.anna.ID, nil)
	requireRefusal(t, err, fault.IntegrationNotFound)
	if n := fx.instantly.Calls("Account") + fx.instantly.Calls("StartSignIn"); n != callsBefore {
		t.Errorf("refused requests called the platform %d times, want 0", n-callsBefore)
	}
	fx.beginSession(t, instantlyID, fx.anna)
	_, err = fx.BeginSignIn(t.Context(), fx.ann, instantlyID, fx.anna.ID, nil)
	requireRefusal(t, err, fault.SessionActive)
	_, err = fx.BeginSignIn(t.Context(), fx.ann, plusvibeID, fx.anna.ID, nil)
	requireRefusal(t, err, fault.ConnectedElsewhere)
}

// createForeignMailbox adds a mailbox as if a discovery had found it.
func (fx *fixture) createForeignMailbox(t *testing.T) mailbox.Mailbox {
	t.Helper()
	d, err := fx.store.Domain(t.Context(), fx.ann.ID, tenantGUID, zone)
	must(t, err)
	rows, err := fx.store.ReserveMailboxes(t.Context(), fx.ann.ID, d.ID, []mailbox.Spec{{Address: "found@" + zone}}, 99, fx.clock)
	must(t, err)
	m := rows[0]
	m.Stage = mailbox.Ready
	must(t, fx.store.SaveMailbox(t.Context(), fx.ann.ID, m))
	return m
}

// TestOneOfManyConcurrentRequestsBeginsASession checks 50 concurrent requests for the same mailbox
// at two integrations. Exactly one gets a session.
func TestOneOfManyConcurrentRequestsBeginsASession(t *testing.T) {
	fx := newFixture(t)
	ids := []string{fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")}
	var mu sync.Mutex
	results := map[string]int{} // number of requests by error code, or "begun"
	var requests sync.WaitGroup
	for n := range 50 {
		requests.Go(func() {
			_, err := fx.BeginSignIn(t.Context(), fx.ann, ids[n%2], fx.anna.ID, nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				results["begun"]++
			} else {
				results[fault.ErrorOf(err).Code.Name]++
			}
		})
	}
	requests.Wait()
	if results["begun"] != 1 || results["begun"]+results[fault.SessionActive.Name]+results[fault.ConnectedElsewhere.Name] != 50 {
		t.Errorf("the results are %v, want one begun session and 49 refusals", results)
	}
	if n := fx.instantly.Calls("StartSignIn") + fx.plusvibe.Calls("StartSignIn"); n != 1 {
		t.Errorf("the platforms created %d links, want 1", n)
	}
}

// slowSessions is a store whose BeginSession sends to entered and then waits for proceed.
type slowSessions struct {
	ports.Connections
	entered, proceed chan struct{}
}

func (s slowSessions) BeginSession(ctx context.Context, owner access.AccountID, begun integration.Session, id string, stale time.Time) error {
	s.entered <- struct{}{}
	<-s.proceed
	return s.Connections.BeginSession(ctx, owner, begun, id, stale)
}

// TestOneRequestAtATimeBeginsASession checks that only one request at a time asks the store to
// begin a session of a mailbox. A second request for the same mailbox is refused before it calls
// BeginSession. A request for a different mailbox is not refused.
func TestOneRequestAtATimeBeginsASession(t *testing.T) {
	fx := newFixture(t)
	id, connections := fx.createIntegration(t, "instantly"), slowSessions{fx.store, make(chan struct{}), make(chan struct{})}
	service := fx.service(fx.store, connections, fx.platforms)
	begun := make(chan error, 2)
	for _, m := range []mailbox.Mailbox{fx.anna, fx.ben} {
		go func() {
			_, err := service.BeginSignIn(t.Context(), fx.ann, id, m.ID, nil)
			begun <- err
		}()
		<-connections.entered
		_, err := service.BeginSignIn(t.Context(), fx.ann, id, m.ID, nil)
		requireRefusal(t, err, fault.SessionActive)
	}
	close(connections.proceed)
	for range cap(begun) {
		must(t, <-begun)
	}
}

// TestAFailedStartRestoresTheConnection checks that the mailbox has its earlier connection status
// again after a failed start, or is failed if it had no connection. A new sign-in can then connect
// the mailbox.
func TestAFailedStartRestoresTheConnection(t *testing.T) {
	fx := newFixture(t)
	for name, tc := range map[string]struct {
		fault    fake.Fault
		wantCode fault.Code
	}{
		"the platform throttles":                {fake.Fault{Method: "StartSignIn", Kind: outcome.Throttled, Times: 1}, fault.ProviderUnavailable},
		"the platform refuses":                  {fake.Fault{Method: "StartSignIn", Kind: outcome.Refused, Code: fault.AccessDenied, Times: 1}, fault.CredentialRejected},
		"the answer is lost":                    {fake.Fault{Method: "StartSignIn", Kind: outcome.Unknown, AfterEffect: true, Times: 1}, fault.ProviderTimeout},
		"the answer is broken":                  {fake.Fault{Method: "StartSignIn", Kind: outcome.Broken, Times: 1}, fault.ProviderError},
		"the read of the account has no answer": {fake.Fault{Method: "Account", Kind: outcome.Unknown, Times: 1}, fault.ProviderTimeout},
	} {
		for _, previousStatus := range []integration.ConnectionStatus{"", integration.ConnectionConnected, integration.ConnectionDisconnected} {
			t.Run(name+" "+string(previousStatus), func(t *testing.T) {
				fx.switchAccount(t)
				instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
				wantStatus := integration.ConnectionFailed
				if previousStatus != "" {
					fx.connect(t, instantlyID, fx.anna)
					wantStatus = previousStatus
				}
				if previousStatus == integration.ConnectionDisconnected {
					_, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
					must(t, err)
				}
				defer fx.instantly.Fail(tc.fault)()
				_, err := fx.BeginSignIn(t.Context(), fx.ann, instantlyID, fx.anna.ID, nil)
				requireRefusal(t, err, tc.wantCode)
				fx.requireStatus(t, instantlyID, fx.anna, wantStatus)
				if i := fx.storedIntegration(t, instantlyID); i.HasError != (name == "the platform refuses") || (i.Status == integration.Failed) != i.HasError {
					t.Errorf("the integration is %+v, want it failed with an error only if the platform refuses", i)
				}
				if previousStatus == "" {
					fx.connect(t, plusvibeID, fx.anna)
				} else {
					fx.connect(t, instantlyID, fx.anna)
				}
			})
		}
	}
}

// TestUnsealableAnswerEndsTheSession checks that the mailbox can be signed in again at once if the
// answer of the request cannot be sealed.
func TestUnsealableAnswerEndsTheSession(t *testing.T) {
	fx := newFixture(t)
	id, errSealing := fx.createIntegration(t, "instantly"), errors.New("no key")
	_, err := fx.BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, func(integrations.StartedSession) (*ports.StoredAnswer, error) {
		return nil, errSealing
	})
	if !errors.Is(err, errSealing) {
		t.Fatalf("got the error %v, want %v", err, errSealing)
	}
	fx.connect(t, id, fx.anna)
}

// interruptedStarts is a platform that runs a function during each start of a session, and then
// fails.
type interruptedStarts struct {
	ports.SendingPlatform

	meanwhile func()
}

func (p interruptedStarts) StartSignIn(context.Context, string) (integration.SignIn, error) {
	p.meanwhile()
	return integration.SignIn{}, &outcome.Error{Kind: outcome.Throttled}
}

// TestFailedStartKeepsTheResultOfARefresh checks that a failed start of a session does not undo the
// result of a concurrent refresh.
func TestFailedStartKeepsTheResultOfARefresh(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.platforms.AddWorkspace("instantly", "key", "ws-1", interruptedStarts{fx.instantly, func() {
		fx.instantly.DropAccount(fx.anna.Address)
		fx.advance(time.Second)
		fx.refresh(t, id)
		fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
	}})
	fx.advance(time.Minute)
	_, err := fx.BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, nil)
	requireRefusal(t, err, fault.ProviderUnavailable)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
}

// TestALinkToAnUndeclaredHostIsNotReturned checks that BeginSignIn fails if the link leads to a
// host that the plugin has not declared.
func TestALinkToAnUndeclaredHostIsNotReturned(t *testing.T) {
	fx := newFixture(t)
	fx.platforms.AddProvider(integration.Provider{ID: "evil", Title: "Evil", AuthHosts: []string{"login.other.example"}}, nil)
	fx.platforms.AddWorkspace("evil", "key", "", fx.instantly)
	fx.platforms.AddWorkspace("evil", "key", "ws-1", fx.instantly)
	id := fx.createIntegration(t, "evil")
	started, err := fx.BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, nil)
	requireRefusal(t, err, fault.ProviderError)
	if started.AuthURL.Reveal() != "" || strings.Contains(err.Error(), "microsoftonline") {
		t.Errorf("got the link %q and the error %v, want no link, and an error without the host", started.AuthURL.Reveal(), err)
	}
	fx.requireStatus(t, id, fx.anna, integration.ConnectionFailed)
}

// TestSlowRequestLosesItsSession checks that a request returns no link if a later request has
// replaced its session.
func TestSlowRequestLosesItsSession(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	gate := fx.instantly.Hold("StartSignIn")
	slowResult := make(chan error, 1)
	go func() {
		_, err := fx.BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, nil)
		slowResult <- err
	}()
	<-gate.Arrived()
	fx.advance(11 * time.Second) // more than openTimeout
	replacingResult := make(chan error, 1)
	var started integrations.StartedSession
	go func() {
		var err error
		started, err = fx.BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, nil)
		replacingResult <- err
	}()
	select {
	case <-gate.Arrived():
	case err := <-replacingResult: // it failed before it asked for a link
		replacingResult <- err
	}
	gate.Release()
	slowErr, replacingErr := <-slowResult, <-replacingResult
	requireRefusal(t, slowErr, fault.SessionActive)
	must(t, replacingErr)
	fx.instantly.CompleteSignIn(started.AuthURL.Reveal(), fx.anna.Address, "Anna")
	fx.requireSession(t, started, integration.SessionConnected)
}

// TestBeginFindsALateSignIn checks that BeginSignIn checks an expired session at the platform
// before it ends the session. A person may have signed in after the last check.
func TestBeginFindsALateSignIn(t *testing.T) {
	for name, tc := range map[string]struct {
		provider   string
		elapsed    time.Duration             // since the expired session began
		signIn     bool                      // a person completes the expired session
		wantStatus integration.SessionStatus // of the expired session
	}{
		"a late sign-in at a platform with sessions":    {"instantly", 20 * time.Minute, true, integration.SessionConnected},
		"a late sign-in at a platform without sessions": {"plusvibe", 20 * time.Minute, true, integration.SessionConnected},
		"no sign-in": {"instantly", 20 * time.Minute, false, integration.SessionExpired},
		"no sign-in, within the grace period of the platform": {"instantly", 10*time.Minute + time.Second, false, integration.SessionExpired},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			id := fx.createIntegration(t, tc.provider)
			expired := fx.beginSession(t, id, fx.anna)
			if tc.signIn {
				fx.platformOf(t, id).CompleteSignIn(expired.AuthURL.Reveal(), fx.anna.Address, "Anna")
			}
			fx.advance(tc.elapsed)
			next := fx.beginSession(t, id, fx.anna)
			fx.requireSession(t, expired, tc.wantStatus)
			fx.requireSession(t, next, integration.SessionPending)
			wantConnection := integration.ConnectionPending
			if tc.signIn {
				wantConnection = integration.ConnectionConnected
			}
			fx.requireStatus(t, id, fx.anna, wantConnection)
		})
	}
}

// TestNoSessionBeginsWhileTheExpiredOneCannotBeChecked checks that no session begins while the
// platform cannot say how the expired session ended. After maxCheckDelay the expired session ends
// without a check.
func TestNoSessionBeginsWhileTheExpiredOneCannotBeChecked(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	expired := fx.beginSession(t, id, fx.anna)
	fx.advance(20 * time.Minute)
	endFault := fx.instantly.Fail(fake.Fault{Method: "SignIn", Kind: outcome.Down})
	_, err := fx.BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, nil)
	requireRefusal(t, err, fault.ProviderUnavailable)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionPending)
	fx.advance(time.Hour)
	next := fx.beginSession(t, id, fx.anna)
	endFault()
	fx.requireSession(t, expired, integration.SessionExpired)
	fx.requireSession(t, next, integration.SessionPending)
}
