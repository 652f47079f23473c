// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/outcome"
)

// model is a simple circuit with the documented behaviour.
type model struct {
	state  State
	inARow int       // failures in a row
	failed int       // failed calls since the circuit closed
	calls  int       // all calls since the circuit closed
	until  time.Time // the end of the open state
}

// call records a call with this outcome. It returns the calls that the provider receives, and
// whether the caller is refused.
func (m *model) call(write bool, kind outcome.Kind, limit int) (asked []string, refuse bool) {
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
		asked = []string{"Profile"}
	}
	m.count(failed, limit)
	return append(asked, name), false
}

func (m *model) count(failed bool, limit int) {
	m.calls++
	if !failed {
		m.inARow = 0
		return
	}
	m.inARow++
	m.failed++
	if m.inARow >= limit || (m.failed >= 2*limit && 2*m.failed >= m.calls) {
		m.open()
	}
}

func (m *model) open() { *m = model{state: Open, until: time.Now().Add(time.Second)} }

// timeless hides the test's deadline from package rapid. The deadline is in real time, but the test
// runs in the fake time of synctest.
type timeless struct{ testing.TB }

// TestCircuitFollowsItsModel makes random calls with random outcomes and pauses. It compares each
// result with the result of the model.
func TestCircuitFollowsItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(timeless{t}, func(t *rapid.T) {
			limit := rapid.IntRange(1, 4).Draw(t, "failures that open")
			p := &provider{}
			platform := mailWith(p, Options{Failures: limit, OpenTime: time.Second, Window: 24 * time.Hour})
			_ = readOf(t.Context(), platform.For("t")) // creates the circuit
			m := &model{state: Closed, calls: 1}
			t.Repeat(map[string]func(*rapid.T){
				"call": func(t *rapid.T) {
					write := rapid.Bool().Draw(t, "write")
					kind := outcome.Kind(rapid.IntRange(0, int(outcome.Unknown)).Draw(t, "ends"))
					p.err, p.calls = nil, nil
					if kind != 0 {
						p.err = ended(kind)
					}
					call := readOf
					if write {
						call = writeOf
					}
					asked, refuse := m.call(write, kind, limit)
					err := call(t.Context(), platform.For("t"))
					if _, got := refused(err); got != refuse || len(p.calls) != len(asked) {
						t.Fatalf("asked %v, refused %v; want %v, %v", p.calls, got, asked, refuse)
					}
					for i := range asked {
						if p.calls[i] != asked[i] {
							t.Fatalf("asked %v, want %v", p.calls, asked)
						}
					}
					if !refuse && outcome.KindOf(err) != kind {
						t.Fatalf("the call ended %v, want %s", err, kind)
					}
				},
				"wait": func(t *rapid.T) {
					time.Sleep(time.Duration(rapid.IntRange(10, 1500).Draw(t, "milliseconds")) * time.Millisecond)
					if m.state == Open && time.Now().After(m.until) {
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
