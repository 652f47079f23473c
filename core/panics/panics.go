// SPDX-License-Identifier: Apache-2.0

// Package panics prevents a panic in a goroutine from ending the process.
//
// A panic that no function of its goroutine recovers ends the whole process, even if the goroutine
// works for a single request. Code of the service and of its plugins therefore starts goroutines
// with this package (goroutines_test.go lists the exceptions):
//
//   - Group is a sync.WaitGroup whose Wait panics if one of its goroutines has panicked. Use it
//     when the code that starts the goroutines waits for them. The panic then reaches the code that
//     runs the request or job, which recovers and logs it.
//   - Go starts a goroutine for which no code waits, or whose result is sent over a channel.
//   - AfterFunc starts a goroutine after a pause.
//   - Guarded wraps a function that a library calls in a goroutine of its own.
//
// Error describes a panic without its value, because the value may contain a secret.
package panics

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Error is a panic that was recovered.
type Error struct {
	// Type is the type of the panic's value.
	Type string
	// Stack lists the functions and lines that led to the panic, the innermost first. It contains
	// no arguments.
	Stack []string
}

// Error returns the type of the panic and where it happened.
func (e *Error) Error() string {
	return fmt.Sprintf("panic of type %s in %s", e.Type, strings.Join(e.Stack[:min(1, len(e.Stack))], ""))
}

// ErrorOf returns the Error for a value that recover returned. Call it in the deferred function. If
// recovered is already an *Error, because Group.Wait panicked with it, ErrorOf returns it
// unchanged.
func ErrorOf(recovered any) *Error {
	if e, alreadyError := recovered.(*Error); alreadyError {
		return e
	}
	return &Error{Type: fmt.Sprintf("%T", recovered), Stack: stack()}
}

// maxFrames is the maximum number of frames in Error.Stack.
const maxFrames = 64

// stack returns the frames of the function that panicked and of its callers. It omits the frames of
// the recovery.
func stack() []string {
	pcs := make([]uintptr, 2*maxFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var lines []string
	panicked := false
	for {
		f, more := frames.Next()
		switch {
		case !panicked:
			panicked = f.Function == "runtime.gopanic"
		case len(lines) == 0 && more && strings.HasPrefix(f.Function, "runtime."):
			// Skip the functions with which the runtime raises its own panics.
		case len(lines) < maxFrames:
			lines = append(lines, fmt.Sprintf("%s:%d", f.Function, f.Line))
		}
		if !more {
			return lines
		}
	}
}

// Guarded returns a function that calls f. If f panics, the function passes the panic to onPanic.
func Guarded(f func(), onPanic func(*Error)) func() {
	return func() {
		defer func() {
			if v := recover(); v != nil {
				onPanic(ErrorOf(v))
			}
		}()
		f()
	}
}

// Catch calls f and returns its error. If f panics, Catch returns an *Error.
func Catch(f func() error) (err error) {
	Guarded(func() { err = f() }, func(e *Error) { err = e })()
	return err
}

// Repanic panics with the *Error in err, if there is one. A goroutine that waits for the result of
// another goroutine calls Repanic, so that the panic reaches the code that runs the waiting
// request or job.
func Repanic(err error) {
	var e *Error
	if errors.As(err, &e) {
		panic(e)
	}
}

// Go starts a goroutine that calls f. If f panics, the goroutine passes the panic to onPanic.
func Go(f func(), onPanic func(*Error)) { go Guarded(f, onPanic)() }

// AfterFunc is time.AfterFunc. If f panics, its goroutine passes the panic to onPanic.
func AfterFunc(pause time.Duration, f func(), onPanic func(*Error)) *time.Timer {
	return time.AfterFunc(pause, Guarded(f, onPanic))
}

// Group is a group of goroutines that a caller waits for. Its zero value is empty.
type Group struct {
	running sync.WaitGroup
	mu      sync.Mutex
	first   *Error
}

// Go starts a goroutine of the group that calls f.
func (g *Group) Go(f func()) {
	g.running.Go(Guarded(f, func(e *Error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.first == nil {
			g.first = e
		}
	}))
}

// Wait waits until all goroutines of the group have ended. If goroutines panicked, Wait panics with
// the *Error of the first of them.
func (g *Group) Wait() {
	g.running.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		panic(g.first)
	}
}
