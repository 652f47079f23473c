// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// TestSweepEndsExpiredSessions checks that the sweep ends expired sessions whose status no caller
// reads any more, and sessions of crashed requests.
func TestSweepEndsExpiredSessions(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	cyd := fx.createMailbox(t, fx.ann, tenantGUID, "cyd")
	started := fx.beginSession(t, instantlyID, fx.anna)
	fx.beginSession(t, plusvibeID, fx.ben)
	fx.beginSession(t, instantlyID, cyd)
	fx.instantly.CompleteSignIn(started.AuthURL.Reveal(), fx.anna.Address, "Anna")
	must(t, fx.store.BeginSession(t.Context(), fx.ann.ID, integration.Session{
		ID: unknownID, IntegrationID: instantlyID, MailboxID: fx.createMailbox(t, fx.ann, tenantGUID, "crashed").ID, Status: integration.SessionPending, CreatedAt: fx.clock, ExpiresAt: fx.clock.Add(time.Second),
	}, unknownID, fx.clock))
	fx.sweep(t, sessionSweep)
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionPending)
	fx.advance(11*time.Minute + 4*time.Second) // a session lasts 10 minutes, and sessionGrace is 1 minute
	endFault := fx.plusvibe.Fail(fake.Fault{Kind: outcome.Down})
	fx.sweep(t, sessionSweep)
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionConnected)
	fx.requireStatus(t, instantlyID, cyd, integration.ConnectionFailed)
	fx.requireStatus(t, plusvibeID, fx.ben, integration.ConnectionPending) // its platform is down
	endFault()
	fx.plusvibe.Put(integration.Account{Address: fx.ben.Address, State: integration.AccountConnected})
	fx.sweep(t, sessionSweep)
	fx.requireStatus(t, plusvibeID, fx.ben, integration.ConnectionConnected)
	_, counts, err := fx.Get(t.Context(), fx.ann.ID, instantlyID)
	if err != nil || counts.Pending != 0 || counts.Failed != 2 {
		t.Errorf("the counts are %+v, %v, want 2 failed and none pending", counts, err)
	}
}

// TestSweepMakesNoUnneededCalls checks that the sweep makes no platform call for sessions that are
// not expired, and for sessions without a link.
func TestSweepMakesNoUnneededCalls(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	started := fx.beginSession(t, id, fx.anna)
	must(t, fx.store.BeginSession(t.Context(), fx.ann.ID, integration.Session{
		ID: unknownID, IntegrationID: id, MailboxID: fx.ben.ID, Status: integration.SessionPending, CreatedAt: fx.clock, ExpiresAt: fx.clock.Add(time.Second),
	}, unknownID, fx.clock))
	callsBefore := fx.instantly.Calls("SignIn") + fx.instantly.Calls("Account")
	fx.advance(5 * time.Minute)
	fx.sweep(t, sessionSweep)
	fx.requireStatus(t, id, fx.ben, integration.ConnectionFailed)
	handle := fx.Handlers()["sending_session"]
	must(t, handle(t.Context(), ports.Wakeup{Account: fx.ann.ID, ID: id + "/" + fx.anna.ID + "/" + started.Session.ID}))
	if n := fx.instantly.Calls("SignIn") + fx.instantly.Calls("Account"); n != callsBefore {
		t.Errorf("the platform was called %d times, want 0", n-callsBefore)
	}
	fx.requireStatus(t, id, fx.anna, integration.ConnectionPending)
	if err := handle(t.Context(), ports.Wakeup{Account: fx.ann.ID, ID: "nonsense"}); err == nil {
		t.Error("the handler returned no error for a malformed id")
	}
}

// TestSweepEndsASessionThatCannotBeChecked checks that a session ends without a final check if the
// platform is down for longer than maxCheckDelay.
func TestSweepEndsASessionThatCannotBeChecked(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	started := fx.beginSession(t, id, fx.anna)
	fx.instantly.Fail(fake.Fault{Kind: outcome.Down})
	fx.advance(80 * time.Minute)
	fx.sweep(t, sessionSweep)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionFailed)
	session, err := fx.SessionStatus(t.Context(), fx.ann.ID, id, fx.anna.ID, started.Session.ID)
	if err != nil || session.Status != integration.SessionExpired {
		t.Errorf("the session is %+v, %v, want it expired", session, err)
	}
}

func TestWakeUpsOfADeletedIntegrationAreIgnored(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.beginSession(t, id, fx.anna)
	fx.advance(20 * time.Minute)
	for _, p := range fx.Periodic(time.Minute, 6*time.Hour) {
		must(t, p.Do(t.Context()))
	}
	_, err := fx.Delete(t.Context(), fx.ann.ID, id, nil)
	must(t, err)
	woken := fx.wakeups.Take()
	if len(woken) != 2 {
		t.Fatalf("the wake-ups are %+v, want one of the session and one of the refresh", woken)
	}
	for _, wakeup := range woken {
		must(t, fx.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
}
