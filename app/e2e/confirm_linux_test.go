// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/app/cli"
)

// newTerminal opens a terminal: what a person types goes into the first file,
// and a command reads it from the second.
func newTerminal(t *testing.T) (person, command *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	command, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Close() })
	return person, command
}

// TestClosingAsksOnATerminal: only a yes closes the account.
func TestClosingAsksOnATerminal(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	operate(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").json(t)
	for _, tt := range []struct {
		typed  string
		code   int
		status string
	}{
		{"\n", cli.ExitRefused, "active"},
		{"n\n", cli.ExitRefused, "active"},
		{"yes, but\n", cli.ExitRefused, "active"},
		{"\x04", cli.ExitRefused, "active"}, // the end of the input
		{"", cli.ExitRefused, "active"},     // Ctrl-C instead of an answer
		{"Y\n", 0, "closed"},
	} {
		person, command := newTerminal(t)
		code, errs := closeAt(t, env, person, command, tt.typed)
		if code != tt.code || !strings.Contains(errs, "Close the account") || !strings.Contains(errs, "ann@example.com") {
			t.Errorf("%q: exit code %d\n%s", tt.typed, code, errs)
		}
		sees(t, operate(t, env, "account", "show", "--account", "ann@example.com", "-o", "json").json(t), object{"status": tt.status})
	}
}

// closeAt closes the account from a terminal.
func closeAt(t *testing.T, env []string, person, terminal *os.File, typed string) (int, string) {
	t.Helper()
	asked := &question{want: "[y/N]", met: make(chan struct{})}
	cmd := exec.CommandContext(t.Context(), binary(t, release).binary, "account", "close", "--account", "ann@example.com")
	cmd.Dir, cmd.Env = t.TempDir(), append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch}, env...)
	cmd.Stdin, cmd.Stderr = terminal, asked
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	select {
	case <-asked.met:
	case <-ended:
		t.Fatalf("it did not ask: %s", asked.said.String())
	}
	if typed == "" {
		_ = cmd.Process.Signal(os.Interrupt)
	} else if _, err := person.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	<-ended
	return cmd.ProcessState.ExitCode(), asked.said.String()
}

// question waits for words in what a command says.
type question struct {
	want string
	met  chan struct{}
	said bytes.Buffer
	done bool
}

func (f *question) Write(p []byte) (int, error) {
	f.said.Write(p)
	if !f.done && strings.Contains(f.said.String(), f.want) {
		f.done = true
		close(f.met)
	}
	return len(p), nil
}
