// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/core/outcome"
)

// TestHungPluginIsReplaced stops the process three times over. Each time three
// calls end unknown, then the process is killed and the next call is answered.
func TestHungPluginIsReplaced(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), Patience: quick})
	for round := range 3 {
		stopped := pid(t, h, "puppet")
		stop(t, stopped)
		for call := range 3 {
			_, err := doing(h, "puppet", "").Profile(within(t, 500*time.Millisecond))
			if outcome.Of(err) != outcome.Unknown {
				t.Fatalf("round %d, call %d: %v", round, call, err)
			}
		}
		gone(t, stopped, 5*time.Second)
		if fresh := pid(t, h, "puppet"); fresh == stopped {
			t.Fatal("the same process answers")
		}
		if s := h.Status()[0]; s.Hangs != round+1 || s.Starts != round+2 {
			t.Fatalf("round %d: %+v", round, s)
		}
	}
}

// TestSlowProviderIsNoHang: the plugin is well, only the provider is slow.
func TestSlowProviderIsNoHang(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), Patience: quick})
	first := pid(t, h, "puppet")
	for range 6 {
		if _, err := doing(h, "puppet", "hang").Profile(within(t, 50*time.Millisecond)); outcome.Of(err) != outcome.Unknown {
			t.Fatalf("got %v", err)
		}
	}
	if pid(t, h, "puppet") != first {
		t.Fatal("a healthy plugin was replaced")
	}
}

func TestCrashLoopStopsAndIsShown(t *testing.T) {
	for _, tt := range []struct{ name, plugin, do string }{
		{"dies at its start", "crashes:puppet", ""},
		{"dies in its first call", "puppet:puppet", "exit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, j := host(t, pluginhost.Options{Dir: folder(t, tt.plugin), Patience: quick})
			name, _, _ := strings.Cut(tt.plugin, ":")
			end := time.Now().Add(20 * time.Second)
			var o *outcome.Error
			for o == nil || o.Cause != "plugin_crash_loop" {
				_, err := doing(h, name, tt.do).Profile(t.Context())
				if !errors.As(err, &o) || time.Now().After(end) {
					t.Fatalf("got %v; status %+v", err, h.Status())
				}
				if o.Kind == outcome.Down {
					wait, done := context.WithTimeout(t.Context(), min(o.RetryAfter, time.Second))
					<-wait.Done()
					done()
				}
			}
			if o.Kind != outcome.Down || o.RetryAfter < 30*time.Second {
				t.Fatalf("in the loop: %+v", o)
			}
			s := h.Status()[0]
			if s.State != pluginhost.CrashLoop || s.Crashes != 5 || s.LastError == nil || s.PID != 0 {
				t.Fatalf("status %+v", s)
			}
			if !strings.Contains(j.String(), `"crash_loop":true`) {
				t.Fatalf("the log does not say it:\n%s", j)
			}
		})
	}
}

func TestOneTrialAfterTheCooldown(t *testing.T) {
	p := quick
	p.Crashes, p.Cooldown = 1, 50*time.Millisecond
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), Patience: p})
	if _, err := doing(h, "puppet", "exit").Profile(t.Context()); outcome.Of(err) != outcome.Unknown {
		t.Fatalf("got %v", err)
	}
	_, err := doing(h, "puppet", "").Profile(t.Context())
	var o *outcome.Error
	if !errors.As(err, &o) || o.Kind != outcome.Down {
		t.Fatalf("got %v", err)
	}
	wait, done := context.WithTimeout(t.Context(), o.RetryAfter)
	defer done()
	<-wait.Done()
	pid(t, h, "puppet")
	if s := h.Status()[0]; s.State != pluginhost.Running || s.Crashes != 0 {
		t.Fatalf("status %+v", s)
	}
}

// TestKilledUnderLoad: calls in flight are unknown, never anything that says
// nothing happened; the host lives and every process is replaced.
func TestKilledUnderLoad(t *testing.T) {
	const kills = 40
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), Patience: quick})
	ctx, enough := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var answered, unknown atomic.Int64
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				_, err := doing(h, "puppet", "").Profile(context.WithoutCancel(ctx))
				switch outcome.Of(err) {
				case 0:
					answered.Add(1)
				case outcome.Unknown:
					unknown.Add(1)
				default:
					t.Errorf("a call of a killed plugin: %v", err)
				}
			}
		})
	}
	for range kills {
		victim := pid(t, h, "puppet")
		signal(t, victim, unix.SIGKILL)
		gone(t, victim, 2*time.Second)
		respawned := time.Now()
		for {
			p, err := doing(h, "puppet", "").Profile(t.Context())
			if err == nil && p.Name != strconv.Itoa(victim) {
				break
			}
			if time.Since(respawned) > 2*time.Second {
				t.Fatalf("no answer 2 s after a kill: %v", err)
			}
		}
	}
	enough()
	load.Wait()
	s := h.Status()[0]
	if s.Starts != kills+1 || s.State != pluginhost.Running {
		t.Fatalf("status %+v", s)
	}
	t.Logf("%d answered, %d unknown", answered.Load(), unknown.Load())
}

func TestKillOnRequest(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), Patience: quick})
	for range 7 { // more often than a crash loop has crashes
		if _, err := h.Describe(t.Context(), "puppet"); err != nil {
			t.Fatal(err)
		}
		if err := h.Kill("puppet"); err != nil {
			t.Fatal(err)
		}
	}
	pid(t, h, "puppet")
}

func TestSilentPluginDoesNotStart(t *testing.T) {
	p := quick
	p.Start = 300 * time.Millisecond
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "silent:puppet"), Patience: p})
	_, err := doing(h, "silent", "").Profile(within(t, 5*time.Second))
	if outcome.Of(err) != outcome.Down {
		t.Fatalf("got %v", err)
	}
	if s := h.Status()[0]; !strings.Contains(s.LastError.Error(), "start") {
		t.Fatalf("status %+v", s)
	}
}

func TestCallerDoesNotWaitForASlowStart(t *testing.T) {
	p := quick
	p.Start = time.Second
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "silent:puppet"), Patience: p})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := doing(h, "silent", "").Profile(ctx)
	if outcome.Of(err) != outcome.Down || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

// TestHostKilled: five seconds after SIGKILL of the host no plugin is left,
// not even one that is stopped.
func TestHostKilled(t *testing.T) {
	dir := folder(t, "one:puppet", "two:puppet")
	c := exec.Command(filepath.Join(binaries, "host"), dir, "one", "two")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var pids []int
	for len(pids) < 2 && lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the host said %q", lines.Text())
		}
		pids = append(pids, n)
	}
	stop(t, pids[1])
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	for _, p := range pids {
		gone(t, p, 5*time.Second)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	h, err := pluginhost.New(pluginhost.Options{Dir: folder(t, "one:puppet", "two:puppet"), Patience: quick})
	if err != nil {
		t.Fatal(err)
	}
	one, two := pid(t, h, "one"), pid(t, h, "two")
	stop(t, two)
	h.Close()
	gone(t, one, 0)
	gone(t, two, 0)
	_, err = doing(h, "one", "").Profile(t.Context())
	if outcome.Of(err) != outcome.Down || h.Status()[0].State != pluginhost.Closed {
		t.Fatalf("after Close: %v", err)
	}
}
