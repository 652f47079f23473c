// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

func TestDisconnectRemovesTheAccountAtThePlatform(t *testing.T) {
	fx := newFixture(t)
	id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
	d, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
	if err != nil || d.Removed || d.IntegrationID != id || d.MailboxID != fx.anna.ID || fx.instantly.Calls("Account")+fx.instantly.Calls("Remove") != 0 {
		t.Fatalf("without a connection: %+v, %v", d, err)
	}
	fx.connect(t, id, fx.anna)
	if d, err = fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil); err != nil || !d.Removed || len(fx.instantly.AllAccounts()) != 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	if c := fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected); c.AccountID != "" {
		t.Errorf("%+v", c)
	}
	calls := fx.instantly.Calls("Account")
	if d, err = fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil); err != nil || d.Removed || fx.instantly.Calls("Account") != calls {
		t.Fatalf("again: %+v, %v", d, err)
	}
	fx.connect(t, second, fx.anna)
	for _, tt := range []struct {
		id, mailbox string
		want        fault.Code
	}{
		{stranger, fx.anna.ID, fault.IntegrationNotFound},
		{id, stranger, fault.MailboxNotFound},
	} {
		_, err := fx.Disconnect(t.Context(), fx.acc.ID, tt.id, tt.mailbox, nil)
		refused(t, err, tt.want)
	}
	_, err = fx.Disconnect(t.Context(), fx.bob.ID, second, fx.anna.ID, nil)
	refused(t, err, fault.IntegrationNotFound)
}

// TestEndAllDisconnectsTheMailbox checks that EndAll ends the connection of one mailbox, and that
// it fails if the platform does not answer.
func TestEndAllDisconnectsTheMailbox(t *testing.T) {
	fx := newFixture(t)
	id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
	fx.connect(t, id, fx.anna)
	lift := fx.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Down})
	refused(t, fx.EndAll(t.Context(), fx.acc.ID, fx.anna.ID), fault.ProviderUnavailable)
	lift()
	must(t, fx.EndAll(t.Context(), fx.bob.ID, fx.anna.ID))
	fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
	for range 2 {
		must(t, fx.EndAll(t.Context(), fx.acc.ID, fx.anna.ID))
		if c := fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected); c.AccountID != "" || len(fx.instantly.AllAccounts()) != 0 {
			t.Errorf("%+v, held %v", c, fx.instantly.AllAccounts())
		}
	}
	fx.connect(t, second, fx.anna)
	must(t, fx.EndAll(t.Context(), fx.acc.ID, stranger))
	fx.requireStatus(t, second, fx.anna, integration.ConnectionConnected)
}

// TestDisconnectOfAMissingAccount checks that Disconnect succeeds if the platform no longer has the
// account.
func TestDisconnectOfAMissingAccount(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.instantly.DropAccount(fx.anna.Address)
	_, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
	must(t, err)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
}

// TestDisconnectOfAnAccountThatDoesNotShowYet checks an account that signed in some seconds ago and
// is not visible yet. It is removed by its stored id.
func TestDisconnectOfAnAccountThatDoesNotShowYet(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.platforms.AddWorkspace("instantly", "key", "ws-1", withoutAccounts{fx.instantly})
	d, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
	if err != nil || !d.Removed || len(fx.instantly.AllAccounts()) != 0 {
		t.Errorf("%+v, %v, held %v", d, err, fx.instantly.AllAccounts())
	}
}

// withoutAccounts is a platform that finds no account.
type withoutAccounts struct{ ports.SendingPlatform }

func (withoutAccounts) Account(context.Context, string) (integration.Account, error) {
	return integration.Account{}, nil
}

// TestDisconnectHoldsTheMailboxMeanwhile checks that the connection is stored as disconnecting
// before the platform is called.
func TestDisconnectHoldsTheMailboxMeanwhile(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	fx.connect(t, id, fx.anna)
	fx.wait(time.Second)
	gate := fx.instantly.Hold("Remove")
	ended := make(chan error, 1)
	go func() {
		_, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
		ended <- err
	}()
	<-gate.Arrived()
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnecting)
	gate.Release()
	must(t, <-ended)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
}

func TestDisconnectWithoutTheCapability(t *testing.T) {
	fx := newFixture(t)
	p := fx.platform("salesblink", func([]string) integration.Capabilities {
		return integration.Capabilities{OAuth: true, MailboxRefresh: true}
	})
	id := fx.integrate(t, "salesblink")
	p.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountConnected})
	fx.refresh(t, id)
	_, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
	refused(t, err, fault.CapabilityMissing)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
	p.DropAccount(fx.anna.Address)
	_, err = fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
	must(t, err)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
	if p.Calls("Remove") != 0 {
		t.Error("the platform was asked for what it cannot do")
	}
}

func TestDisconnectWithoutAnAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		faults []fake.Fault
		want   fault.Code // none: disconnected
		status integration.ConnectionStatus
	}{
		"the answer got lost":             {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Unknown, AfterEffect: true, Times: 1}}, status: integration.ConnectionDisconnected},
		"the request got lost":            {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Unknown, Times: 1}}, status: integration.ConnectionDisconnected},
		"nonsense":                        {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Broken, AfterEffect: true, Times: 1}}, status: integration.ConnectionDisconnected},
		"twice":                           {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Unknown}}, want: fault.ProviderTimeout, status: integration.ConnectionDisconnecting},
		"and no look":                     {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Unknown, AfterEffect: true}, {Method: "Account", Kind: outcome.Down, Skip: 1}}, want: fault.ProviderTimeout, status: integration.ConnectionDisconnecting},
		"refused":                         {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Refused, Code: fault.AccessDenied}}, want: fault.CredentialRejected, status: integration.ConnectionConnected},
		"down":                            {faults: []fake.Fault{{Method: "Remove", Kind: outcome.Down}}, want: fault.ProviderUnavailable, status: integration.ConnectionConnected},
		"no look before, nothing is done": {faults: []fake.Fault{{Method: "Account", Kind: outcome.Unknown}}, want: fault.ProviderTimeout, status: integration.ConnectionConnected},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
			fx.connect(t, id, fx.anna)
			var lifts []func()
			for _, f := range tt.faults {
				lifts = append(lifts, fx.instantly.Fail(f))
			}
			fx.wait(time.Second)
			_, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
			if tt.want.Name != "" {
				refused(t, err, tt.want)
			} else {
				must(t, err)
			}
			fx.requireStatus(t, id, fx.anna, tt.status)
			if name == "the answer got lost" && fx.instantly.Calls("Remove") != 1 {
				t.Error("an account that a read no longer found was removed again")
			}
			if tt.status != integration.ConnectionDisconnecting {
				return
			}
			_, err = fx.Begin(t.Context(), fx.acc, second, fx.anna.ID, nil)
			refused(t, err, fault.ConnectedElsewhere)
			_, counts, err := fx.Get(t.Context(), fx.acc.ID, id)
			if err != nil || counts.Other != 1 {
				t.Errorf("%+v, %v", counts, err)
			}
			for _, lift := range lifts {
				lift()
			}
			fx.refresh(t, id)
			if len(fx.instantly.AllAccounts()) == 0 {
				fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
			} else {
				fx.requireStatus(t, id, fx.anna, integration.ConnectionConnected)
			}
			_, err = fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
			must(t, err)
			fx.connect(t, second, fx.anna)
		})
	}
}

// TestSignInDuringADisconnect checks that a failed sign-in does not resolve a disconnect with an
// unknown outcome: the account may still exist.
func TestSignInDuringADisconnect(t *testing.T) {
	fx := newFixture(t)
	id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
	fx.connect(t, id, fx.anna)
	lift := fx.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Unknown})
	fx.wait(time.Second)
	_, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
	refused(t, err, fault.ProviderTimeout)
	lift()
	fx.wait(time.Second)
	b := fx.begin(t, id, fx.anna)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnecting)
	fx.instantly.DenySignIn(b.AuthURL.Reveal())
	fx.wait(time.Minute)
	fx.status(t, b, integration.SessionFailed)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnecting)
	_, err = fx.Begin(t.Context(), fx.acc, second, fx.anna.ID, nil)
	refused(t, err, fault.ConnectedElsewhere)
	fx.connect(t, id, fx.anna)
}

// TestDisconnectOfALeftOverAccount checks that a disconnect removes an account that failed at one
// platform, after a different integration has connected the mailbox.
func TestDisconnectOfALeftOverAccount(t *testing.T) {
	fx := newFixture(t)
	id, second := fx.integrate(t, "instantly"), fx.integrate(t, "plusvibe")
	fx.connect(t, id, fx.anna)
	fx.instantly.Put(integration.Account{Address: fx.anna.Address, State: integration.AccountFailed})
	fx.refresh(t, id)
	fx.connect(t, second, fx.anna)
	_, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
	must(t, err)
	fx.requireStatus(t, id, fx.anna, integration.ConnectionDisconnected)
	fx.requireStatus(t, second, fx.anna, integration.ConnectionConnected)
	if len(fx.instantly.AllAccounts()) != 0 {
		t.Error("it is still there")
	}
}
