// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/outcome"
)

// TestHungPluginIsReplaced suspends the process three times. Each time three calls end with an
// unknown outcome. Then the host kills the process, and a new process answers the next call.
func TestHungPluginIsReplaced(t *testing.T) {
	policy := fastRestart
	policy.PingTimeout = 100 * time.Millisecond
	host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet"), Supervision: policy})
	for round := range 3 {
		suspendedPID := processID(t, host, "puppet")
		suspend(t, suspendedPID)
		for call := range 3 {
			_, err := tenantOf(host, "puppet", "").Profile(withTimeout(t, 100*time.Millisecond))
			if outcome.KindOf(err) != outcome.Unknown {
				t.Fatalf("round %d, call %d: %v, want an error of the kind unknown", round, call, err)
			}
		}
		waitForExit(t, suspendedPID, testTimeout)
		if newPID := processID(t, host, "puppet"); newPID == suspendedPID {
			t.Fatalf("round %d: the killed process %d answers", round, suspendedPID)
		}
		if s := host.Status()[0]; s.Hangs != round+1 || s.Starts != round+2 {
			t.Fatalf("round %d: %+v, want %d hangs and %d starts", round, s, round+1, round+2)
		}
		waitForLine(t, logged, `"plugin does not answer and is killed"`, `"plugin":"puppet"`, fmt.Sprintf(`"pid":%d,"calls":3`, suspendedPID))
		waitForLine(t, logged, `"plugin ended`, `"plugin":"puppet"`, fmt.Sprintf(`"pid":%d,"exit":"signal: killed"`, suspendedPID))
	}
}

// TestPluginOfASlowProviderIsKept checks that calls which end at their deadline do not kill a
// plugin that passes health checks.
func TestPluginOfASlowProviderIsKept(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet")})
	firstPID := processID(t, host, "puppet")
	for range 6 {
		if _, err := tenantOf(host, "puppet", "hang").Profile(withTimeout(t, 50*time.Millisecond)); outcome.KindOf(err) != outcome.Unknown {
			t.Fatalf("got %v, want an error of the kind unknown", err)
		}
	}
	if processID(t, host, "puppet") != firstPID {
		t.Fatal("a healthy plugin was replaced")
	}
}

func TestCrashLoopStopsRestarts(t *testing.T) {
	for _, tc := range []struct{ name, plugin, misbehaviour, wantReason string }{
		{"dies at its start", "crashes:puppet", "", "; the process had ended: exit status 3"},
		{"dies before it describes itself", "quitter:hostile", "", "; the process had ended: exit status 5"},
		{"dies in its first call", "puppet:puppet", "exit", "ended before it answered a call: exit status 4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy := fastRestart
			policy.Cooldown = time.Hour // does not end during the test
			host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, tc.plugin), Supervision: policy})
			name, _, _ := strings.Cut(tc.plugin, ":")
			deadline := time.Now().Add(testTimeout)
			var callErr *outcome.Error
			for callErr == nil || callErr.Cause != "plugin_crash_loop" {
				_, err := tenantOf(host, name, tc.misbehaviour).Profile(t.Context())
				if !errors.As(err, &callErr) || time.Now().After(deadline) {
					t.Fatalf("got %v, want the cause plugin_crash_loop; status %+v", err, host.Status())
				}
				if callErr.Kind == outcome.Down {
					wait, cancel := context.WithTimeout(t.Context(), min(callErr.RetryAfter, time.Second))
					<-wait.Done()
					cancel()
				}
			}
			if callErr.Kind != outcome.Down || callErr.RetryAfter < 30*time.Minute {
				t.Fatalf("in the crash loop: %+v, want an error of the kind down that can be retried after the cooldown", callErr)
			}
			s := host.Status()[0]
			if s.State != pluginhost.CrashLoop || s.ConsecutiveFailures != 5 || s.LastError == nil || s.PID != 0 {
				t.Fatalf("status %+v, want a crash loop after 5 failures, and no process", s)
			}
			if countLines(logged, `"plugin failed"`, `"plugin":"`+name+`"`, tc.wantReason, `"crash_loop":true`) != 1 {
				t.Fatalf("the log does not report the crash loop:\n%s", logged)
			}
		})
	}
}

// TestPluginInCrashLoopStartsOnceAfterTheCooldown checks that a plugin in a crash loop is not
// started during the cooldown, and is started once after it.
func TestPluginInCrashLoopStartsOnceAfterTheCooldown(t *testing.T) {
	crashLooping := func(cooldown time.Duration) *pluginhost.Host {
		policy := fastRestart
		policy.CrashLimit, policy.Cooldown = 1, cooldown
		host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet"), Supervision: policy})
		if _, err := tenantOf(host, "puppet", "exit").Profile(t.Context()); outcome.KindOf(err) != outcome.Unknown {
			t.Fatalf("a call that ends the process: %v, want an error of the kind unknown", err)
		}
		for s := host.Status()[0]; s.ConsecutiveFailures == 0; s = host.Status()[0] {
			time.Sleep(time.Millisecond) // until the exit is recorded
		}
		return host
	}
	coolingHost := crashLooping(time.Hour)
	var callErr *outcome.Error
	if _, err := tenantOf(coolingHost, "puppet", "").Profile(t.Context()); !errors.As(err, &callErr) || callErr.Kind != outcome.Down || callErr.RetryAfter <= 0 {
		t.Fatalf("a call during the cooldown: %v, want an error of the kind down with a time to retry", err)
	}
	cooledHost := crashLooping(50 * time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	requireRunning(t, cooledHost, "puppet")
	if s := cooledHost.Status()[0]; s.State != pluginhost.Running || s.ConsecutiveFailures != 0 || s.Starts != 2 {
		t.Fatalf("status %+v, want a running process after 2 starts and no failure", s)
	}
}

// TestProcessKilledUnderLoadIsReplaced kills the process while calls are in progress, 8 times, or
// 40 times when TENANTRY_SOAK is set. A call that the kill interrupts has an unknown outcome,
// because the provider may have acted. Each killed process is replaced.
func TestProcessKilledUnderLoadIsReplaced(t *testing.T) {
	kills := 8
	if soak.Enabled() {
		kills = 40
	}
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet")})
	ctx, stopLoad := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var answered, unknown atomic.Int64
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				_, err := tenantOf(host, "puppet", "").Profile(context.WithoutCancel(ctx))
				switch outcome.KindOf(err) {
				case 0:
					answered.Add(1)
				case outcome.Unknown:
					unknown.Add(1)
				default:
					t.Errorf("a call to a killed plugin: %v, want no error or one of the kind unknown", err)
				}
			}
		})
	}
	for range kills {
		killedPID := processID(t, host, "puppet")
		sendSignal(t, killedPID, unix.SIGKILL)
		waitForExit(t, killedPID, testTimeout)
		killedAt := time.Now()
		for {
			p, err := tenantOf(host, "puppet", "").Profile(t.Context())
			if err == nil && p.Name != strconv.Itoa(killedPID) {
				break
			}
			if time.Since(killedAt) > testTimeout {
				t.Fatalf("no call was answered within %s after a kill: %v", testTimeout, err)
			}
		}
	}
	stopLoad()
	callers.Wait()
	s := host.Status()[0]
	if s.Starts != kills+1 || s.State != pluginhost.Running {
		t.Fatalf("status %+v, want a running process after %d starts", s, kills+1)
	}
	t.Logf("%d answered, %d unknown", answered.Load(), unknown.Load())
}

// TestKillIsNotACrash checks that Kill does not count as a crash, and that the log has the signal.
func TestKillIsNotACrash(t *testing.T) {
	policy := fastRestart
	policy.CrashLimit = 2
	host, logged := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet"), Supervision: policy})
	for range policy.CrashLimit + 1 {
		if _, err := host.Describe(t.Context(), "puppet"); err != nil {
			t.Fatal(err)
		}
		if err := host.Kill("puppet"); err != nil {
			t.Fatal(err)
		}
	}
	requireRunning(t, host, "puppet")
	if exits := countLines(logged, `"plugin ended`, `"plugin":"puppet"`, `"exit":"signal: killed"`); exits != policy.CrashLimit+1 {
		t.Errorf("the log reports %d exits, want %d:\n%s", exits, policy.CrashLimit+1, logged)
	}
}

// TestStartTimesOut checks that calls to a plugin fail with outcome.Down if the plugin prints no
// handshake within StartTimeout.
func TestStartTimesOut(t *testing.T) {
	policy := fastRestart
	policy.StartTimeout = 300 * time.Millisecond
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "silent:puppet"), Supervision: policy})
	_, err := tenantOf(host, "silent", "").Profile(withTimeout(t, testTimeout))
	if outcome.KindOf(err) != outcome.Down {
		t.Fatalf("got %v, want an error of the kind down", err)
	}
	if s := host.Status()[0]; !strings.Contains(s.LastError.Error(), "start") {
		t.Fatalf("status %+v, want an error about the start", s)
	}
}

func TestCancelledCallerDoesNotWaitForTheStart(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "silent:puppet")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tenantOf(host, "silent", "").Profile(ctx)
	if outcome.KindOf(err) != outcome.Down || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want an error of the kind down because of the cancelled context", err)
	}
}

// TestPluginsExitWhenTheHostIsKilled checks that two plugins exit after a SIGKILL of their host.
// One of them is suspended.
func TestPluginsExitWhenTheHostIsKilled(t *testing.T) {
	dir := pluginDir(t, "active:puppet", "suspended:puppet")
	hostCommand := exec.Command(testserver.Program(t, "testdata/host"), dir, "active", "suspended")
	stdout, err := hostCommand.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hostCommand.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	var pids []int
	for len(pids) < 2 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the host printed %q, want the id of a process", lines.Text())
		}
		pids = append(pids, pid)
	}
	suspend(t, pids[1])
	if err := hostCommand.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = hostCommand.Wait()
	for _, pid := range pids {
		waitForExit(t, pid, testTimeout)
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	defer leaks.Verify(t)()
	policy := fastRestart
	policy.StopGrace = 200 * time.Millisecond // a suspended process exits only when it is killed
	host, err := pluginhost.New(pluginhost.Options{Dir: pluginDir(t, "active:puppet", "suspended:puppet"), Supervision: policy})
	if err != nil {
		t.Fatal(err)
	}
	activePID, suspendedPID := processID(t, host, "active"), processID(t, host, "suspended")
	suspend(t, suspendedPID)
	host.Close()
	waitForExit(t, activePID, 0)
	waitForExit(t, suspendedPID, 0)
	_, err = tenantOf(host, "active", "").Profile(t.Context())
	if outcome.KindOf(err) != outcome.Down || host.Status()[0].State != pluginhost.Closed {
		t.Fatalf("a call after Close: %v, status %+v, want an error of the kind down and a closed plugin", err, host.Status()[0])
	}
}

// TestCloseDoesNotWaitForAStartingProcess closes the host while a plugin does not complete its
// start.
func TestCloseDoesNotWaitForAStartingProcess(t *testing.T) {
	policy := fastRestart
	policy.StartTimeout = time.Hour
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "silent:puppet"), Supervision: policy})
	callErr := make(chan error, 1)
	go func() {
		_, err := tenantOf(host, "silent", "").Profile(t.Context())
		callErr <- err
	}()
	for host.Status()[0].State != pluginhost.Starting {
		time.Sleep(time.Millisecond) // until the start has begun
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		host.Close()
	}()
	select {
	case <-closed:
	case <-time.After(testTimeout):
		t.Fatalf("Close did not return within %s", testTimeout)
	}
	if err := <-callErr; outcome.KindOf(err) != outcome.Down {
		t.Errorf("the call that waited for the start: %v, want an error of the kind down", err)
	}
}
