// SPDX-License-Identifier: Apache-2.0

package panics_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/panics"
)

const secretValue = "the password is hunter2"

func raise() { panic(secretValue) }

func dereferenceNil() {
	var e *panics.Error
	_ = e.Type
}

// requirePanic checks that err describes a panic that began in the function with the given name.
// err must not contain the value that was passed to panic.
func requirePanic(t *testing.T, err error, function string) {
	t.Helper()
	var e *panics.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a panic", err)
	}
	if !strings.Contains(e.Stack[0], "panics_test."+function+":") || !strings.Contains(err.Error(), e.Stack[0]) {
		t.Errorf("the error is %q and the stack %q, want the function %s first", err, e.Stack, function)
	}
	if strings.Contains(err.Error()+strings.Join(e.Stack, ""), secretValue) {
		t.Errorf("%v contains the value of the panic", e)
	}
}

func TestCatchReturnsThePanic(t *testing.T) {
	requirePanic(t, panics.Catch(func() error { raise(); return nil }), "raise")
	requirePanic(t, panics.Catch(func() error { dereferenceNil(); return nil }), "dereferenceNil")
	want := errors.New("an error")
	if err := panics.Catch(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v, want the error of the function", err)
	}
}

// TestGroupContinuesThePanic checks that Wait panics in the goroutine of its caller, after all
// goroutines have ended, with the stack of the goroutine that panicked.
func TestGroupContinuesThePanic(t *testing.T) {
	ended := false
	err := panics.Catch(func() error {
		var g panics.Group
		release := make(chan struct{})
		g.Go(func() {
			<-release
			ended = true
		})
		g.Go(func() {
			defer close(release)
			raise()
		})
		g.Wait()
		return nil
	})
	requirePanic(t, err, "raise")
	if !ended {
		t.Error("Wait returned before the goroutine that did not panic had ended")
	}
	var g panics.Group
	g.Go(func() {})
	g.Wait()
}

func TestGoReportsThePanic(t *testing.T) {
	failed := make(chan error, 1)
	panics.Go(raise, func(e *panics.Error) { failed <- e })
	requirePanic(t, <-failed, "raise")
}
