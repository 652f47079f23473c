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
)

func TestSessionFromLinkToConnection(t *testing.T) {
	for _, provider := range []string{"instantly", "plusvibe"} {
		t.Run(provider, func(t *testing.T) {
			w := newFixture(t)
			id := w.integrate(t, provider)
			b := w.begin(t, id, w.anna)
			if b.Mailbox != w.anna.Address || b.Integration.ID != id || !strings.HasPrefix(b.AuthURL.Reveal(), "https://login.") {
				t.Errorf("%+v", b)
			}
			if left := b.Session.ExpiresAt.Sub(w.clock); left != 10*time.Minute {
				t.Errorf("open for %s", left)
			}
			w.requireStatus(t, id, w.anna, integration.ConnectionPending)
			w.status(t, b, integration.SessionPending)
			w.at(t, id).Complete(b.AuthURL.Reveal(), "Anna@Example.test", "Anna K")
			s := w.status(t, b, integration.SessionConnected)
			c := w.requireStatus(t, id, w.anna, integration.ConnectionConnected)
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

// TestConnectedBeforeTheAccountShows checks a platform that reports a successful sign-in before it
// lists the account.
func TestConnectedBeforeTheAccountShows(t *testing.T) {
	w := newFixture(t)
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
	if c := w.requireStatus(t, id, w.anna, integration.ConnectionConnected); c.AccountID != "7" || r.Connected != 1 || r.NewlyConnected != 0 {
		t.Errorf("%+v, %+v", c, r)
	}
}

func TestSessionEnds(t *testing.T) {
	w := newFixture(t)
	for _, provider := range []string{"instantly", "plusvibe"} {
		for _, tt := range []struct {
			name       string
			sessions   bool // only for a platform with sessions
			trouble    func(w *fixture, p *fake.SendingPlatform, b integrations.Begun)
			want       integration.SessionStatus
			reason     string
			connection integration.ConnectionStatus
		}{
			{"declined", true, func(_ *fixture, p *fake.SendingPlatform, b integrations.Begun) { p.Deny(b.AuthURL.Reveal()) },
				integration.SessionFailed, "access_denied", integration.ConnectionFailed},
			{"another account", true, func(_ *fixture, p *fake.SendingPlatform, b integrations.Begun) {
				p.Complete(b.AuthURL.Reveal(), "boss@"+zone, "Boss")
			}, integration.SessionFailed, integration.ReasonWrongAccount, integration.ConnectionFailed},
			{"expired there", true, func(_ *fixture, p *fake.SendingPlatform, b integrations.Begun) { p.Expire(b.AuthURL.Reveal()) },
				integration.SessionExpired, "", integration.ConnectionFailed},
			{"expired there, and finished by then", true, func(w *fixture, p *fake.SendingPlatform, b integrations.Begun) {
				p.Expire(b.AuthURL.Reveal())
				p.Put(integration.Account{Address: w.anna.Address, State: integration.AccountConnected})
			}, integration.SessionConnected, "", integration.ConnectionConnected},
			{"nobody came", false, func(w *fixture, _ *fake.SendingPlatform, _ integrations.Begun) { w.wait(12 * time.Minute) },
				integration.SessionExpired, "", integration.ConnectionFailed},
			{"came at the last moment", false, func(w *fixture, p *fake.SendingPlatform, b integrations.Begun) {
				w.wait(10*time.Minute - time.Second)
				p.Complete(b.AuthURL.Reveal(), w.anna.Address, "Anna")
				w.wait(5 * time.Minute)
			}, integration.SessionConnected, "", integration.ConnectionConnected},
			{"came, but cannot sign in", false, func(w *fixture, p *fake.SendingPlatform, b integrations.Begun) {
				p.Put(integration.Account{Address: w.anna.Address, State: integration.AccountFailed, Reason: "connection_error"})
				w.wait(12 * time.Minute)
			}, integration.SessionFailed, "connection_error", integration.ConnectionFailed},
			{"still set up at the end", false, func(w *fixture, p *fake.SendingPlatform, b integrations.Begun) {
				p.Put(integration.Account{Address: w.anna.Address, State: integration.AccountPending})
				w.wait(12 * time.Minute)
			}, integration.SessionExpired, "", integration.ConnectionPending},
		} {
			if tt.sessions && provider == "plusvibe" {
				continue
			}
			t.Run(provider+" "+tt.name, func(t *testing.T) {
				w.switchAccount(t)
				id := w.integrate(t, provider)
				b := w.begin(t, id, w.anna)
				tt.trouble(w, w.at(t, id), b)
				s := w.status(t, b, tt.want)
				c := w.requireStatus(t, id, w.anna, tt.connection)
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

// TestSessionOfAConnectedMailbox checks that a mailbox stays connected during a repeated sign-in,
// and that a change of the account proves this sign-in.
func TestSessionOfAConnectedMailbox(t *testing.T) {
	for _, provider := range []string{"instantly", "plusvibe"} {
		t.Run(provider, func(t *testing.T) {
			w := newFixture(t)
			id := w.integrate(t, provider)
			w.connect(t, id, w.anna)
			b := w.begin(t, id, w.anna)
			w.status(t, b, integration.SessionPending)
			before := w.requireStatus(t, id, w.anna, integration.ConnectionConnected)
			w.wait(12 * time.Minute)
			w.status(t, b, integration.SessionExpired)
			if c := w.requireStatus(t, id, w.anna, integration.ConnectionConnected); c != before {
				t.Errorf("%+v, was %+v", c, before)
			}
			w.connect(t, id, w.anna)
			if c := w.requireStatus(t, id, w.anna, integration.ConnectionConnected); !c.ConnectedAt.After(before.ConnectedAt) {
				t.Errorf("%+v, was %+v", c, before)
			}
		})
	}
}

func TestStatusFindsItsOwnSessionsOnly(t *testing.T) {
	w := newFixture(t)
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
		t.Errorf("the platform was called %d times", n)
	}
}

// TestStatusAsksEveryThreeSeconds checks that many polling callers cause one call of the platform.
func TestStatusAsksEveryThreeSeconds(t *testing.T) {
	w := newFixture(t)
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

func TestSignInElsewhereMeanwhile(t *testing.T) {
	w := newFixture(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	b := w.begin(t, id, w.anna)
	_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
	must(t, err)
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected)
	w.connect(t, second, w.anna)
	w.instantly.Complete(b.AuthURL.Reveal(), w.anna.Address, "Anna")
	if s := w.status(t, b, integration.SessionFailed); s.Reason != integration.ReasonDisconnected {
		t.Errorf("%+v", s)
	}
	w.requireStatus(t, second, w.anna, integration.ConnectionConnected)
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected)
}

// TestSignInAfterAnotherHasTheMailbox checks that a sign-in connects nothing if another integration
// has connected the mailbox meanwhile.
func TestSignInAfterAnotherHasTheMailbox(t *testing.T) {
	w := newFixture(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	b := w.begin(t, id, w.anna)
	c := w.requireStatus(t, id, w.anna, integration.ConnectionPending)
	saved, err := w.store.SaveConnection(t.Context(), w.acc.ID, c.Failed("lost", w.clock), c.UpdatedAt, nil)
	if err != nil || !saved {
		t.Fatal(saved, err)
	}
	w.connect(t, second, w.anna)
	w.instantly.Complete(b.AuthURL.Reveal(), w.anna.Address, "Anna")
	if s := w.status(t, b, integration.SessionFailed); s.Reason != integration.ReasonElsewhere || !s.ConnectedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	w.requireStatus(t, id, w.anna, integration.ConnectionFailed)
	w.requireStatus(t, second, w.anna, integration.ConnectionConnected)
}
