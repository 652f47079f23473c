// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/wire"
)

// checkStart fails if two starts are too slow. After one slow start it tries again, because the
// machine may have caused the delay.
func checkStart(t T, b Binary) {
	var times [2]time.Duration
	for i := range times {
		start := time.Now()
		b.Start(t)
		if times[i] = time.Since(start); times[i] <= hostStartTimeout {
			return
		}
	}
	t.Errorf("the plugin took %s and %s to start; the service kills a plugin that is not ready %s after its start", times[0], times[1], hostStartTimeout)
}

func checkExit(t T, b Binary) {
	p := b.Start(t)
	start := time.Now()
	p.Stop(stopTimeout)
	if time.Since(start) >= stopTimeout {
		t.Errorf("%s after the end of its standard input the plugin had not exited, and was killed; the host kills it after %s", stopTimeout, hostStopTimeout)
	}
}

func checkShutdown(t T, b Binary) {
	p := b.Start(t)
	err := p.Shutdown(callContext(t))
	select {
	case <-p.Exited():
	case <-time.After(stopTimeout):
		t.Errorf("%s after the call of plugin.GRPCController/Shutdown the plugin had not exited; the error of the call was %v", stopTimeout, err)
	}
}

// signalTimeout is how long checkSignals waits after a signal. A plugin that does not ignore the
// signal usually ends at once.
const signalTimeout = time.Second

func checkSignals(t T, b Binary) {
	p := b.Start(t)
	for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		_ = syscall.Kill(-p.PID(), signal) // to all processes of the plugin
		select {
		case <-p.Exited():
			t.Fatalf("%s ended the plugin (%s); it must ignore this signal, because a service manager sends it to all processes of a service, and the host still needs its plugins", name, p.HowExited())
		case <-time.After(signalTimeout):
		}
	}
	describe(t, p)
}

func checkOnlyItsHost(t T, b Binary) {
	answered, err := b.Start(t).AnswersStrangers(callContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, connection := range answered {
		t.Errorf("the plugin answers a connection %s; it must require a client certificate, with PLUGIN_CLIENT_CERT as the only trusted root", connection)
	}
}

// healthCheck is the last part of a check's id, and healthProves is what the check proves. Each
// kind of plugin has this check.
const (
	healthCheck  = "health"
	healthProves = "the health check is answered while many calls wait for the provider"
)

// waitingCalls is how many calls wait for the provider during a health check.
const waitingCalls = 64

// healthTimeout is how long a plugin may take to answer the health check. The host waits only one
// second, but the machine of the check may be slow. The tests of this package shorten
// healthTimeout, because one of their plugins never answers.
var healthTimeout = time.Minute

// checkHealth makes many calls to a provider that never answers, and then a health check. requests
// is the number of requests that the provider has received.
func checkHealth(t T, p *wire.Process, call call, requests *atomic.Int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var calls panics.Group
	defer calls.Wait()
	defer cancel()
	before := requests.Load()
	for range waitingCalls {
		calls.Go(func() { _ = call(ctx) })
	}
	// Calls of a plugin may share a request or wait for a thread. So the loop ends after
	// waitingCalls requests, or when some requests have begun and none began in the last second.
	for last := before; ; last = requests.Load() {
		select {
		case <-t.Context().Done():
			t.Fatalf("the check ended before the plugin had called its provider")
		case <-time.After(time.Second):
		}
		if n := requests.Load(); n-before >= waitingCalls || n > before && n == last {
			break
		}
	}
	healthCtx, stop := context.WithTimeout(t.Context(), healthTimeout)
	defer stop()
	if err := p.Ping(healthCtx); err != nil {
		t.Errorf("while %d calls waited, the health check did not succeed within %s: %v; answer it outside the threads of the calls, because the host kills a plugin that does not answer", waitingCalls, healthTimeout, err)
	}
}
