// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"testing"
)

func TestOneLineKeepsTheFirstOfJoinedErrors(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for want, err := range map[string]error{
		"alone":       errors.New("alone"),
		"file: first": fmt.Errorf("file: %w", errors.Join(first, nil)),
		"both: first": fmt.Errorf("both: %w", errors.Join(first, second)),
		"above":       errors.New("above\nbelow"),
	} {
		if got := FirstLine(err); got != want {
			t.Errorf("%q: got %q, want %q", err, got, want)
		}
	}
}
