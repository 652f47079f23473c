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

func TestDisconnect(t *testing.T) {
	w := newFixture(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	d, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
	if err != nil || d.Removed || d.IntegrationID != id || d.MailboxID != w.anna.ID || w.instantly.Calls("Account")+w.instantly.Calls("Remove") != 0 {
		t.Fatalf("without a connection: %+v, %v", d, err)
	}
	w.connect(t, id, w.anna)
	if d, err = w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil); err != nil || !d.Removed || len(w.instantly.Held()) != 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	if c := w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected); c.AccountID != "" {
		t.Errorf("%+v", c)
	}
	calls := w.instantly.Calls("Account")
	if d, err = w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil); err != nil || d.Removed || w.instantly.Calls("Account") != calls {
		t.Fatalf("again: %+v, %v", d, err)
	}
	w.connect(t, second, w.anna)
	for _, tt := range []struct {
		id, mailbox string
		want        fault.Code
	}{
		{stranger, w.anna.ID, fault.IntegrationNotFound},
		{id, stranger, fault.MailboxNotFound},
	} {
		_, err := w.Disconnect(t.Context(), w.acc.ID, tt.id, tt.mailbox, nil)
		refused(t, err, tt.want)
	}
	_, err = w.Disconnect(t.Context(), w.bob.ID, second, w.anna.ID, nil)
	refused(t, err, fault.IntegrationNotFound)
}

// TestEndAllDisconnectsTheMailbox checks that EndAll ends the connection of one mailbox, and that
// it fails if the platform does not answer.
func TestEndAllDisconnectsTheMailbox(t *testing.T) {
	w := newFixture(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	w.connect(t, id, w.anna)
	lift := w.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Down})
	refused(t, w.EndAll(t.Context(), w.acc.ID, w.anna.ID), fault.ProviderUnavailable)
	lift()
	must(t, w.EndAll(t.Context(), w.bob.ID, w.anna.ID))
	w.requireStatus(t, id, w.anna, integration.ConnectionConnected)
	for range 2 {
		must(t, w.EndAll(t.Context(), w.acc.ID, w.anna.ID))
		if c := w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected); c.AccountID != "" || len(w.instantly.Held()) != 0 {
			t.Errorf("%+v, held %v", c, w.instantly.Held())
		}
	}
	w.connect(t, second, w.anna)
	must(t, w.EndAll(t.Context(), w.acc.ID, stranger))
	w.requireStatus(t, second, w.anna, integration.ConnectionConnected)
}

// TestDisconnectOfWhatIsGone checks that Disconnect succeeds if the platform no longer has the
// account.
func TestDisconnectOfWhatIsGone(t *testing.T) {
	w := newFixture(t)
	id := w.integrate(t, "instantly")
	w.connect(t, id, w.anna)
	w.instantly.Drop(w.anna.Address)
	_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
	must(t, err)
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected)
}

// TestDisconnectOfWhatDoesNotShowYet checks an account that signed in some seconds ago and is not
// visible yet. It is removed by its stored id.
func TestDisconnectOfWhatDoesNotShowYet(t *testing.T) {
	w := newFixture(t)
	id := w.integrate(t, "instantly")
	w.connect(t, id, w.anna)
	w.platforms.Hold("instantly", "key", "ws-1", withoutAccounts{w.instantly})
	d, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
	if err != nil || !d.Removed || len(w.instantly.Held()) != 0 {
		t.Errorf("%+v, %v, held %v", d, err, w.instantly.Held())
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
	w := newFixture(t)
	id := w.integrate(t, "instantly")
	w.connect(t, id, w.anna)
	w.wait(time.Second)
	gate := w.instantly.Hold("Remove")
	ended := make(chan error, 1)
	go func() {
		_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
		ended <- err
	}()
	<-gate.Arrived()
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnecting)
	gate.Release()
	must(t, <-ended)
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected)
}

func TestDisconnectWithoutTheCapability(t *testing.T) {
	w := newFixture(t)
	p := w.platform("salesblink", func([]string) integration.Capabilities {
		return integration.Capabilities{OAuth: true, MailboxRefresh: true}
	})
	id := w.integrate(t, "salesblink")
	p.Put(integration.Account{Address: w.anna.Address, State: integration.AccountConnected})
	w.refresh(t, id)
	_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
	refused(t, err, fault.CapabilityMissing)
	w.requireStatus(t, id, w.anna, integration.ConnectionConnected)
	p.Drop(w.anna.Address)
	_, err = w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
	must(t, err)
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected)
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
			w := newFixture(t)
			id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
			w.connect(t, id, w.anna)
			var lifts []func()
			for _, f := range tt.faults {
				lifts = append(lifts, w.instantly.Fail(f))
			}
			w.wait(time.Second)
			_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
			if tt.want.Name != "" {
				refused(t, err, tt.want)
			} else {
				must(t, err)
			}
			w.requireStatus(t, id, w.anna, tt.status)
			if name == "the answer got lost" && w.instantly.Calls("Remove") != 1 {
				t.Error("an account that a read no longer found was removed again")
			}
			if tt.status != integration.ConnectionDisconnecting {
				return
			}
			_, err = w.Begin(t.Context(), w.acc, second, w.anna.ID, nil)
			refused(t, err, fault.ConnectedElsewhere)
			_, counts, err := w.Get(t.Context(), w.acc.ID, id)
			if err != nil || counts.Other != 1 {
				t.Errorf("%+v, %v", counts, err)
			}
			for _, lift := range lifts {
				lift()
			}
			w.refresh(t, id)
			if len(w.instantly.Held()) == 0 {
				w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected)
			} else {
				w.requireStatus(t, id, w.anna, integration.ConnectionConnected)
			}
			_, err = w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
			must(t, err)
			w.connect(t, second, w.anna)
		})
	}
}

// TestSignInDuringADisconnect checks that a failed sign-in does not resolve a disconnect with an
// unknown outcome: the account may still exist.
func TestSignInDuringADisconnect(t *testing.T) {
	w := newFixture(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	w.connect(t, id, w.anna)
	lift := w.instantly.Fail(fake.Fault{Method: "Remove", Kind: outcome.Unknown})
	w.wait(time.Second)
	_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
	refused(t, err, fault.ProviderTimeout)
	lift()
	w.wait(time.Second)
	b := w.begin(t, id, w.anna)
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnecting)
	w.instantly.Deny(b.AuthURL.Reveal())
	w.wait(time.Minute)
	w.status(t, b, integration.SessionFailed)
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnecting)
	_, err = w.Begin(t.Context(), w.acc, second, w.anna.ID, nil)
	refused(t, err, fault.ConnectedElsewhere)
	w.connect(t, id, w.anna)
}

// TestDisconnectOfALeftOverAccount checks that a disconnect removes an account that failed at one
// platform, after a different integration has connected the mailbox.
func TestDisconnectOfALeftOverAccount(t *testing.T) {
	w := newFixture(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	w.connect(t, id, w.anna)
	w.instantly.Put(integration.Account{Address: w.anna.Address, State: integration.AccountFailed})
	w.refresh(t, id)
	w.connect(t, second, w.anna)
	_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
	must(t, err)
	w.requireStatus(t, id, w.anna, integration.ConnectionDisconnected)
	w.requireStatus(t, second, w.anna, integration.ConnectionConnected)
	if len(w.instantly.Held()) != 0 {
		t.Error("it is still there")
	}
}
