// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"sync"
	"time"
)

// Delegations change rarely and finding one costs round trips, so they are
// remembered for a while. Mail records never are.
const (
	rememberFor = 5 * time.Minute
	rememberMax = 4096
)

// memory remembers what was found for a name. It follows the machine's clock:
// what a sandbox does to days does not matter here.
type memory[T any] struct {
	mu   sync.Mutex
	held map[string]remembered[T]
}

type remembered[T any] struct {
	value T
	until time.Time
}

func (m *memory[T]) find(name string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.held[name]
	return r.value, ok && time.Now().Before(r.until)
}

func (m *memory[T]) keep(name string, value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) >= rememberMax {
		m.held = nil // rather find some again than keep a second list by age
	}
	if m.held == nil {
		m.held = map[string]remembered[T]{}
	}
	m.held[name] = remembered[T]{value, time.Now().Add(rememberFor)}
}

func (m *memory[T]) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, name)
}
