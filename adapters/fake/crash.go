// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"sync"
)

// ErrCrashed is the error of the step that crashes and of every later step.
var ErrCrashed = errors.New("the process is dead")

// CrashingProcess simulates a process that crashes at one of its steps, before or after the effect
// of that step. All later steps have no effect and fail with ErrCrashed. CrashingProcess implements
// Stepper.
type CrashingProcess struct {
	mu          sync.Mutex
	stepsLeft   int
	afterEffect bool
	isDead      bool
}

// NewCrashingProcess returns a process that completes this number of steps and crashes at the next
// step. If afterEffect is true, it crashes after the effect of that step, otherwise before it.
func NewCrashingProcess(steps int, afterEffect bool) *CrashingProcess {
	return &CrashingProcess{stepsLeft: steps, afterEffect: afterEffect}
}

// Dead reports whether the process has crashed.
func (p *CrashingProcess) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isDead
}

// Step runs do and returns its error. It returns ErrCrashed at the crash and after it.
func (p *CrashingProcess) Step(_ context.Context, do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isDead {
		return ErrCrashed
	}
	if p.stepsLeft > 0 {
		p.stepsLeft--
		return do()
	}
	p.isDead = true
	if p.afterEffect {
		_ = do()
	}
	return ErrCrashed
}
