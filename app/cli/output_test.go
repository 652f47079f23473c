// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"testing"
)

func TestFirstLineShowsOnlyTheFirstJoinedError(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for want, err := range map[string]error{
		"single":      errors.New("single"),
		"file: first": fmt.Errorf("file: %w", errors.Join(first, nil)),
		"both: first": fmt.Errorf("both: %w", errors.Join(first, second)),
		"line 1":      errors.New("line 1\nline 2"),
	} {
		if got := FirstLine(err); got != want {
			t.Errorf("%q: got %q, want %q", err, got, want)
		}
	}
}
