// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
)

// crashingService returns a service that uses the same store and platforms. Its process crashes at
// one of its writes to the store or calls to a platform.
func (fx *fixture) crashingService(process *fake.CrashingProcess) *integrations.Service {
	return fx.service(fake.SteppedIntegrations(fx.store, process), fake.SteppedConnections(fx.store, process), fake.SteppedSendingPlatforms(fx.platforms, process))
}

// connectAndDisconnect creates an integration, connects a mailbox and disconnects it again. If an
// earlier call has created the integration, connectAndDisconnect uses that integration. A real
// caller would get the integration's id from a replayed answer.
func (fx *fixture) connectAndDisconnect(t *testing.T, s *integrations.Service, provider string) error {
	t.Helper()
	views, err := s.List(t.Context(), fx.ann.ID)
	must(t, err)
	if len(views) == 0 {
		v, err := s.Create(t.Context(), integrations.NewIntegration{Account: fx.ann.ID, Provider: provider, Name: "x", APIKey: secret.New("key")}, nil)
		if err != nil {
			return err
		}
		views = append(views, v)
	}
	id := views[0].ID
	if _, err := s.Test(t.Context(), fx.ann.ID, id, nil); err != nil {
		return err
	}
	if err := fx.signIn(t, s, id); err != nil {
		return err
	}
	fx.advance(time.Second)
	if _, err := s.Refresh(t.Context(), fx.ann.ID, id, nil); err != nil {
		return err
	}
	_, err = s.Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
	return err
}

// signIn connects the mailbox anna by a completed sign-in.
func (fx *fixture) signIn(t *testing.T, s *integrations.Service, id string) error {
	t.Helper()
	started, err := s.BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, nil)
	if err != nil {
		return err
	}
	fx.platformOf(t, id).CompleteSignIn(started.AuthURL.Reveal(), fx.anna.Address, "Anna")
	fx.advance(4 * time.Second) // more than the minimum interval between two platform checks
	session, err := s.SessionStatus(t.Context(), fx.ann.ID, id, fx.anna.ID, started.Session.ID)
	if err == nil && session.Status != integration.SessionConnected {
		t.Fatalf("the session is %+v, want a connected session", session)
	}
	return err
}

// TestEveryCrashConverges crashes the process once at each step of connectAndDisconnect. A new
// process ends expired sessions, repeats connectAndDisconnect and succeeds. The customer then has
// one integration, and a different integration can connect the mailbox.
func TestEveryCrashConverges(t *testing.T) {
	fx := newFixture(t)
	for _, provider := range []string{"instantly", "plusvibe"} {
		for _, afterEffect := range []bool{false, true} {
			steps := 0
			for finished := false; !finished && !t.Failed(); steps++ {
				t.Run(fmt.Sprintf("%s, step %d, after its effect %v", provider, steps, afterEffect), func(t *testing.T) {
					fx.switchAccount(t)
					process := fake.NewCrashingProcess(steps, afterEffect)
					err := fx.connectAndDisconnect(t, fx.crashingService(process), provider)
					if finished = !process.Dead(); finished {
						must(t, err)
					}
					fx.requireConvergence(t, provider)
				})
			}
			if steps < 15 {
				t.Fatalf("connectAndDisconnect has only %d steps at which a process can crash, want at least 15", steps)
			}
		}
	}
}

// requireConvergence repeats connectAndDisconnect in a new process, and requires that nothing of
// the crashed process remains.
func (fx *fixture) requireConvergence(t *testing.T, provider string) {
	t.Helper()
	fx.advance(12 * time.Minute) // longer than a session and its grace period
	fx.sweep(t, sessionSweep)
	must(t, fx.connectAndDisconnect(t, fx.Service, provider))
	views, err := fx.List(t.Context(), fx.ann.ID)
	if err != nil || len(views) != 1 {
		t.Fatalf("the integrations are %+v, %v, want one", views, err)
	}
	fx.requireStatus(t, views[0].ID, fx.anna, integration.ConnectionDisconnected)
	if fx.hasAccount(fx.anna.Address) {
		t.Error("the platform still has the account")
	}
	fx.connect(t, fx.createIntegration(t, "plusvibe"), fx.anna) // a different integration can connect the mailbox
	pending, err := fx.store.PendingSessions(t.Context(), fx.clock.Add(24*time.Hour), 10)
	if err != nil || len(pending) > 0 {
		t.Errorf("the pending sessions are %+v, %v, want none", pending, err)
	}
}

// TestSameRequestAfterACrashBegins crashes a request at each step of BeginSignIn. The same request
// begins a session 15 s later, unless the crashed request has stored its link.
func TestSameRequestAfterACrashBegins(t *testing.T) {
	fx := newFixture(t)
	for _, afterEffect := range []bool{false, true} {
		for step, finished := 0, false; !finished; step++ {
			fx.switchAccount(t)
			id := fx.createIntegration(t, "instantly")
			process := fake.NewCrashingProcess(step, afterEffect)
			_, err := fx.crashingService(process).BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, nil)
			if finished = !process.Dead(); finished {
				must(t, err)
				continue
			}
			fx.advance(15 * time.Second) // more than openTimeout
			_, err = fx.BeginSignIn(t.Context(), fx.ann, id, fx.anna.ID, nil)
			linkStored := afterEffect && step == 3 // this step stores the link
			if linkStored != errors.Is(err, fault.SessionActive) || !linkStored && err != nil {
				t.Errorf("step %d, after its effect %v: got the error %v, want oauth_session_pending: %v", step, afterEffect, err, linkStored)
			}
		}
	}
}

// TestEveryCrashOfADisconnectConverges crashes a disconnect at each step. A second disconnect then
// ends the connection. A refresh instead stores whether the account still exists.
func TestEveryCrashOfADisconnectConverges(t *testing.T) {
	fx := newFixture(t)
	for _, afterEffect := range []bool{false, true} {
		for step, finished := 0, false; !finished; step++ {
			for _, repeat := range []bool{true, false} {
				fx.switchAccount(t)
				id := fx.createIntegration(t, "instantly")
				fx.connect(t, id, fx.anna)
				fx.advance(time.Second)
				process := fake.NewCrashingProcess(step, afterEffect)
				_, err := fx.crashingService(process).Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
				if finished = !process.Dead(); finished {
					must(t, err)
				}
				fx.advance(time.Second)
				accountExists := fx.hasAccount(fx.anna.Address)
				want := integration.ConnectionDisconnected
				if repeat {
					_, err := fx.Disconnect(t.Context(), fx.ann.ID, id, fx.anna.ID, nil)
					must(t, err)
				} else if fx.refresh(t, id); accountExists {
					want = integration.ConnectionConnected
				}
				fx.requireStatus(t, id, fx.anna, want)
			}
		}
	}
}

// hasAccount reports whether one of the two platforms has an account with this address.
func (fx *fixture) hasAccount(address string) bool {
	return slices.ContainsFunc(append(fx.instantly.AllAccounts(), fx.plusvibe.AllAccounts()...), func(a integration.Account) bool {
		return integration.SameAddress(a.Address, address)
	})
}
