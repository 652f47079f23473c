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
func (w *fixture) crashingService(l *fake.CrashingProcess) *integrations.Service {
	return w.service(fake.SteppedIntegrations(w.store, l), fake.SteppedConnections(w.store, l), fake.SteppedSendingPlatforms(w.platforms, l))
}

// walk adds an integration, connects a mailbox and disconnects it again. If an earlier walk has
// added the integration, walk uses it: a real caller would get its id from a replayed answer.
func (w *fixture) walk(t *testing.T, s *integrations.Service, provider string) error {
	t.Helper()
	all, err := s.List(t.Context(), w.acc.ID)
	must(t, err)
	if len(all) == 0 {
		v, err := s.Create(t.Context(), integrations.New{Account: w.acc.ID, Provider: provider, Name: "x", APIKey: secret.New("key")}, nil)
		if err != nil {
			return err
		}
		all = append(all, v)
	}
	id := all[0].ID
	if _, err := s.Test(t.Context(), w.acc.ID, id, nil); err != nil {
		return err
	}
	if err := w.signIn(t, s, id); err != nil {
		return err
	}
	w.wait(time.Second)
	if _, err := s.Refresh(t.Context(), w.acc.ID, id, nil); err != nil {
		return err
	}
	_, err = s.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
	return err
}

func (w *fixture) signIn(t *testing.T, s *integrations.Service, id string) error {
	t.Helper()
	b, err := s.Begin(t.Context(), w.acc, id, w.anna.ID, nil)
	if err != nil {
		return err
	}
	w.at(t, id).Complete(b.AuthURL.Reveal(), w.anna.Address, "Anna")
	w.wait(4 * time.Second)
	got, err := s.Status(t.Context(), w.acc.ID, id, w.anna.ID, b.Session.ID)
	if err == nil && got.Status != integration.SessionConnected {
		t.Fatalf("%+v", got)
	}
	return err
}

// TestEveryCrashConverges crashes the process at each step of walk in turn. A new process sweeps,
// repeats walk and succeeds. Nothing exists twice, and another integration can connect every
// mailbox.
func TestEveryCrashConverges(t *testing.T) {
	w := newFixture(t)
	for _, provider := range []string{"instantly", "plusvibe"} {
		for _, after := range []bool{false, true} {
			steps := 0
			for finished := false; !finished; steps++ {
				t.Run(fmt.Sprintf("%s, step %d, after its effect %v", provider, steps, after), func(t *testing.T) {
					w.switchAccount(t)
					l := fake.NewCrashingProcess(steps, after)
					err := w.walk(t, w.crashingService(l), provider)
					if finished = !l.Dead(); finished {
						must(t, err)
					}
					w.converges(t, provider)
				})
			}
			if steps < 15 {
				t.Fatalf("walk has only %d steps at which a process can crash", steps)
			}
		}
	}
}

func (w *fixture) converges(t *testing.T, provider string) {
	t.Helper()
	w.wait(12 * time.Minute)
	w.sweep(t, sessions)
	must(t, w.walk(t, w.Service, provider))
	all, err := w.List(t.Context(), w.acc.ID)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	w.requireStatus(t, all[0].ID, w.anna, integration.ConnectionDisconnected)
	if w.hasAccount(w.anna.Address) {
		t.Error("still there")
	}
	w.connect(t, w.integrate(t, "plusvibe"), w.anna) // another integration can connect the mailbox
	over, err := w.store.PendingSessions(t.Context(), w.clock.Add(24*time.Hour), 10)
	if err != nil || len(over) > 0 {
		t.Errorf("open at the end: %+v, %v", over, err)
	}
}

// TestSameRequestAfterACrashBegins crashes a request at every step of Begin. When the lease of its
// Idempotency-Key has ended, the repeated request begins a session, unless the answer with the link
// was already stored.
func TestSameRequestAfterACrashBegins(t *testing.T) {
	w := newFixture(t)
	for _, after := range []bool{false, true} {
		for steps, finished := 0, false; !finished; steps++ {
			w.switchAccount(t)
			id := w.integrate(t, "instantly")
			l := fake.NewCrashingProcess(steps, after)
			_, err := w.crashingService(l).Begin(t.Context(), w.acc, id, w.anna.ID, nil)
			if finished = !l.Dead(); finished {
				must(t, err)
				continue
			}
			w.wait(15 * time.Second)
			_, err = w.Begin(t.Context(), w.acc, id, w.anna.ID, nil)
			if opened := after && steps == 3; opened != errors.Is(err, fault.SessionActive) || !opened && err != nil {
				t.Errorf("step %d, after its effect %v: %v", steps, after, err)
			}
		}
	}
}

// TestCrashOfADisconnect checks that no other integration can connect the mailbox after a crashed
// disconnect, until a retry or a refresh resolves the outcome.
func TestCrashOfADisconnect(t *testing.T) {
	w := newFixture(t)
	for _, after := range []bool{false, true} {
		for steps, finished := 0, false; !finished; steps++ {
			for _, again := range []bool{true, false} {
				w.switchAccount(t)
				id := w.integrate(t, "instantly")
				w.connect(t, id, w.anna)
				w.wait(time.Second)
				l := fake.NewCrashingProcess(steps, after)
				_, err := w.crashingService(l).Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
				if finished = !l.Dead(); finished {
					must(t, err)
				}
				w.wait(time.Second)
				there := w.hasAccount(w.anna.Address)
				want := integration.ConnectionDisconnected
				if again {
					_, err := w.Disconnect(t.Context(), w.acc.ID, id, w.anna.ID, nil)
					must(t, err)
				} else if w.refresh(t, id); there {
					want = integration.ConnectionConnected
				}
				w.requireStatus(t, id, w.anna, want)
			}
		}
	}
}

// hasAccount reports whether a platform has the account.
func (w *fixture) hasAccount(address string) bool {
	return slices.ContainsFunc(append(w.instantly.Held(), w.plusvibe.Held()...), func(a integration.Account) bool {
		return integration.SameAddress(a.Address, address)
	})
}
