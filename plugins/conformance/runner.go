// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/panics"
)

// checkTimeout is the time limit of one check of Test, including the waits of the pacer.
const checkTimeout = 3 * time.Minute

// returnTimeout is how long a check may take to return after its context and its processes have
// ended.
const returnTimeout = 5 * time.Second

// checkRun is the T of one check of Test. A check runs in its own goroutine. Fatal, Fatalf and
// Skipf end the goroutine.
type checkRun struct {
	ctx context.Context

	mu         sync.Mutex
	messages   []string
	hasFailed  bool
	skipReason string // why the check was skipped, or empty
	cleanups   []func()
}

// runCheck runs a check and its cleanups. The check fails if it panics, or if timeout or ctx ends
// first.
func runCheck(ctx context.Context, timeout time.Duration, run func(T)) *checkRun {
	checkCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	t := &checkRun{ctx: checkCtx}
	ended := make(chan struct{})
	panics.Go(func() {
		defer close(ended)
		run(t)
	}, t.reportPanic)
	select {
	case <-ended:
	case <-checkCtx.Done():
		if ctx.Err() != nil {
			t.Errorf("the run was interrupted before the check ended")
		} else {
			t.Errorf("the check did not end within %s", timeout)
		}
	}
	cancel()
	t.cleanUp()
	// The cleanups have ended the processes and servers of the check, so its calls should return.
	// Otherwise the check's goroutine is abandoned.
	select {
	case <-ended:
	case <-time.After(returnTimeout):
	}
	return t
}

func (t *checkRun) reportPanic(e *panics.Error) { t.Errorf("the check panicked: %v", e) }

// cleanUp runs the cleanups, the last cleanup first.
func (t *checkRun) cleanUp() {
	for {
		t.mu.Lock()
		if len(t.cleanups) == 0 {
			t.mu.Unlock()
			return
		}
		cleanup := t.cleanups[len(t.cleanups)-1]
		t.cleanups = t.cleanups[:len(t.cleanups)-1]
		t.mu.Unlock()
		ended := make(chan struct{})
		panics.Go(func() {
			defer close(ended)
			cleanup()
		}, t.reportPanic)
		<-ended
	}
}

func (t *checkRun) addMessage(failed bool, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages, t.hasFailed = append(t.messages, text), t.hasFailed || failed
}

// Helper implements T.
func (t *checkRun) Helper() {}

// Context implements T.
func (t *checkRun) Context() context.Context { return t.ctx }

// Cleanup implements T.
func (t *checkRun) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// TempDir implements T.
func (t *checkRun) TempDir() string {
	dir, err := os.MkdirTemp("", "tenantry-plugin-test-")
	if err != nil {
		t.Fatalf("temporary folder: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Logf implements T.
func (t *checkRun) Logf(format string, args ...any) {
	t.addMessage(false, fmt.Sprintf(format, args...))
}

// Error implements T.
func (t *checkRun) Error(args ...any) { t.addMessage(true, fmt.Sprint(args...)) }

// Errorf implements T.
func (t *checkRun) Errorf(format string, args ...any) {
	t.addMessage(true, fmt.Sprintf(format, args...))
}

// Fatal implements T.
func (t *checkRun) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

// Fatalf implements T.
func (t *checkRun) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf implements T.
func (t *checkRun) Skipf(format string, args ...any) {
	t.mu.Lock()
	t.skipReason = fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}
