// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/core/panics"
)

// Confirm asks a question on standard error and reports whether the answer on standard input is y
// or yes, in upper or lower case. It returns false when the context of cmd ends.
func Confirm(cmd *cobra.Command, question string) bool {
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	line, err := readInput(cmd, func(in io.Reader) (string, error) { return bufio.NewReader(in).ReadString('\n') })
	if err != nil { // the terminal's cursor is still on the line of the question
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// readInput calls read with the standard input of cmd, and returns the result. It fails when the
// context of cmd ends first. The call of read then continues in the background, because Ctrl-C does
// not interrupt it.
func readInput[T any](cmd *cobra.Command, read func(io.Reader) (T, error)) (value T, err error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	panics.Go(func() {
		value, err := read(cmd.InOrStdin())
		done <- result{value, err}
	}, func(e *panics.Error) { done <- result{err: e} })
	select {
	case r := <-done:
		return r.value, r.err
	case <-cmd.Context().Done():
		return value, errors.New("interrupted")
	}
}
