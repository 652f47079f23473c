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

// TestSweepEndsWhatNobodyAsksAbout checks that the sweep ends expired sessions whose caller no
// longer reads their status, and sessions of crashed requests.
func TestSweepEndsWhatNobodyAsksAbout(t *testing.T) {
	w := newFixture(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	late := w.mailbox(t, w.acc, theTenant, "late")
	b := w.begin(t, id, w.anna)
	w.begin(t, second, w.ben)
	w.begin(t, id, late)
	w.instantly.Complete(b.AuthURL.Reveal(), w.anna.Address, "Anna")
	must(t, w.store.BeginSession(t.Context(), w.acc.ID, integration.Session{
		ID: stranger, IntegrationID: id, MailboxID: w.mailbox(t, w.acc, theTenant, "dead").ID, Status: integration.SessionPending, CreatedAt: w.clock, ExpiresAt: w.clock.Add(time.Second),
	}, stranger, w.clock))
	w.sweep(t, sessions)
	w.requireStatus(t, id, w.anna, integration.ConnectionPending)
	w.wait(11*time.Minute + 4*time.Second)
	lift := w.plusvibe.Fail(fake.Fault{Kind: outcome.Down})
	w.sweep(t, sessions)
	w.requireStatus(t, id, w.anna, integration.ConnectionConnected)
	w.requireStatus(t, id, late, integration.ConnectionFailed)
	w.requireStatus(t, second, w.ben, integration.ConnectionPending) // its platform cannot be asked
	lift()
	w.plusvibe.Put(integration.Account{Address: w.ben.Address, State: integration.AccountConnected})
	w.sweep(t, sessions)
	w.requireStatus(t, second, w.ben, integration.ConnectionConnected)
	_, counts, err := w.Get(t.Context(), w.acc.ID, id)
	if err != nil || counts.Pending != 0 || counts.Failed != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// TestSweepAsksOnlyWhatItMust checks that the sweep makes no platform call for sessions that are
// not expired, and for sessions without a link.
func TestSweepAsksOnlyWhatItMust(t *testing.T) {
	w := newFixture(t)
	id := w.integrate(t, "instantly")
	b := w.begin(t, id, w.anna)
	must(t, w.store.BeginSession(t.Context(), w.acc.ID, integration.Session{
		ID: stranger, IntegrationID: id, MailboxID: w.ben.ID, Status: integration.SessionPending, CreatedAt: w.clock, ExpiresAt: w.clock.Add(time.Second),
	}, stranger, w.clock))
	asked := w.instantly.Calls("SignIn") + w.instantly.Calls("Account")
	w.wait(5 * time.Minute)
	w.sweep(t, sessions)
	w.requireStatus(t, id, w.ben, integration.ConnectionFailed)
	end := w.Handlers()["sending_session"]
	must(t, end(t.Context(), ports.Wakeup{Account: w.acc.ID, ID: id + "/" + w.anna.ID + "/" + b.Session.ID}))
	if n := w.instantly.Calls("SignIn") + w.instantly.Calls("Account"); n != asked {
		t.Errorf("asked %d times", n-asked)
	}
	w.requireStatus(t, id, w.anna, integration.ConnectionPending)
	if err := end(t.Context(), ports.Wakeup{Account: w.acc.ID, ID: "nonsense"}); err == nil {
		t.Error("nonsense is a session")
	}
}

// TestSweepEndsSessionsWithoutACheck checks that a session ends without a final check if the
// platform is down for longer than maxCheckDelay.
func TestSweepEndsSessionsWithoutACheck(t *testing.T) {
	w := newFixture(t)
	id := w.integrate(t, "instantly")
	b := w.begin(t, id, w.anna)
	w.instantly.Fail(fake.Fault{Kind: outcome.Down})
	w.wait(80 * time.Minute)
	w.sweep(t, sessions)
	w.requireStatus(t, id, w.anna, integration.ConnectionFailed)
	s, err := w.Status(t.Context(), w.acc.ID, id, w.anna.ID, b.Session.ID)
	if err != nil || s.Status != integration.SessionExpired {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestSweepOfWhatIsGone checks that the sweep ignores sessions that were deleted meanwhile.
func TestSweepOfWhatIsGone(t *testing.T) {
	w := newFixture(t)
	id := w.integrate(t, "instantly")
	w.begin(t, id, w.anna)
	w.wait(20 * time.Minute)
	for _, p := range w.Periodic(time.Minute, 6*time.Hour) {
		must(t, p.Do(t.Context()))
	}
	_, err := w.Delete(t.Context(), w.acc.ID, id, nil)
	must(t, err)
	woken := w.wakeups.Take()
	if len(woken) != 2 {
		t.Fatalf("woken %+v", woken)
	}
	for _, wakeup := range woken {
		must(t, w.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
}
