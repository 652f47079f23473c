// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestOnlyYesConfirms(t *testing.T) {
	for input, want := range map[string]bool{"y\n": true, " YES \n": true, "y": true, "n\n": false, "yes, but\n": false, "\n": false, "": false} {
		var prompt bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetIn(strings.NewReader(input))
		cmd.SetErr(&prompt)
		if got := Confirm(cmd, "Continue?"); got != want || !strings.HasPrefix(prompt.String(), "Continue? [y/N] ") {
			t.Errorf("the input %q: got %t, want %t and the question\n%s", input, got, want, prompt.String())
		}
	}
}

// TestInterruptEndsTheWaitForInput checks that a command does not wait for standard input after its
// context has ended, as it does after Ctrl-C.
func TestInterruptEndsTheWaitForInput(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, silentWriter := io.Pipe()
	defer func() { _ = silentWriter.Close() }()
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetIn(in)
	cmd.SetErr(io.Discard)
	if Confirm(cmd, "Continue?") {
		t.Error("Confirm reports an interrupted question as confirmed")
	}
	if _, err := ReadSecret(cmd, "-", "passphrase"); err == nil || err.Error() != "read passphrase: interrupted" {
		t.Errorf("got the error %v, want `read passphrase: interrupted`", err)
	}
}
