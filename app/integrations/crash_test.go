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

// crashingService returns a service over the same state whose process crashes at one of its steps.
func (fx *fixture) crashingService(l *fake.CrashingProcess) *integrations.Service {
	return fx.service(fake.SteppedIntegrations(fx.store, l), fake.SteppedConnections(fx.store, l), fake.SteppedSendingPlatforms(fx.platforms, l))
}

// walk adds an integration, connects a mailbox and disconnects it again. If an earlier walk has
// added the integration, walk uses it: a real caller would get its id from a replayed answer.
func (fx *fixture) walk(t *testing.T, s *integrations.Service, provider string) error {
	t.Helper()
	all, err := s.List(t.Context(), fx.acc.ID)
	must(t, err)
	if len(all) == 0 {
		v, err := s.Create(t.Context(), integrations.New{Account: fx.acc.ID, Provider: provider, Name: "x", APIKey: secret.New("key")}, nil)
		if err != nil {
			return err
		}
		all = append(all, v)
	}
	id := all[0].ID
	if _, err := s.Test(t.Context(), fx.acc.ID, id, nil); err != nil {
		return err
	}
	if err := fx.signIn(t, s, id); err != nil {
		return err
	}
	fx.wait(time.Second)
	if _, err := s.Refresh(t.Context(), fx.acc.ID, id, nil); err != nil {
		return err
	}
	_, err = s.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
	return err
}

func (fx *fixture) signIn(t *testing.T, s *integrations.Service, id string) error {
	t.Helper()
	b, err := s.Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
	if err != nil {
		return err
	}
	fx.at(t, id).CompleteSignIn(b.AuthURL.Reveal(), fx.anna.Address, "Anna")
	fx.wait(4 * time.Second)
	got, err := s.Status(t.Context(), fx.acc.ID, id, fx.anna.ID, b.Session.ID)
	if err == nil && got.Status != integration.SessionConnected {
		t.Fatalf("%+v", got)
	}
	return err
}

// TestEveryCrashConverges crashes the process once at each step of walk. A new process sweeps,
// repeats walk and succeeds. Nothing exists twice, and another integration can connect every
// mailbox.
func TestEveryCrashConverges(t *testing.T) {
	fx := newFixture(t)
	for _, provider := range []string{"instantly", "plusvibe"} {
		for _, after := range []bool{false, true} {
			steps := 0
			for finished := false; !finished; steps++ {
				t.Run(fmt.Sprintf("%s, step %d, after its effect %v", provider, steps, after), func(t *testing.T) {
					fx.switchAccount(t)
					l := fake.NewCrashingProcess(steps, after)
					err := fx.walk(t, fx.crashingService(l), provider)
					if finished = !l.Dead(); finished {
						must(t, err)
					}
					fx.converges(t, provider)
				})
			}
			if steps < 15 {
				t.Fatalf("walk has only %d steps at which a process can crash", steps)
			}
		}
	}
}

func (fx *fixture) converges(t *testing.T, provider string) {
	t.Helper()
	fx.wait(12 * time.Minute)
	fx.sweep(t, sessions)
	must(t, fx.walk(t, fx.Service, provider))
	all, err := fx.List(t.Context(), fx.acc.ID)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	fx.requireStatus(t, all[0].ID, fx.anna, integration.ConnectionDisconnected)
	if fx.hasAccount(fx.anna.Address) {
		t.Error("still there")
	}
	fx.connect(t, fx.integrate(t, "plusvibe"), fx.anna) // another integration can connect the mailbox
	over, err := fx.store.PendingSessions(t.Context(), fx.clock.Add(24*time.Hour), 10)
	if err != nil || len(over) > 0 {
		t.Errorf("open at the end: %+v, %v", over, err)
	}
}

// TestSameRequestAfterACrashBegins crashes a request at every step of Begin. When the lease of its
// Idempotency-Key has ended, the repeated request begins a session, unless the answer with the link
// was already stored.
func TestSameRequestAfterACrashBegins(t *testing.T) {
	fx := newFixture(t)
	for _, after := range []bool{false, true} {
		for steps, finished := 0, false; !finished; steps++ {
			fx.switchAccount(t)
			id := fx.integrate(t, "instantly")
			l := fake.NewCrashingProcess(steps, after)
			_, err := fx.crashingService(l).Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
			if finished = !l.Dead(); finished {
				must(t, err)
				continue
			}
			fx.wait(15 * time.Second)
			_, err = fx.Begin(t.Context(), fx.acc, id, fx.anna.ID, nil)
			if opened := after && steps == 3; opened != errors.Is(err, fault.SessionActive) || !opened && err != nil {
				t.Errorf("step %d, after its effect %v: %v", steps, after, err)
			}
		}
	}
}

// TestCrashOfADisconnect checks that no other integration can connect the mailbox after a crashed
// disconnect, until a retry or a refresh resolves the outcome.
func TestCrashOfADisconnect(t *testing.T) {
	fx := newFixture(t)
	for _, after := range []bool{false, true} {
		for steps, finished := 0, false; !finished; steps++ {
			for _, again := range []bool{true, false} {
				fx.switchAccount(t)
				id := fx.integrate(t, "instantly")
				fx.connect(t, id, fx.anna)
				fx.wait(time.Second)
				l := fake.NewCrashingProcess(steps, after)
				_, err := fx.crashingService(l).Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
				if finished = !l.Dead(); finished {
					must(t, err)
				}
				fx.wait(time.Second)
				there := fx.hasAccount(fx.anna.Address)
				want := integration.ConnectionDisconnected
				if again {
					_, err := fx.Disconnect(t.Context(), fx.acc.ID, id, fx.anna.ID, nil)
					must(t, err)
				} else if fx.refresh(t, id); there {
					want = integration.ConnectionConnected
				}
				fx.requireStatus(t, id, fx.anna, want)
			}
		}
	}
}

// hasAccount reports whether a platform has the account.
func (fx *fixture) hasAccount(address string) bool {
	return slices.ContainsFunc(append(fx.instantly.AllAccounts(), fx.plusvibe.AllAccounts()...), func(a integration.Account) bool {
		return integration.SameAddress(a.Address, address)
	})
}
