// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/outcome"
)

// model is a simple circuit with the promised behaviour.
type model struct {
	state  State
	inARow int       // failures in a row
	failed int       // of all calls since it closed
	calls  int       // since it closed
	until  time.Time // while open
}

// call returns which calls the provider receives and whether the caller is refused, and records the
// outcome of the call.
func (m *model) call(write bool, kind outcome.Kind, limit int) (asked []string, refuse bool) {
	name := "Mailboxes"
	if write {
		name = "CreateMailbox"
	}
	bad := kind == outcome.Down || kind == outcome.Broken || kind == outcome.Unknown
	switch {
	case m.state == Open:
		return nil, true
	case m.state == HalfOpen && bad:
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
	m.count(bad, limit)
	return append(asked, name), false
}

func (m *model) count(bad bool, limit int) {
	m.calls++
	if !bad {
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

// timeless hides the test's deadline, which is not in the time of a synctest bubble.
type timeless struct{ testing.TB }

// TestCircuitFollowsItsModel makes random calls with random outcomes and pauses, and compares each
// result with the model's.
func TestCircuitFollowsItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(timeless{t}, func(t *rapid.T) {
			limit := rapid.IntRange(1, 4).Draw(t, "failures that open")
			p := &provider{}
			platform := mailWith(p, Options{Failures: limit, Open: time.Second, Window: 24 * time.Hour})
			_ = readOf(t.Context(), platform.For("t")) // makes the circuit
			m := &model{state: Closed, calls: 1}
			t.Repeat(map[string]func(*rapid.T){
				"call": func(t *rapid.T) {
					write := rapid.Bool().Draw(t, "write")
					kind := outcome.Kind(rapid.IntRange(0, int(outcome.Unknown)).Draw(t, "ends"))
					p.err, p.asked = nil, nil
					if kind != 0 {
						p.err = ended(kind)
					}
					call := readOf
					if write {
						call = writeOf
					}
					asked, refuse := m.call(write, kind, limit)
					err := call(t.Context(), platform.For("t"))
					if _, got := refused(err); got != refuse || len(p.asked) != len(asked) {
						t.Fatalf("asked %v, refused %v; want %v, %v", p.asked, got, asked, refuse)
					}
					for i := range asked {
						if p.asked[i] != asked[i] {
							t.Fatalf("asked %v, want %v", p.asked, asked)
						}
					}
					if !refuse && outcome.Of(err) != kind {
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
