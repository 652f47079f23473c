// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

func TestDisconnectRemovesTheAccountAtThePlatform(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	result, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
	if err != nil || result.Removed || result.IntegrationID != instantlyID || result.MailboxID != fx.anna.ID || fx.instantly.Calls("Account")+fx.instantly.Calls("Remove") != 0 {
		t.Fatalf("without a connection: got %+v, %v, want nothing removed and no call", result, err)
	}
	fx.connect(t, instantlyID, fx.anna)
	if result, err = fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil); err != nil || !result.Removed || len(fx.instantly.AllAccounts()) != 0 {
		t.Fatalf("with a connection: got %+v, %v, want the account removed", result, err)
	}
	if c := fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected); c.PlatformAccountID != "" {
		t.Errorf("the connection is %+v, want no account", c)
	}
	callsBefore := fx.instantly.Calls("Account")
	if result, err = fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil); err != nil || result.Removed || fx.instantly.Calls("Account") != callsBefore {
		t.Fatalf("a repeated disconnect: got %+v, %v, want nothing removed and no call", result, err)
	}
	fx.connect(t, plusvibeID, fx.anna)
	for _, tc := range []struct {
		integrationID, mailboxID string
		wantCode                 fault.Code
	}{
		{unknownID, fx.anna.ID, fault.IntegrationNotFound},
		{instantlyID, unknownID, fault.MailboxNotFound},
	} {
		_, err := fx.Disconnect(t.Context(), fx.ann.ID, tc.integrationID, tc.mailboxID, nil)
		requireRefusal(t, err, tc.wantCode)
	}
	_, err = fx.Disconnect(t.Context(), fx.bob.ID, plusvibeID, fx.anna.ID, nil)
	requireRefusal(t, err, fault.IntegrationNotFound)
}

// TestDisconnectAllDisconnectsTheMailbox checks that DisconnectAll ends the connection of a mailbox
// of the account, and fails if the platform is down. It does nothing for a mailbox that the account
// does not have.
func TestDisconnectAllDisconnectsTheMailbox(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	fx.connect(t, instantlyID, fx.anna)
	endFault := fx.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Down})
	requireRefusal(t, fx.DisconnectAll(t.Context(), fx.ann.ID, fx.anna.ID), fault.ProviderUnavailable)
	endFault()
	must(t, fx.DisconnectAll(t.Context(), fx.bob.ID, fx.anna.ID))
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionConnected)
	for range 2 {
		must(t, fx.DisconnectAll(t.Context(), fx.ann.ID, fx.anna.ID))
		if c := fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected); c.PlatformAccountID != "" || len(fx.instantly.AllAccounts()) != 0 {
			t.Errorf("the connection is %+v and the platform has the accounts %v, want no account in either", c, fx.instantly.AllAccounts())
		}
	}
	fx.connect(t, plusvibeID, fx.anna)
	must(t, fx.DisconnectAll(t.Context(), fx.ann.ID, unknownID))
	fx.requireStatus(t, plusvibeID, fx.anna, integration.ConnectionConnected)
}

func TestDisconnectOfAMissingAccountSucceeds(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.instantly.DropAccount(fx.anna.Address)
	_, err := fx.Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
	must(t, err)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
}

// TestDisconnectRemovesAnAccountThatDoesNotShowYet checks an account that the platform does not
// show yet, because the sign-in was a few seconds ago. Disconnect removes the account by its stored
// id.
func TestDisconnectRemovesAnAccountThatDoesNotShowYet(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.platforms.AddWorkspace("instantly", "key", "ws-1", withoutAccounts{fx.instantly})
	result, err := fx.Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
	if err != nil || !result.Removed || len(fx.instantly.AllAccounts()) != 0 {
		t.Errorf("got %+v, %v, want the account removed; the platform has %v", result, err, fx.instantly.AllAccounts())
	}
}

// withoutAccounts is a platform that finds no account.
type withoutAccounts struct{ ports.SendingPlatform }

func (withoutAccounts) Account(context.Context, string) (integration.Account, error) {
	return integration.Account{}, nil
}

// TestConnectionIsDisconnectingDuringTheRemoval checks that the connection is stored as
// disconnecting before the platform removes the account.
func TestConnectionIsDisconnectingDuringTheRemoval(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.advance(time.Second)
	gate := fx.instantly.Hold("Remove")
	ended := make(chan error, 1)
	go func() {
		_, err := fx.Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
		ended <- err
	}()
	<-gate.Arrived()
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnecting)
	gate.Release()
	must(t, <-ended)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
}

func TestRemovalOfAnAccountNeedsTheCapability(t *testing.T) {
	fx := newFixture(t)
	platform := fx.addPlatform("salesblink", func([]string) integration.Capabilities {
		return integration.Capabilities{OAuth: true, MailboxRefresh: true}
	})
	id := fx.createIntegration(t, "salesblink")
	platform.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountConnected})
	fx.refresh(t, id)
	_, err := fx.Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
	requireRefusal(t, err, fault.CapabilityMissing)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
	platform.DropAccount(fx.anna.Address)
	_, err = fx.Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
	must(t, err)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
	if platform.Calls("Remove") != 0 {
		t.Error("the platform was asked to remove an account without the capability")
	}
}

func TestFailedDisconnectStoresWhatIsKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		faults     []fake.Fault
		wantCode   fault.Code // the zero Code if Disconnect succeeds
		wantStatus integration.ConnectionStatus
	}{
		"the answer is lost":                       {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Unknown, AfterEffect: true, Times: 1}}, wantStatus: integration.ConnectionDisconnected},
		"the request is lost":                      {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Unknown, Times: 1}}, wantStatus: integration.ConnectionDisconnected},
		"the answer is broken":                     {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Broken, AfterEffect: true, Times: 1}}, wantStatus: integration.ConnectionDisconnected},
		"all requests are lost":                    {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Unknown}}, wantCode: fault.ProviderTimeout, wantStatus: integration.ConnectionDisconnecting},
		"the answer is lost, and later reads fail": {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Unknown, AfterEffect: true}, {Method: "Account", Kind: outcome.Down, Skip: 1}}, wantCode: fault.ProviderTimeout, wantStatus: integration.ConnectionDisconnecting},
		"the platform refuses":                     {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Refused, Code: fault.AccessDenied}}, wantCode: fault.CredentialRejected, wantStatus: integration.ConnectionConnected},
		"the platform is down":                     {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Down}}, wantCode: fault.ProviderUnavailable, wantStatus: integration.ConnectionConnected},
		"the read before the removal fails":        {faults: []fake.Fault{{Method: "Account", Kind: outcome.Unknown}}, wantCode: fault.ProviderTimeout, wantStatus: integration.ConnectionConnected},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
			fx.connect(t, instantlyID, fx.anna)
			var endFaults []func()
			for _, f := range tc.faults {
				endFaults = append(endFaults, fx.instantly.Fail(f))
			}
			fx.advance(time.Second)
			_, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
			if tc.wantCode.Name != "" {
				requireRefusal(t, err, tc.wantCode)
			} else {
				must(t, err)
			}
			fx.requireStatus(t, instantlyID, fx.anna, tc.wantStatus)
			if name == "the answer is lost" && fx.instantly.Calls("Remove") != 1 {
				t.Error("Disconnect repeated the removal although the account did not exist any more")
			}
			if tc.wantStatus != integration.ConnectionDisconnecting {
				return
			}
			_, err = fx.BeginSignIn(t.Context(), fx.ann, plusvibeID, fx.anna.ID, nil)
			requireRefusal(t, err, fault.ConnectedElsewhere)
			_, counts, err := fx.Get(t.Context(), fx.ann.ID, instantlyID)
			if err != nil || counts.Other != 1 {
				t.Errorf("the counts are %+v, %v, want 1 other", counts, err)
			}
			for _, endFault := range endFaults {
				endFault()
			}
			fx.refresh(t, instantlyID)
			if len(fx.instantly.AllAccounts()) == 0 {
				fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected)
			} else {
				fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionConnected)
			}
			_, err = fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
			must(t, err)
			fx.connect(t, plusvibeID, fx.anna)
		})
	}
}

// TestFailedSignInDoesNotResolveADisconnect checks that a failed sign-in does not resolve a
// disconnect with an unknown outcome, because the account may still exist.
func TestFailedSignInDoesNotResolveADisconnect(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	fx.connect(t, instantlyID, fx.anna)
	endFault := fx.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Unknown})
	fx.advance(time.Second)
	_, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
	requireRefusal(t, err, fault.ProviderTimeout)
	endFault()
	fx.advance(time.Second)
	started := fx.beginSession(t, instantlyID, fx.anna)
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnecting)
	fx.instantly.DenySignIn(started.AuthURL.Reveal())
	fx.advance(time.Minute)
	fx.requireSession(t, started, integration.SessionFailed)
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnecting)
	_, err = fx.BeginSignIn(t.Context(), fx.ann, plusvibeID, fx.anna.ID, nil)
	requireRefusal(t, err, fault.ConnectedElsewhere)
	fx.connect(t, instantlyID, fx.anna)
}

// TestDisconnectRemovesALeftOverAccount checks that a disconnect removes an account that failed at
// one platform, after a different integration has connected the mailbox.
func TestDisconnectRemovesALeftOverAccount(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	fx.connect(t, instantlyID, fx.anna)
	fx.instantly.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountFailed})
	fx.refresh(t, instantlyID)
	fx.connect(t, plusvibeID, fx.anna)
	_, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
	must(t, err)
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected)
	fx.requireStatus(t, plusvibeID, fx.anna, integration.ConnectionConnected)
	if len(fx.instantly.AllAccounts()) != 0 {
		t.Error("the platform still has the account")
	}
}

// TestRefusedDisconnectKeepsANewerState checks that a disconnect that the platform refuses does not
// store a state that is older than the stored one. A concurrent request stores its result before
// the disconnect reads the account, or while the platform removes the account.
func TestRefusedDisconnectKeepsANewerState(t *testing.T) {
	for name, tc := range map[string]struct {
		method string // the concurrent request stores its result before this call
		change func(c integration.Connection, now time.Time) integration.Connection
	}{
		"a connection that becomes disconnected before the removal":  {"Account", func(c integration.Connection, now time.Time) integration.Connection { return c.WithoutAccount("", now) }},
		"a connection that becomes disconnected during the removal":  {"Remove", func(c integration.Connection, now time.Time) integration.Connection { return c.WithoutAccount("", now) }},
		"a connection that gets the status other before the removal": {"Account", asOther},
		"a connection that gets the status other during the removal": {"Remove", asOther},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			id := fx.createIntegration(t, "instantly")
			fx.connect(t, id, fx.anna)
			fx.advance(time.Second)
			fx.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Down})
			var want integration.Connection
			fx.beforeCall(tc.method, func() {
				fx.advance(time.Second)
				stored := fx.storedConnection(t, id, fx.anna)
				want = tc.change(stored, fx.clock)
				saved, err := fx.store.SaveConnection(t.Context(), fx.ann.ID, want, stored.UpdatedAt, nil)
				if err != nil || !saved {
					t.Fatalf("SaveConnection returned %v, %v, want the concurrent change saved", saved, err)
				}
				fx.advance(time.Second)
			})
			_, err := fx.Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
			requireRefusal(t, err, fault.ProviderUnavailable)
			if got := fx.requireStatus(t, id, fx.anna, want.Status); got.PlatformAccountID != want.PlatformAccountID {
				t.Errorf("the connection is %+v, want the account of %+v", got, want)
			}
		})
	}
}

// TestUnknownRemovalStaysDisconnectingAfterAConcurrentRefusal checks two concurrent disconnects.
// The platform refuses the removal of the first request. The outcome of the second removal is
// unknown, so the connection must be disconnecting after both requests, in both orders of their
// ends.
func TestUnknownRemovalStaysDisconnectingAfterAConcurrentRefusal(t *testing.T) {
	for _, refusedEndsFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("the refused request ends first: %v", refusedEndsFirst), func(t *testing.T) {
			fx := newFixture(t)
			instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
			fx.connect(t, instantlyID, fx.anna)
			fx.advance(time.Second)
			removing, proceed, secondResult := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			endSecondWithUnknownOutcome := func() {
				fx.advance(time.Second)
				defer fx.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Unknown})()
				close(proceed)
				requireRefusal(t, <-secondResult, fault.ProviderTimeout)
				fx.advance(time.Second)
			}
			fx.beforeCall("Remove", func() {
				fx.beforeCall("Remove", func() {
					close(removing)
					<-proceed
				})
				go func() {
					_, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
					secondResult <- err
				}()
				<-removing
				if !refusedEndsFirst {
					endSecondWithUnknownOutcome()
				}
				fx.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Throttled, Times: 1})
			})
			_, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
			requireRefusal(t, err, fault.ProviderUnavailable)
			if refusedEndsFirst {
				endSecondWithUnknownOutcome()
			}
			fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnecting)
			_, err = fx.BeginSignIn(t.Context(), fx.ann, plusvibeID, fx.anna.ID, nil)
			requireRefusal(t, err, fault.ConnectedElsewhere)
		})
	}
}

// beforeCall runs interruption once, before the next call of Account or Remove of the platform
// `instantly`. It applies to use cases that start after beforeCall.
func (fx *fixture) beforeCall(method string, interruption func()) {
	fx.platforms.AddWorkspace("instantly", "key", "ws-1", &interruptedPlatform{fx.instantly, method, interruption})
}

// interruptedPlatform runs interruption once, before the next call of a method.
type interruptedPlatform struct {
	ports.SendingPlatform
	method       string // Account or Remove; empty after the interruption
	interruption func()
}

func (p *interruptedPlatform) interruptBefore(method string) {
	if p.method == method {
		p.method = ""
		p.interruption()
	}
}

func (p *interruptedPlatform) Account(ctx context.Context, address string) (integration.Account, error) {
	p.interruptBefore("Account")
	return p.SendingPlatform.Account(ctx, address)
}

func (p *interruptedPlatform) Remove(ctx context.Context, id string) error {
	p.interruptBefore("Remove")
	return p.SendingPlatform.Remove(ctx, id)
}

// asOther returns the connection with the status other and a new account.
func asOther(c integration.Connection, now time.Time) integration.Connection {
	c.Status, c.PlatformAccountID, c.UpdatedAt = integration.ConnectionOther, "newer", now
	return c
}

// TestDisconnectContinuesAfterAnotherIntegrationConnected checks the disconnect of a failed account
// while a different integration connects the mailbox. The disconnect removes the account, or
// returns the refusal of the platform. The connection through the different integration does not
// change.
func TestDisconnectContinuesAfterAnotherIntegrationConnected(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("the platform refuses the removal: %v", refused), func(t *testing.T) {
			fx := newFixture(t)
			instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
			fx.connect(t, instantlyID, fx.anna)
			fx.instantly.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountFailed})
			fx.refresh(t, instantlyID)
			fx.advance(time.Second)
			if refused {
				fx.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Down})
			}
			fx.beforeCall("Account", func() { fx.connect(t, plusvibeID, fx.anna) })
			_, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
			if refused {
				requireRefusal(t, err, fault.ProviderUnavailable)
				fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionFailed)
			} else {
				must(t, err)
				fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected)
			}
			fx.requireStatus(t, plusvibeID, fx.anna, integration.ConnectionConnected)
		})
	}
}

// TestRefusedDisconnectAfterAnotherIntegrationConnected checks a removal that the platform refuses.
// During the removal, a refresh finds that the account is gone, and a different integration
// connects the mailbox. The disconnect fails with the error of the platform.
func TestRefusedDisconnectAfterAnotherIntegrationConnected(t *testing.T) {
	fx := newFixture(t)
	instantlyID, plusvibeID := fx.createIntegration(t, "instantly"), fx.createIntegration(t, "plusvibe")
	fx.connect(t, instantlyID, fx.anna)
	fx.advance(time.Second)
	fx.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Down})
	fx.beforeCall("Remove", func() {
		fx.instantly.DropAccount(fx.anna.Address)
		fx.refresh(t, instantlyID)
		fx.connect(t, plusvibeID, fx.anna)
	})
	_, err := fx.Disconnect(t.Context(), fx.ann.ID, instantlyID, fx.anna.ID, nil)
	requireRefusal(t, err, fault.ProviderUnavailable)
	fx.requireStatus(t, instantlyID, fx.anna, integration.ConnectionDisconnected)
	fx.requireStatus(t, plusvibeID, fx.anna, integration.ConnectionConnected)
}

// TestDisconnectAllDisconnectsAMissingMailbox checks that DisconnectAll removes the account of a
// mailbox that is marked as missing. Disconnect does not find such a mailbox.
func TestDisconnectAllDisconnectsAMissingMailbox(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	fx.connect(t, id, fx.anna)
	must(t, fx.store.SaveDiscovery(t.Context(), fx.ann.ID, tenantGUID, ports.DiscoveryResult{
		Began: fx.clock, At: fx.clock, Mailboxes: []mailbox.Platform{{Address: fx.ben.Address}}, MissedMailboxes: map[string]bool{fx.anna.Address: true},
	}))
	_, err := fx.Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
	requireRefusal(t, err, fault.MailboxNotFound)
	fx.advance(time.Second)
	must(t, fx.DisconnectAll(t.Context(), fx.ann.ID, fx.anna.ID))
	if accounts := fx.instantly.AllAccounts(); len(accounts) != 0 {
		t.Errorf("the platform still has the accounts %v, want none", accounts)
	}
	counts, err := fx.store.ConnectionCounts(t.Context(), fx.ann.ID, id)
	if err != nil || counts.Disconnected != 1 {
		t.Errorf("the counts are %+v, %v, want 1 disconnected", counts, err)
	}
}
