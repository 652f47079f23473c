// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"sync"
)

// ErrCrashed is the error of every step after the crash.
var ErrCrashed = errors.New("the process is dead")

// CrashingProcess simulates a process that crashes at one of its steps, before or after the effect
// of the step. All later steps have no effect and fail with ErrCrashed. It is a Stepper.
type CrashingProcess struct {
	mu    sync.Mutex
	left  int
	after bool
	dead  bool
}

// NewCrashingProcess returns a process that completes the given number of steps and crashes at the
// next one: after its effect if after is true, before it otherwise.
func NewCrashingProcess(steps int, after bool) *CrashingProcess {
	return &CrashingProcess{left: steps, after: after}
}

// Dead reports whether the process has crashed.
func (l *CrashingProcess) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Step runs do and returns its error. It returns ErrCrashed at the crash and after it.
func (l *CrashingProcess) Step(_ context.Context, do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return ErrCrashed
	}
	if l.left > 0 {
		l.left--
		return do()
	}
	l.dead = true
	if l.after {
		_ = do()
	}
	return ErrCrashed
}
