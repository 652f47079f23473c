// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
)

// hang is how long a test waits for an event. Only a test that hangs reaches it.
const hang = 4 * time.Minute

func TestProcessLives(t *testing.T) {
	exe := testserver.Program(t, "testdata/puppet")
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p, err := Start(Launch{Exe: exe, Name: "mail-puppet", Line: func([]byte) {}, Timeout: hang})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d, err := p.Describe(t.Context()); err != nil || d.Name != "puppet" || d.Kind != KindMail {
		t.Fatalf("got %+v, %v", d, err)
	}
	mail := Mail(func(context.Context, ...secret.Text) (Session, error) { return Session{Process: p}, nil })
	if got, err := mail.For("t").Profile(t.Context()); err != nil || got.DefaultDomain != "mail-puppet" {
		t.Fatalf("got %+v, %v", got, err)
	}
	p.Stop(hang)
	if !p.run.state.Success() {
		t.Fatalf("asked to stop, it ended with %v", p.run.state)
	}
	p.Stop(0) // again is harmless
}

func TestProcessThatDoesNotStart(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, tt := range []struct {
		name, exe, says string
		timeout         time.Duration
	}{
		{"no such file", "/nowhere/plugin", "no such file", hang},
		{"no plugin", "/bin/true", "handshake", hang},
		{"it never says anything", "/bin/cat", "start", 300 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Start(Launch{Exe: tt.exe, Name: "x", Line: func([]byte) {}, Timeout: tt.timeout})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("got %v, want something about %q", err, tt.says)
			}
		})
	}
}

// TestGrandchildrenEndToo: what a plugin started ends with it, even when it
// holds the plugin's pipes.
func TestGrandchildrenEndToo(t *testing.T) {
	var mu sync.Mutex
	var said []string
	r, err := newRun(Launch{Exe: "/bin/sh", Name: "sh"})
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Args = []string{"sh", "-c", "sleep 600 & echo $! >&2; wait"}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &lineWriter{line: func(l []byte) {
		mu.Lock()
		said = append(said, string(l))
		mu.Unlock()
		_ = r.Kill(context.Background())
	}}
	buf := make([]byte, 64)
	for {
		n, err := r.stderr.Read(buf)
		_, _ = w.Write(buf[:n])
		if err != nil {
			break // the grandchild no longer holds the pipe
		}
	}
	if err := r.Wait(t.Context()); err == nil || len(said) != 1 {
		t.Fatalf("it said %v and ended with %v", said, err)
	}
	if r.state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it ended with %v", r.state)
	}
}
