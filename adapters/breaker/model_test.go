// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/outcome"
)

// model is a simple circuit with the documented behaviour.
type model struct {
	state               State
	consecutiveFailures int       // number of failures since the last success
	failures            int       // number of failed calls since the circuit closed
	calls               int       // number of calls since the circuit closed
	openUntil           time.Time // the end of the open state
}

// call records a call with the outcome kind, or a successful call if kind is 0. It returns the
// calls that the provider receives, and whether the circuit refuses the call. limit is
// Options.Failures.
func (m *model) call(write bool, kind outcome.Kind, limit int) (received []string, isRefused bool) {
	name := "Mailboxes"
	if write {
		name = "CreateMailbox"
	}
	failed := kind == outcome.Down || kind == outcome.Broken || kind == outcome.Unknown
	switch {
	case m.state == Open:
		return nil, true
	case m.state == HalfOpen && failed:
		m.open()
		if write {
			return []string{"Profile"}, true
		}
		return []string{name}, false
	case m.state == HalfOpen:
		*m = model{state: Closed}
		if !write {
			return []string{name}, false
		}
		received = []string{"Profile"}
	}
	m.count(failed, limit)
	return append(received, name), false
}

func (m *model) count(isFailure bool, limit int) {
	m.calls++
	if !isFailure {
		m.consecutiveFailures = 0
		return
	}
	m.consecutiveFailures++
	m.failures++
	if m.consecutiveFailures >= limit || (m.failures >= 2*limit && 2*m.failures >= m.calls) {
		m.open()
	}
}

func (m *model) open() { *m = model{state: Open, openUntil: time.Now().Add(time.Second)} }

// withoutDeadline hides the test's deadline from package rapid. The deadline is in real time, but
// the test runs in the fake time of synctest.
type withoutDeadline struct{ testing.TB }

// TestCircuitFollowsItsModel makes random calls with random outcomes and pauses. It compares each
// result with the result of the model.
func TestCircuitFollowsItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(withoutDeadline{t}, func(t *rapid.T) {
			limit := rapid.IntRange(1, 4).Draw(t, "failures that open")
			backend := &provider{}
			platform := newGuardedMail(backend, Options{Failures: limit, OpenTime: time.Second, Window: 24 * time.Hour})
			_ = callRead(t.Context(), platform.For("t")) // creates the circuit, and counts as a call
			m := &model{state: Closed, calls: 1}
			t.Repeat(map[string]func(*rapid.T){
				"call": func(t *rapid.T) {
					write := rapid.Bool().Draw(t, "write")
					kind := outcome.Kind(rapid.IntRange(0, int(outcome.Unknown)).Draw(t, "outcome"))
					backend.err, backend.calls = nil, nil
					if kind != 0 {
						backend.err = outcomeError(kind)
					}
					call := callRead
					if write {
						call = callWrite
					}
					received, isRefused := m.call(write, kind, limit)
					err := call(t.Context(), platform.For("t"))
					if _, got := openCircuitWait(err); got != isRefused || !slices.Equal(backend.calls, received) {
						t.Fatalf("the provider got %v, refused %v; want %v, %v", backend.calls, got, received, isRefused)
					}
					if !isRefused && outcome.KindOf(err) != kind {
						t.Fatalf("the call returned %v, want the outcome %s", err, kind)
					}
				},
				"wait": func(t *rapid.T) {
					time.Sleep(time.Duration(rapid.IntRange(10, 1500).Draw(t, "milliseconds")) * time.Millisecond)
					if m.state == Open && time.Now().After(m.openUntil) {
						m.state = HalfOpen
					}
				},
				"": func(t *rapid.T) {
					if got := platform.Circuits()[0]; got.State != m.state {
						t.Fatalf("the circuit is %s, want %s", got.State, m.state)
					}
				},
			})
		})
	})
}
