// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
)

func TestASignInConnectsTheMailbox(t *testing.T) {
	for _, provider := range []string{"instantly", "plusvibe"} {
		t.Run(provider, func(t *testing.T) {
			fx := newFixture(t)
			id := fx.createIntegration(t, provider)
			started := fx.beginSession(t, id, fx.anna)
			if started.Mailbox != fx.anna.Address || started.Integration.ID != id || !strings.HasPrefix(started.AuthURL.Reveal(), "https://login.") {
				t.Errorf("the session began as %+v, want a session of anna with a link to the sign-in page", started)
			}
			if remaining := started.Session.ExpiresAt.Sub(fx.clock); remaining != 10*time.Minute {
				t.Errorf("the session expires in %s, want 10 minutes", remaining)
			}
			fx.requireStatus(t, id, fx.anna, integration.ConnectionPending)
			fx.requireSession(t, started, integration.SessionPending)
			fx.platformOf(t, id).CompleteSignIn(started.AuthURL.Reveal(), "Anna@Example.test", "Anna K")
			session := fx.requireSession(t, started, integration.SessionConnected)
			c := fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
			accountID := fx.platformOf(t, id).AllAccounts()[0].ID
			if session.PlatformAccountID != accountID || session.PlatformAccountName != "Anna K" || session.ConnectedAt != fx.clock ||
				c.PlatformAccountID != accountID || c.PlatformAccountAddress != "Anna@Example.test" || c.ConnectedAt != fx.clock {
				t.Errorf("the session is %+v and the connection is %+v, want the account %s, connected at %s", session, c, accountID, fx.clock)
			}
			callsBefore := fx.platformOf(t, id).Calls("Account") + fx.platformOf(t, id).Calls("SignIn")
			fx.requireSession(t, started, integration.SessionConnected)
			if n := fx.platformOf(t, id).Calls("Account") + fx.platformOf(t, id).Calls("SignIn"); n != callsBefore {
				t.Errorf("the platform was called %d times for a session that has ended, want 0", n-callsBefore)
			}
		})
	}
}

// TestSignInConnectsBeforeTheAccountShows checks a platform that reports a successful sign-in
// before it lists the account. The next refresh stores the id of the account.
func TestSignInConnectsBeforeTheAccountShows(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	started := fx.beginSession(t, id, fx.anna)
	fx.instantly.CompleteSignIn(started.AuthURL.Reveal(), fx.anna.PrincipalName, "Anna")
	fx.instantly.DropAccount(fx.anna.PrincipalName)
	session := fx.requireSession(t, started, integration.SessionConnected)
	if session.PlatformAccountID != fx.anna.PrincipalName || session.PlatformAccountName != "Anna" {
		t.Errorf("the session is %+v, want the principal name of anna as the account id", session)
	}
	fx.instantly.Put(integration.Account{ID: "7", Address: fx.anna.PrincipalName, Name: "Anna", State: integration.AccountConnected})
	result := fx.refresh(t, id)
	if c := fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected); c.PlatformAccountID != "7" || result.Connected != 1 || result.NewlyConnected != 0 {
		t.Errorf("the connection is %+v, want the account 7; the refresh returned %+v, want 1 connected and none newly connected", c, result)
	}
}

func TestASessionEndsWithTheStateOfItsSignIn(t *testing.T) {
	fx := newFixture(t)
	for _, provider := range []string{"instantly", "plusvibe"} {
		for _, tc := range []struct {
			name           string
			needsSessions  bool // only for a platform with sessions
			signIn         func(fx *fixture, p *fake.SendingPlatform, started integrations.StartedSession)
			wantSession    integration.SessionStatus
			wantReason     string
			wantConnection integration.ConnectionStatus
		}{
			{"the person declined", true, func(_ *fixture, p *fake.SendingPlatform, started integrations.StartedSession) {
				p.DenySignIn(started.AuthURL.Reveal())
			},
				integration.SessionFailed, "access_denied", integration.ConnectionFailed},
			{"a different person signed in", true, func(_ *fixture, p *fake.SendingPlatform, started integrations.StartedSession) {
				p.CompleteSignIn(started.AuthURL.Reveal(), "boss@"+zone, "Boss")
			}, integration.SessionFailed, integration.ReasonWrongAccount, integration.ConnectionFailed},
			{"the session expired at the platform", true, func(_ *fixture, p *fake.SendingPlatform, started integrations.StartedSession) {
				p.ExpireSignIn(started.AuthURL.Reveal())
			},
				integration.SessionExpired, "", integration.ConnectionFailed},
			{"the session expired at the platform after the sign-in", true, func(fx *fixture, p *fake.SendingPlatform, started integrations.StartedSession) {
				p.ExpireSignIn(started.AuthURL.Reveal())
				p.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountConnected})
			}, integration.SessionConnected, "", integration.ConnectionConnected},
			{"no sign-in", false, func(fx *fixture, _ *fake.SendingPlatform, _ integrations.StartedSession) {
				fx.advance(12 * time.Minute)
			},
				integration.SessionExpired, "", integration.ConnectionFailed},
			{"a sign-in at the last moment", false, func(fx *fixture, p *fake.SendingPlatform, started integrations.StartedSession) {
				fx.advance(10*time.Minute - time.Second)
				p.CompleteSignIn(started.AuthURL.Reveal(), fx.anna.Address, "Anna")
				fx.advance(5 * time.Minute)
			}, integration.SessionConnected, "", integration.ConnectionConnected},
			{"the account cannot sign in", false, func(fx *fixture, p *fake.SendingPlatform, started integrations.StartedSession) {
				p.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountFailed, Reason: "connection_error"})
				fx.advance(12 * time.Minute)
			}, integration.SessionFailed, "connection_error", integration.ConnectionFailed},
			{"the account is still being set up at the end", false, func(fx *fixture, p *fake.SendingPlatform, started integrations.StartedSession) {
				p.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountPending})
				fx.advance(12 * time.Minute)
			}, integration.SessionExpired, "", integration.ConnectionPending},
		} {
			if tc.needsSessions && provider == "plusvibe" {
				continue
			}
			t.Run(provider+" "+tc.name, func(t *testing.T) {
				fx.switchAccount(t)
				id := fx.createIntegration(t, provider)
				started := fx.beginSession(t, id, fx.anna)
				tc.signIn(fx, fx.platformOf(t, id), started)
				session := fx.requireSession(t, started, tc.wantSession)
				c := fx.requireStatus(t, id, fx.anna, tc.wantConnection)
				if session.Reason != tc.wantReason || tc.wantSession == integration.SessionConnected != !session.ConnectedAt.IsZero() {
					t.Errorf("the session is %+v, want the reason %q; the connection is %+v", session, tc.wantReason, c)
				}
				if tc.name == "a different person signed in" && (session.PlatformAccountAddress != "boss@"+zone || c.PlatformAccountID != "") {
					t.Errorf("the session is %+v, want the account of boss; the connection is %+v, want no account", session, c)
				}
				if tc.wantSession != integration.SessionConnected && tc.wantConnection == integration.ConnectionFailed {
					fx.connect(t, id, fx.anna) // a new session can still connect the mailbox
				}
			})
		}
	}
}

// TestMailboxStaysConnectedDuringARepeatedSignIn checks that a mailbox stays connected during a
// repeated sign-in, and that a completed repeated sign-in updates the time of the connection.
func TestMailboxStaysConnectedDuringARepeatedSignIn(t *testing.T) {
	for _, provider := range []string{"instantly", "plusvibe"} {
		t.Run(provider, func(t *testing.T) {
			fx := newFixture(t)
			id := fx.createIntegration(t, provider)
			fx.connect(t, id, fx.anna)
			started := fx.beginSession(t, id, fx.anna)
			fx.requireSession(t, started, integration.SessionPending)
			connectionBefore := fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
			fx.advance(12 * time.Minute)
			fx.requireSession(t, started, integration.SessionExpired)
			if c := fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected); c != connectionBefore {
				t.Errorf("an expired session changed the connection to %+v, want %+v", c, connectionBefore)
			}
			fx.connect(t, id, fx.anna)
			if c := fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected); !c.ConnectedAt.After(connectionBefore.ConnectedAt) {
				t.Errorf("after a repeated sign-in the connection is %+v, before %+v; want a later ConnectedAt", c, connectionBefore)
			}
		})
	}
}

func TestSessionStatusFindsOnlySessionsOfItsMailboxAndIntegration(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	started := fx.beginSession(t, instantlyID, fx.anna)
	for _, tc := range []struct {
		owner                               access.AccountID
		integrationID, mailboxID, sessionID string
		wantCode                            fault.Code
	}{
		{fx.bob.ID, instantlyID, fx.anna.ID, started.Session.ID, fault.IntegrationNotFound},
		{fx.ann.ID, unknownID, fx.anna.ID, started.Session.ID, fault.IntegrationNotFound},
		{fx.ann.ID, instantlyID, unknownID, started.Session.ID, fault.MailboxNotFound},
		{fx.ann.ID, plusvibeID, fx.anna.ID, started.Session.ID, fault.SessionNotFound},
		{fx.ann.ID, instantlyID, fx.ben.ID, started.Session.ID, fault.SessionNotFound},
		{fx.ann.ID, instantlyID, fx.anna.ID, unknownID, fault.SessionNotFound},
	} {
		if _, err := fx.SessionStatus(t.Context(), tc.owner, tc.integrationID, tc.mailboxID, tc.sessionID); fault.ErrorOf(err).Code != tc.wantCode {
			t.Errorf("%+v: got the error %v, want %s", tc, err, tc.wantCode.Name)
		}
	}
	if n := fx.instantly.Calls("SignIn"); n != 0 {
		t.Errorf("the platform was called %d times, want 0", n)
	}
}

// TestStatusAsksEveryThreeSeconds checks that polling callers together cause at most one call of
// the platform in three seconds.
func TestStatusAsksEveryThreeSeconds(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	started := fx.beginSession(t, id, fx.anna)
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			session, err := fx.SessionStatus(t.Context(), fx.ann.ID, id, fx.anna.ID, started.Session.ID)
			if err != nil || session.Status != integration.SessionPending {
				t.Errorf("got %+v, %v, want a pending session", session, err)
			}
		})
	}
	readers.Wait()
	for range 10 {
		fx.advance(900 * time.Millisecond)
		_, err := fx.SessionStatus(t.Context(), fx.ann.ID, id, fx.anna.ID, started.Session.ID)
		must(t, err)
	}
	if n := fx.instantly.Calls("SignIn"); n != 3 {
		t.Errorf("SignIn was called %d times in 9 seconds, want 3", n)
	}
}

// TestSignInFailsAfterADisconnectAndAnotherConnection checks a sign-in that is completed after a
// disconnect, and after a different integration has connected the mailbox.
func TestSignInFailsAfterADisconnectAndAnotherConnection(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	started := fx.beginSession(t, instantlyID, fx.anna)
	_, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
	must(t, err)
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected)
	fx.connect(t, plusvibeID, fx.anna)
	fx.instantly.CompleteSignIn(started.AuthURL.Reveal(), fx.anna.Address, "Anna")
	if session := fx.requireSession(t, started, integration.SessionFailed); session.Reason != integration.ReasonDisconnected {
		t.Errorf("the session is %+v, want the reason %q", session, integration.ReasonDisconnected)
	}
	fx.requireStatus(t, plusvibeID, fx.anna, integration.ConnectionConnected)
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected)
}

// TestSignInFailsAfterAnotherIntegrationConnected checks a sign-in that is completed after its
// connection failed and a different integration has connected the mailbox.
func TestSignInFailsAfterAnotherIntegrationConnected(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	started := fx.beginSession(t, instantlyID, fx.anna)
	c := fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionPending)
	saved, err := fx.store.SaveConnection(t.Context(), fx.ann.ID, c.WithFailure("lost", fx.clock), c.UpdatedAt, nil)
	if err != nil || !saved {
		t.Fatalf("SaveConnection returned %v, %v, want the failed connection saved", saved, err)
	}
	fx.connect(t, plusvibeID, fx.anna)
	fx.instantly.CompleteSignIn(started.AuthURL.Reveal(), fx.anna.Address, "Anna")
	if session := fx.requireSession(t, started, integration.SessionFailed); session.Reason != integration.ReasonElsewhere || !session.ConnectedAt.IsZero() {
		t.Errorf("the session is %+v, want the reason %q", session, integration.ReasonElsewhere)
	}
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionFailed)
	fx.requireStatus(t, plusvibeID, fx.anna, integration.ConnectionConnected)
}
