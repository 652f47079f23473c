// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

func TestSessionFromLinkToConnection(t *testing.T) {
	for _, provider := range []string{"instantly", "plusvibe"} {
		t.Run(provider, func(t *testing.T) {
			w := newWorld(t)
			id := w.integrate(t, provider)
			b := w.begin(t, id, w.anna)
			if b.Mailbox != w.anna.Address || b.Integration.ID != id || !strings.HasPrefix(b.AuthURL.Reveal(), "https://login.") {
				t.Errorf("%+v", b)
			}
			if left := b.Session.ExpiresAt.Sub(w.clock); left != 10*time.Minute {
				t.Errorf("open for %s", left)
			}
			w.is(t, id, w.anna, integration.ConnectionPending)
			w.status(t, b, integration.SessionPending)
			w.at(t, id).Complete(b.AuthURL.Reveal(), "Anna@Example.test", "Anna K")
			s := w.status(t, b, integration.SessionConnected)
			c := w.is(t, id, w.anna, integration.ConnectionConnected)
			account := w.at(t, id).Held()[0].ID
			if s.AccountID != account || s.AccountName != "Anna K" || s.ConnectedAt != w.clock ||
				c.AccountID != account || c.AccountAddress != "Anna@Example.test" || c.ConnectedAt != w.clock {
				t.Errorf("%+v\n%+v", s, c)
			}
			calls := w.at(t, id).Calls("Account") + w.at(t, id).Calls("SignIn")
			w.status(t, b, integration.SessionConnected)
			if n := w.at(t, id).Calls("Account") + w.at(t, id).Calls("SignIn"); n != calls {
				t.Error("a session that has ended is asked for")
			}
		})
	}
}

// The platform names who signed in before it shows the account.
func TestConnectedBeforeTheAccountShows(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	b := w.begin(t, id, w.anna)
	w.instantly.Complete(b.AuthURL.Reveal(), w.anna.PrincipalName, "Anna")
	w.instantly.Drop(w.anna.PrincipalName)
	s := w.status(t, b, integration.SessionConnected)
	if s.AccountID != w.anna.PrincipalName || s.AccountName != "Anna" {
		t.Errorf("%+v", s)
	}
	w.instantly.Put(integration.Account{ID: "7", Address: w.anna.PrincipalName, Name: "Anna", State: integration.AccountConnected})
	r := w.refresh(t, id)
	if c := w.is(t, id, w.anna, integration.ConnectionConnected); c.AccountID != "7" || r.Connected != 1 || r.NewlyConnected != 0 {
		t.Errorf("%+v, %+v", c, r)
	}
}

// The checks come in their order, and before anybody is asked.
func TestBeginRefuses(t *testing.T) {
	w := newWorld(t)
	w.platform("emailbison", func([]string) integration.Capabilities { return integration.Capabilities{MailboxRefresh: true} })
	id, second, bison := w.integrate(t, "instantly"), w.integrate(t, "plusvibe"), w.integrate(t, "emailbison")
	theirs := w.mailbox(t, w.bob, "33333333-2222-4333-8444-555555555555", "bob")
	found := w.discovered(t)
	w.connect(t, second, w.ben)
	asked := w.instantly.Calls("Account") + w.instantly.Calls("StartSignIn")
	over := w.acc
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
		{"another account's mailbox", id, theirs.ID, 0, fault.MailboxNotFound},
		{"one that discovery found", id, found.ID, 0, fault.MailboxNotFound},
		{"over the plan", id, w.ben.ID, 0, fault.TenantLimitReached},
		{"connected elsewhere", id, w.ben.ID, 1, fault.ConnectedElsewhere},
		{"what it can do comes before where the mailbox is", bison, w.ben.ID, 1, fault.CapabilityMissing},
		{"cannot do it", bison, w.anna.ID, 1, fault.CapabilityMissing},
	} {
		over.Plan.TenantSlots = tt.slots
		_, err := w.Begin(t.Context(), over, tt.id, tt.mailbox)
		if fault.Of(err).Code != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want.Name)
		}
	}
	_, err := w.Begin(t.Context(), w.bob, id, w.anna.ID)
	refused(t, err, fault.IntegrationNotFound)
	if n := w.instantly.Calls("Account") + w.instantly.Calls("StartSignIn"); n != asked {
		t.Errorf("the platform was asked")
	}
	w.begin(t, id, w.anna)
	_, err = w.Begin(t.Context(), w.acc, id, w.anna.ID)
	refused(t, err, fault.SessionActive)
	_, err = w.Begin(t.Context(), w.acc, second, w.anna.ID)
	refused(t, err, fault.ConnectedElsewhere)
}

// discovered is a mailbox that is there and that the service did not make.
func (w *world) discovered(t *testing.T) mailbox.Mailbox {
	t.Helper()
	m := w.mailbox(t, w.acc, theTenant, "found")
	m.Provisioned = false
	must(t, w.store.SaveMailbox(t.Context(), w.acc.ID, m))
	return m
}

// Of many at once, on two integrations, one has its session.
func TestOneOfFiftyBegins(t *testing.T) {
	w := newWorld(t)
	ids := []string{w.integrate(t, "instantly"), w.integrate(t, "plusvibe")}
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			_, err := w.Begin(t.Context(), w.acc, ids[n%2], w.anna.ID)
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
	if n := w.instantly.Calls("StartSignIn") + w.plusvibe.Calls("StartSignIn"); n != 1 {
		t.Errorf("the platforms were asked for %d links", n)
	}
}

func TestSessionEnds(t *testing.T) {
	w := newWorld(t)
	for _, provider := range []string{"instantly", "plusvibe"} {
		for _, tt := range []struct {
			name       string
			sessions   bool // only where the platform has some
			trouble    func(w *world, p *fake.SendingPlatform, b integrations.Begun)
			want       integration.SessionStatus
			reason     string
			connection integration.ConnectionStatus
		}{
			{"declined", true, func(_ *world, p *fake.SendingPlatform, b integrations.Begun) { p.Deny(b.AuthURL.Reveal()) },
				integration.SessionFailed, "access_denied", integration.ConnectionFailed},
			{"another account", true, func(_ *world, p *fake.SendingPlatform, b integrations.Begun) {
				p.Complete(b.AuthURL.Reveal(), "boss@"+zone, "Boss")
			}, integration.SessionFailed, integration.ReasonWrongAccount, integration.ConnectionFailed},
			{"expired there", true, func(_ *world, p *fake.SendingPlatform, b integrations.Begun) { p.Expire(b.AuthURL.Reveal()) },
				integration.SessionExpired, "", integration.ConnectionFailed},
			{"expired there, and finished by then", true, func(w *world, p *fake.SendingPlatform, b integrations.Begun) {
				p.Expire(b.AuthURL.Reveal())
				p.Put(integration.Account{Address: w.anna.Address, State: integration.AccountConnected})
			}, integration.SessionConnected, "", integration.ConnectionConnected},
			{"nobody came", false, func(w *world, _ *fake.SendingPlatform, _ integrations.Begun) { w.wait(12 * time.Minute) },
				integration.SessionExpired, "", integration.ConnectionFailed},
			{"came at the last moment", false, func(w *world, p *fake.SendingPlatform, b integrations.Begun) {
				w.wait(10*time.Minute - time.Second)
				p.Complete(b.AuthURL.Reveal(), w.anna.Address, "Anna")
				w.wait(5 * time.Minute)
			}, integration.SessionConnected, "", integration.ConnectionConnected},
			{"came, but cannot sign in", false, func(w *world, p *fake.SendingPlatform, b integrations.Begun) {
				p.Put(integration.Account{Address: w.anna.Address, State: integration.AccountFailed, Reason: "connection_error"})
				w.wait(12 * time.Minute)
			}, integration.SessionFailed, "connection_error", integration.ConnectionFailed},
			{"still set up at the end", false, func(w *world, p *fake.SendingPlatform, b integrations.Begun) {
				p.Put(integration.Account{Address: w.anna.Address, State: integration.AccountPending})
				w.wait(12 * time.Minute)
			}, integration.SessionExpired, "", integration.ConnectionPending},
		} {
			if tt.sessions && provider == "plusvibe" {
				continue
			}
			t.Run(provider+" "+tt.name, func(t *testing.T) {
				w.another(t)
				id := w.integrate(t, provider)
				b := w.begin(t, id, w.anna)
				tt.trouble(w, w.at(t, id), b)
				s := w.status(t, b, tt.want)
				c := w.is(t, id, w.anna, tt.connection)
				if s.Reason != tt.reason || tt.want == integration.SessionConnected != !s.ConnectedAt.IsZero() {
					t.Errorf("%+v, %+v", s, c)
				}
				if tt.name == "another account" && (s.AccountAddress != "boss@"+zone || c.AccountID != "") {
					t.Errorf("%+v, %+v", s, c)
				}
				if tt.want != integration.SessionConnected && tt.connection == integration.ConnectionFailed {
					w.connect(t, id, w.anna) // a new session may come after it
				}
			})
		}
	}
}

// Signing in again what is connected leaves it connected, and proves itself by
// a change.
func TestSessionOfAConnectedMailbox(t *testing.T) {
	for _, provider := range []string{"instantly", "plusvibe"} {
		t.Run(provider, func(t *testing.T) {
			w := newWorld(t)
			id := w.integrate(t, provider)
			w.connect(t, id, w.anna)
			b := w.begin(t, id, w.anna)
			w.status(t, b, integration.SessionPending)
			before := w.is(t, id, w.anna, integration.ConnectionConnected)
			w.wait(12 * time.Minute)
			w.status(t, b, integration.SessionExpired)
			if c := w.is(t, id, w.anna, integration.ConnectionConnected); c != before {
				t.Errorf("%+v, was %+v", c, before)
			}
			w.connect(t, id, w.anna)
			if c := w.is(t, id, w.anna, integration.ConnectionConnected); !c.ConnectedAt.After(before.ConnectedAt) {
				t.Errorf("%+v, was %+v", c, before)
			}
		})
	}
}

func TestStatusFindsItsOwnSessionsOnly(t *testing.T) {
	w := newWorld(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	b := w.begin(t, id, w.anna)
	for _, tt := range []struct {
		owner                string
		id, mailbox, session string
		want                 fault.Code
	}{
		{string(w.bob.ID), id, w.anna.ID, b.Session.ID, fault.IntegrationNotFound},
		{string(w.acc.ID), stranger, w.anna.ID, b.Session.ID, fault.IntegrationNotFound},
		{string(w.acc.ID), id, stranger, b.Session.ID, fault.MailboxNotFound},
		{string(w.acc.ID), second, w.anna.ID, b.Session.ID, fault.SessionNotFound},
		{string(w.acc.ID), id, w.ben.ID, b.Session.ID, fault.SessionNotFound},
		{string(w.acc.ID), id, w.anna.ID, stranger, fault.SessionNotFound},
	} {
		acc := w.acc
		if tt.owner == string(w.bob.ID) {
			acc = w.bob
		}
		if _, err := w.Status(t.Context(), acc.ID, tt.id, tt.mailbox, tt.session); fault.Of(err).Code != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if n := w.instantly.Calls("SignIn"); n != 0 {
		t.Errorf("the platform was asked %d times", n)
	}
}

// Many who poll are one to the platform.
func TestStatusAsksEveryThreeSeconds(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	b := w.begin(t, id, w.anna)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if s, err := w.Status(t.Context(), w.acc.ID, id, w.anna.ID, b.Session.ID); err != nil || s.Status != integration.SessionPending {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	all.Wait()
	for range 10 {
		w.wait(900 * time.Millisecond)
		_, err := w.Status(t.Context(), w.acc.ID, id, w.anna.ID, b.Session.ID)
		must(t, err)
	}
	if n := w.instantly.Calls("SignIn"); n != 3 {
		t.Errorf("asked %d times in 9 seconds", n)
	}
}

// A start that came to nothing leaves the mailbox as it was, and free.
func TestStartThatCameToNothing(t *testing.T) {
	w := newWorld(t)
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
				w.another(t)
				id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
				want := integration.ConnectionFailed
				if was != "" {
					w.connect(t, id, w.anna)
					want = was
				}
				if was == integration.ConnectionDisconnected {
					_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID)
					must(t, err)
				}
				defer w.instantly.Fail(tt.fault)()
				_, err := w.Begin(t.Context(), w.acc, id, w.anna.ID)
				refused(t, err, tt.want)
				w.is(t, id, w.anna, want)
				if i := w.integration(t, id); i.HasError != (name == "refused") || (i.Status == integration.Failed) != i.HasError {
					t.Errorf("the integration is %+v", i)
				}
				if was == "" {
					w.connect(t, second, w.anna)
				} else {
					w.connect(t, id, w.anna)
				}
			})
		}
	}
}

// A link that leads elsewhere is shown to nobody.
func TestLinkLeadsToDeclaredHosts(t *testing.T) {
	w := newWorld(t)
	w.platforms.Know(integration.Provider{ID: "evil", Title: "Evil", AuthHosts: []string{"login.other.example"}}, nil)
	w.platforms.Hold("evil", "key", "", w.instantly)
	w.platforms.Hold("evil", "key", "ws-1", w.instantly)
	id := w.integrate(t, "evil")
	b, err := w.Begin(t.Context(), w.acc, id, w.anna.ID)
	refused(t, err, fault.ProviderError)
	if b.AuthURL.Reveal() != "" || strings.Contains(err.Error(), "microsoftonline") {
		t.Errorf("%v, %v", b.AuthURL.Reveal(), err)
	}
	w.is(t, id, w.anna, integration.ConnectionFailed)
}

// A request that was slower than another finds its session gone, and gives no
// link out.
func TestSlowRequestLosesItsSession(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	gate := w.instantly.Hold("StartSignIn")
	slow := make(chan error, 1)
	go func() {
		_, err := w.Begin(t.Context(), w.acc, id, w.anna.ID)
		slow <- err
	}()
	<-gate.Arrived()
	w.wait(11 * time.Second)
	quick := make(chan error, 1)
	var b integrations.Begun
	go func() {
		var err error
		b, err = w.Begin(t.Context(), w.acc, id, w.anna.ID)
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
	w.instantly.Complete(b.AuthURL.Reveal(), w.anna.Address, "Anna")
	w.status(t, b, integration.SessionConnected)
}

// A popup that was closed, and a request that died, come to their end by
// themselves.
func TestSweepEndsWhatNobodyAsksAbout(t *testing.T) {
	w := newWorld(t)
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
	w.is(t, id, w.anna, integration.ConnectionPending)
	w.wait(11*time.Minute + 4*time.Second)
	lift := w.plusvibe.Fail(fake.Fault{Kind: outcome.Down})
	w.sweep(t, sessions)
	w.is(t, id, w.anna, integration.ConnectionConnected)
	w.is(t, id, late, integration.ConnectionFailed)
	w.is(t, second, w.ben, integration.ConnectionPending) // its platform cannot be asked
	lift()
	w.plusvibe.Put(integration.Account{Address: w.ben.Address, State: integration.AccountConnected})
	w.sweep(t, sessions)
	w.is(t, second, w.ben, integration.ConnectionConnected)
	_, counts, err := w.Get(t.Context(), w.acc.ID, id)
	if err != nil || counts.Pending != 0 || counts.Failed != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// A session that is not over, and one that never opened, are nothing to ask the
// platform about.
func TestSweepAsksOnlyWhatItMust(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	b := w.begin(t, id, w.anna)
	must(t, w.store.BeginSession(t.Context(), w.acc.ID, integration.Session{
		ID: stranger, IntegrationID: id, MailboxID: w.ben.ID, Status: integration.SessionPending, CreatedAt: w.clock, ExpiresAt: w.clock.Add(time.Second),
	}, stranger, w.clock))
	asked := w.instantly.Calls("SignIn") + w.instantly.Calls("Account")
	w.wait(5 * time.Minute)
	w.sweep(t, sessions)
	w.is(t, id, w.ben, integration.ConnectionFailed)
	end := w.Handlers()["sending_session"]
	must(t, end(t.Context(), ports.Wakeup{Account: w.acc.ID, ID: id + "/" + w.anna.ID + "/" + b.Session.ID}))
	if n := w.instantly.Calls("SignIn") + w.instantly.Calls("Account"); n != asked {
		t.Errorf("asked %d times", n-asked)
	}
	w.is(t, id, w.anna, integration.ConnectionPending)
	if err := end(t.Context(), ports.Wakeup{Account: w.acc.ID, ID: "nonsense"}); err == nil {
		t.Error("nonsense is a session")
	}
}

// A platform that is away for long ends the wait for a last look.
func TestSweepGivesALastLookUp(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	b := w.begin(t, id, w.anna)
	w.instantly.Fail(fake.Fault{Kind: outcome.Down})
	w.wait(80 * time.Minute)
	w.sweep(t, sessions)
	w.is(t, id, w.anna, integration.ConnectionFailed)
	s, err := w.Status(t.Context(), w.acc.ID, id, w.anna.ID, b.Session.ID)
	if err != nil || s.Status != integration.SessionExpired {
		t.Errorf("%+v, %v", s, err)
	}
}

// What was deleted meanwhile is no trouble to the sweep.
func TestSweepOfWhatIsGone(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	w.begin(t, id, w.anna)
	w.wait(20 * time.Minute)
	for _, p := range w.Periodic(time.Minute, 6*time.Hour) {
		must(t, p.Do(t.Context()))
	}
	_, err := w.Delete(t.Context(), w.acc.ID, id)
	must(t, err)
	woken := w.wakeups.take()
	if len(woken) != 2 {
		t.Fatalf("woken %+v", woken)
	}
	for _, wakeup := range woken {
		must(t, w.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
}

func TestSignInElsewhereMeanwhile(t *testing.T) {
	w := newWorld(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	b := w.begin(t, id, w.anna)
	_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID)
	must(t, err)
	w.is(t, id, w.anna, integration.ConnectionDisconnected)
	w.connect(t, second, w.anna)
	w.instantly.Complete(b.AuthURL.Reveal(), w.anna.Address, "Anna")
	if s := w.status(t, b, integration.SessionFailed); s.Reason != integration.ReasonDisconnected {
		t.Errorf("%+v", s)
	}
	w.is(t, second, w.anna, integration.ConnectionConnected)
	w.is(t, id, w.anna, integration.ConnectionDisconnected)
}
