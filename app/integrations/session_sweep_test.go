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

// TestSweepEndsExpiredSessions checks that the sweep ends expired sessions whose caller no
// longer reads their status, and sessions of crashed requests.
func TestSweepEndsExpiredSessions(t *testing.T) {
	fx := newFixture(t)
	id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
	late := fx.mailbox(t, fx.acc, theTenant, "late")
	b := fx.begin(t, id, fx.anna)
	fx.begin(t, second, fx.ben)
	fx.begin(t, id, late)
	fx.instantly.CompleteSignIn(b.AuthURL.Reveal(), fx.anna.Address, "Anna")
	must(t, fx.store.BeginSession(t.Context(), fx.acc.ID, integration.Session{
		ID: stranger, IntegrationID: id, MailboxID: fx.mailbox(t, fx.acc, theTenant, "dead").ID, Status: integration.SessionPending, CreatedAt: fx.clock, ExpiresAt: fx.clock.Add(time.Second),
	}, stranger, fx.clock))
	fx.sweep(t, sessions)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionPending)
	fx.wait(11*time.Minute + 4*time.Second)
	lift := fx.plusvibe.Fail(fake.Fault{Kind: outcome.Down})
	fx.sweep(t, sessions)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
	fx.requireStatus(t, id, late, integration.ConnectionFailed)
	fx.requireStatus(t, second, fx.ben, integration.ConnectionPending) // its platform cannot be asked
	lift()
	fx.plusvibe.Put(integration.Account{Address: fx.ben.Address, State: integration.AccountConnected})
	fx.sweep(t, sessions)
	fx.requireStatus(t, second, fx.ben, integration.ConnectionConnected)
	_, counts, err := fx.Get(t.Context(), fx.acc.ID, id)
	if err != nil || counts.Pending != 0 || counts.Failed != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// TestSweepMakesNoUnneededCalls checks that the sweep makes no platform call for sessions that are
// not expired, and for sessions without a link.
func TestSweepMakesNoUnneededCalls(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	b := fx.begin(t, id, fx.anna)
	must(t, fx.store.BeginSession(t.Context(), fx.acc.ID, integration.Session{
		ID: stranger, IntegrationID: id, MailboxID: fx.ben.ID, Status: integration.SessionPending, CreatedAt: fx.clock, ExpiresAt: fx.clock.Add(time.Second),
	}, stranger, fx.clock))
	asked := fx.instantly.Calls("SignIn") + fx.instantly.Calls("Account")
	fx.wait(5 * time.Minute)
	fx.sweep(t, sessions)
	fx.requireStatus(t, id, fx.ben, integration.ConnectionFailed)
	end := fx.Handlers()["sending_session"]
	must(t, end(t.Context(), ports.Wakeup{Account: fx.acc.ID, ID: id + "/" + fx.anna.ID + "/" + b.Session.ID}))
	if n := fx.instantly.Calls("SignIn") + fx.instantly.Calls("Account"); n != asked {
		t.Errorf("asked %d times", n-asked)
	}
	fx.requireStatus(t, id, fx.anna, integration.ConnectionPending)
	if err := end(t.Context(), ports.Wakeup{Account: fx.acc.ID, ID: "nonsense"}); err == nil {
		t.Error("nonsense is a session")
	}
}

// TestSweepEndsSessionsWithoutACheck checks that a session ends without a final check if the
// platform is down for longer than maxCheckDelay.
func TestSweepEndsSessionsWithoutACheck(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	b := fx.begin(t, id, fx.anna)
	fx.instantly.Fail(fake.Fault{Kind: outcome.Down})
	fx.wait(80 * time.Minute)
	fx.sweep(t, sessions)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionFailed)
	s, err := fx.Status(t.Context(), fx.acc.ID, id, fx.anna.ID, b.Session.ID)
	if err != nil || s.Status != integration.SessionExpired {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestSweepIgnoresDeletedSessions checks that the sweep ignores sessions that were deleted
// meanwhile.
func TestSweepIgnoresDeletedSessions(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	fx.begin(t, id, fx.anna)
	fx.wait(20 * time.Minute)
	for _, p := range fx.Periodic(time.Minute, 6*time.Hour) {
		must(t, p.Do(t.Context()))
	}
	_, err := fx.Delete(t.Context(), fx.acc.ID, id, nil)
	must(t, err)
	woken := fx.wakeups.Take()
	if len(woken) != 2 {
		t.Fatalf("woken %+v", woken)
	}
	for _, wakeup := range woken {
		must(t, fx.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
}
