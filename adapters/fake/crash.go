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
// of that step. All later steps have no effect and fail with ErrCrashed. CrashingProcess implements
// Stepper.
type CrashingProcess struct {
	mu          sync.Mutex
	left        int
	afterEffect bool
	dead        bool
}

// NewCrashingProcess returns a process that completes this number of steps and crashes at the next
// step. If afterEffect is true, it crashes after the effect of that step, otherwise before it.
func NewCrashingProcess(steps int, afterEffect bool) *CrashingProcess {
	return &CrashingProcess{left: steps, afterEffect: afterEffect}
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
	if l.afterEffect {
		_ = do()
	}
	return ErrCrashed
}
