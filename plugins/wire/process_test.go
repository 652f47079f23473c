// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/core/secret"
)

// testTimeout is how long a test waits for an event. It is exceeded only if something hangs.
const testTimeout = 4 * time.Minute

// TestForeignFirstLineIsNoVersionError checks that only go-plugin's own errors about versions are
// ErrVersion, and not a program's output that has the same words.
func TestForeignFirstLineIsNoVersionError(t *testing.T) {
	for text, want := range map[string]bool{
		"incompatible API version with plugin. Plugin version: 2, Client versions: [1]":     true,
		"incompatible core API version with plugin. Plugin version: 2, Core version: 1":     true,
		"Unrecognized remote plugin message: error: incompatible API version of a library":  false,
		"Unrecognized remote plugin message: Failed to read any lines from plugin's stdout": false,
	} {
		if got := errors.Is(startError(errors.New(text), func(line string) string { return line }), ErrVersion); got != want {
			t.Errorf("%q: is ErrVersion: %v, want %v", text, got, want)
		}
	}
}

func TestProcessStartsAnswersAndStops(t *testing.T) {
	exe := testserver.Program(t, "testdata/puppet")
	defer leaks.Verify(t)()
	p, err := Start(Launch{Exe: exe, Name: "mail-puppet", OnLine: func([]byte) {}, Timeout: testTimeout})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if description, err := p.Describe(t.Context()); err != nil || description.Name != "puppet" || description.Kind != KindMail {
		t.Fatalf("got %+v, %v, want the mail plugin puppet", description, err)
	}
	mail := MailClient(func(context.Context, ...secret.Text) (Session, error) { return Session{Process: p}, nil })
	if got, err := mail.For("t").Profile(t.Context()); err != nil || got.BuiltinDomain != "mail-puppet" {
		t.Fatalf("got %+v, %v, want the domain mail-puppet", got, err)
	}
	p.Stop(testTimeout)
	if !p.runner.state.Success() {
		t.Fatalf("after Stop the process ended with %v, want success", p.runner.state)
	}
	p.Stop(0) // a second Stop has no effect
}

// TestAbortEndsAStart closes Launch.Abort before the start and during the start of a program that
// prints nothing.
func TestAbortEndsAStart(t *testing.T) {
	defer leaks.Verify(t)()
	for _, delay := range []time.Duration{0, 100 * time.Millisecond} {
		abort := make(chan struct{})
		if delay == 0 {
			close(abort)
		} else {
			time.AfterFunc(delay, func() { close(abort) })
		}
		_, err := Start(Launch{Exe: "/bin/cat", Name: "x", OnLine: func([]byte) {}, Timeout: time.Hour, Abort: abort})
		if err == nil || !strings.Contains(err.Error(), "aborted") {
			t.Errorf("an abort after %s: got %v, want an error that contains \"aborted\"", delay, err)
		}
	}
}

func TestStartReportsWhyAProcessDidNotStart(t *testing.T) {
	defer leaks.Verify(t)()
	for _, tc := range []struct {
		name, exe, wantText string
		timeout             time.Duration
	}{
		{"no such file", "/nowhere/plugin", "no such file", testTimeout},
		{"a program that is not a plugin", "/bin/true", "handshake; the process had ended: exit status 0", testTimeout},
		{"a program that fails", "/bin/false", "; the process had ended: exit status 1", testTimeout},
		{"a program that prints nothing", "/bin/cat", "did not start within 300ms", 300 * time.Millisecond},
		{"a program that prints another line first", writeScript(t, "echo 'Hello\033[31m'; sleep 600"), `handshake: the first line on standard output is "Hello [31m", not the handshake line`, testTimeout},
		{"a program that prints a long line first", writeScript(t, "printf '%0999d\n' 0; sleep 600"), `output is "` + strings.Repeat("0", 80) + `", not`, testTimeout},
		{"a program of another protocol version that ends at once", writeScript(t, "echo '1|9|unix||grpc|'; exit 1"), ErrVersion.Error(), testTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Start(Launch{Exe: tc.exe, Name: "x", OnLine: func([]byte) {}, Timeout: tc.timeout})
			if err == nil || !strings.Contains(err.Error(), tc.wantText) {
				t.Fatalf("got %v, want an error with the text %q", err, tc.wantText)
			}
		})
	}
}

// TestKillAlsoKillsGrandchildren checks that Kill also ends a child of the plugin. The child would
// otherwise hold the plugin's pipes open, and the test would hang.
func TestKillAlsoKillsGrandchildren(t *testing.T) {
	runner, err := newRunner(Launch{Exe: "/bin/sh", Name: "sh"})
	if err != nil {
		t.Fatal(err)
	}
	runner.cmd.Args = []string{"sh", "-c", "sleep 600 & echo $! >&2; wait"}
	if err := runner.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var lines []string
	killAtFirstLine := &lineWriter{emit: func(line []byte) {
		lines = append(lines, string(line))
		_ = runner.Kill(context.Background())
	}}
	buf := make([]byte, 64)
	for {
		n, err := runner.stderr.Read(buf)
		_, _ = killAtFirstLine.Write(buf[:n])
		if err != nil {
			break // no process holds the pipe open
		}
	}
	if err := runner.Wait(t.Context()); err == nil || len(lines) != 1 {
		t.Fatalf("the process printed %v and exited with %v, want one line and an error", lines, err)
	}
	if runner.state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v, want SIGKILL", runner.state)
	}
}

// TestLinesDoNotDependOnChunkSizes checks that the lines are the same for each way to split the
// stream into reads, and that no line is longer than MaxLine.
func TestLinesDoNotDependOnChunkSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.SampledFrom([]int{0, 1, 80, MaxLine - 1, MaxLine, MaxLine + 1, 3 * MaxLine})
		var stream []byte
		var want []string
		for range rapid.IntRange(0, 5).Draw(t, "lines") {
			line := strings.Repeat("x", length.Draw(t, "length"))
			stream = append(stream, line+"\n"...)
			want = append(want, line[:min(len(line), MaxLine)])
		}
		var got []string
		writer := &lineWriter{emit: func(line []byte) { got = append(got, string(line)) }}
		for unread := bytes.NewBuffer(stream); unread.Len() > 0; {
			_, _ = writer.Write(unread.Next(rapid.IntRange(1, 2*MaxLine).Draw(t, "chunk")))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) {
			t.Fatalf("got %d lines, want %d, or the content of a line is wrong", len(got), len(want))
		}
	})
}
