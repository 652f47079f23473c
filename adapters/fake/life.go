// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"errors"
	"sync"
)

// ErrDead is what a process that is dead gets from every step.
var ErrDead = errors.New("the process is dead")

// Life ends a process at one of its steps: before or after the step's effect.
// From then on nothing it does reaches the world. The doubles that a life makes
// of ports take their calls as steps.
type Life struct {
	mu    sync.Mutex
	left  int
	after bool
	dead  bool
}

// NewLife is a life of that many steps; the next one it dies at, after the
// effect or before.
func NewLife(steps int, after bool) *Life { return &Life{left: steps, after: after} }

// Dead reports whether it is over.
func (l *Life) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Step does one of its steps, unless it dies before.
func (l *Life) Step(do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return ErrDead
	}
	if l.left > 0 {
		l.left--
		return do()
	}
	l.dead = true
	if l.after {
		_ = do()
	}
	return ErrDead
}

// Answer does a step that has an answer.
func Answer[T any](l *Life, do func() (T, error)) (out T, err error) {
	err = l.Step(func() (err error) {
		out, err = do()
		return err
	})
	return out, err
}
