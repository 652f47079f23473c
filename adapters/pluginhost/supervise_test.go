// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/outcome"
)

// TestHungPluginIsReplaced stops the process three times. Each time three calls
// end with an unknown outcome. Then the host kills the process, and a new
// process answers the next call.
func TestHungPluginIsReplaced(t *testing.T) {
	p := quick
	p.Ping = 100 * time.Millisecond
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), Patience: p})
	for round := range 3 {
		stopped := pid(t, h, "puppet")
		stop(t, stopped)
		for call := range 3 {
			_, err := doing(h, "puppet", "").Profile(within(t, 100*time.Millisecond))
			if outcome.Of(err) != outcome.Unknown {
				t.Fatalf("round %d, call %d: %v", round, call, err)
			}
		}
		gone(t, stopped, hang)
		if fresh := pid(t, h, "puppet"); fresh == stopped {
			t.Fatal("the same process answers")
		}
		if s := h.Status()[0]; s.Hangs != round+1 || s.Starts != round+2 {
			t.Fatalf("round %d: %+v", round, s)
		}
	}
}

// TestSlowProviderIsNoHang: calls end at their deadline because the provider is
// slow. The plugin answers pings, so the host keeps it.
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
			end := time.Now().Add(hang)
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

// TestOneTrialAfterTheCooldown: a plugin in a crash loop is not started during
// the cooldown, and is started once after it.
func TestOneTrialAfterTheCooldown(t *testing.T) {
	looping := func(cooldown time.Duration) *pluginhost.Host {
		p := quick
		p.Crashes, p.Cooldown = 1, cooldown
		h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), Patience: p})
		if _, err := doing(h, "puppet", "exit").Profile(t.Context()); outcome.Of(err) != outcome.Unknown {
			t.Fatalf("a call that ends the process: %v", err)
		}
		for s := h.Status()[0]; s.Crashes == 0; s = h.Status()[0] {
			time.Sleep(time.Millisecond) // until the end of the process is noticed
		}
		return h
	}
	during := looping(time.Hour)
	var o *outcome.Error
	if _, err := doing(during, "puppet", "").Profile(t.Context()); !errors.As(err, &o) || o.Kind != outcome.Down || o.RetryAfter <= 0 {
		t.Fatalf("a call during the cooldown: %v", err)
	}
	after := looping(50 * time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	pid(t, after, "puppet")
	if s := after.Status()[0]; s.State != pluginhost.Running || s.Crashes != 0 || s.Starts != 2 {
		t.Fatalf("status %+v", s)
	}
}

// TestKilledUnderLoad kills the process while calls are in flight. Their outcome
// is unknown, as the provider may have acted. Each process is replaced. There
// are 8 kills, and 40 when TENANTRY_SOAK is set.
func TestKilledUnderLoad(t *testing.T) {
	kills := 8
	if os.Getenv("TENANTRY_SOAK") != "" {
		kills = 40
	}
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
		gone(t, victim, hang)
		killed := time.Now()
		for {
			p, err := doing(h, "puppet", "").Profile(t.Context())
			if err == nil && p.Name != strconv.Itoa(victim) {
				break
			}
			if time.Since(killed) > hang {
				t.Fatalf("no call was answered after a kill: %v", err)
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

// TestKillOnRequest: a kill that was asked for does not count as a crash.
func TestKillOnRequest(t *testing.T) {
	p := quick
	p.Crashes = 2
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), Patience: p})
	for range p.Crashes + 1 {
		if _, err := h.Describe(t.Context(), "puppet"); err != nil {
			t.Fatal(err)
		}
		if err := h.Kill("puppet"); err != nil {
			t.Fatal(err)
		}
	}
	pid(t, h, "puppet")
}

// TestSilentPluginDoesNotStart: a plugin that says nothing is down when its
// start time is over.
func TestSilentPluginDoesNotStart(t *testing.T) {
	p := quick
	p.Start = 300 * time.Millisecond
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "silent:puppet"), Patience: p})
	_, err := doing(h, "silent", "").Profile(within(t, hang))
	if outcome.Of(err) != outcome.Down {
		t.Fatalf("got %v", err)
	}
	if s := h.Status()[0]; !strings.Contains(s.LastError.Error(), "start") {
		t.Fatalf("status %+v", s)
	}
}

func TestCallerDoesNotWaitForASlowStart(t *testing.T) {
	p := quick
	p.Start = 2 * time.Second // the cancelled caller leaves long before
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "silent:puppet"), Patience: p})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := doing(h, "silent", "").Profile(ctx)
	if outcome.Of(err) != outcome.Down || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

// TestHostKilled: after SIGKILL of the host its plugins end, even one that is
// stopped.
func TestHostKilled(t *testing.T) {
	dir := folder(t, "one:puppet", "two:puppet")
	c := exec.Command(testserver.Program(t, "testdata/host"), dir, "one", "two")
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
		gone(t, p, hang)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := quick
	p.Stop = 200 * time.Millisecond // a stopped process uses it up
	h, err := pluginhost.New(pluginhost.Options{Dir: folder(t, "one:puppet", "two:puppet"), Patience: p})
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
