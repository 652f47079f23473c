// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/webhook"
)

// hangingEndpoint is an endpoint that answers only when it is released or the request ends.
type hangingEndpoint struct {
	mu         sync.Mutex
	waiting    int // messages that wait for an answer
	maxWaiting int
	arrived    chan struct{}
	release    chan struct{}
	status     int
}

func newHangingEndpoint(status int) *hangingEndpoint {
	return &hangingEndpoint{arrived: make(chan struct{}, 10_000), release: make(chan struct{}), status: status}
}

func (h *hangingEndpoint) handle(ctx context.Context, _ webhook.Message) webhook.Response {
	h.changeWaiting(1)
	h.arrived <- struct{}{}
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	h.changeWaiting(-1)
	return webhook.Response{StatusCode: h.status}
}

func (h *hangingEndpoint) changeWaiting(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting += n
	h.maxWaiting = max(h.maxWaiting, h.waiting)
}

// awaitMessages waits until n more messages have arrived.
func (h *hangingEndpoint) awaitMessages(n int) {
	for range n {
		<-h.arrived
	}
}

// maxConcurrent returns the largest number of messages that have waited at the same time so far.
func (h *hangingEndpoint) maxConcurrent() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.maxWaiting
}

// TestHangingEndpointsDelayNoOtherEndpoint checks that eight endpoints which stop answering do not
// delay other endpoints, of the same account or of a different one. Each hanging endpoint gets four
// messages at the same time. The test measures no time: it waits until the other endpoints have all
// messages.
func TestHangingEndpointsDelayNoOtherEndpoint(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	hangingAccount, workingAccount := fx.createAccount(t, "hanging"), fx.createAccount(t, "working")
	accepting := newRecorder(200)
	var hang atomic.Bool
	var hanging []*hangingEndpoint
	for range 8 {
		endpoint := newHangingEndpoint(500)
		fx.addWebhook(t, process, hangingAccount, func(ctx context.Context, m webhook.Message) webhook.Response {
			if hang.Load() {
				return endpoint.handle(ctx, m)
			}
			return accepting.handle(ctx, m)
		})
		hanging = append(hanging, endpoint)
	}
	fx.emit(t, hangingAccount, 1)
	fx.fanOut(t, process)
	accepting.awaitMessages(t, 8)
	process.worker.WaitIdle()

	hang.Store(true)
	sameAccount, differentAccount := newRecorder(200), newRecorder(200)
	fx.addWebhook(t, process, hangingAccount, sameAccount.handle)
	fx.addWebhook(t, process, workingAccount, differentAccount.handle)
	fx.emit(t, hangingAccount, 10)
	fx.emit(t, workingAccount, 10)
	fx.fanOut(t, process)
	sameAccount.awaitMessages(t, 10)
	differentAccount.awaitMessages(t, 10)
	for _, endpoint := range hanging {
		endpoint.awaitMessages(webhook.MaxConcurrent)
	}
	// The endpoint of the same account also gets later messages while the eight endpoints still
	// hang.
	fx.emit(t, hangingAccount, 10)
	fx.fanOut(t, process)
	sameAccount.awaitMessages(t, 10)
	for _, endpoint := range hanging {
		if n := endpoint.maxConcurrent(); n != webhook.MaxConcurrent {
			t.Errorf("a hanging endpoint had %d messages at the same time, want %d", n, webhook.MaxConcurrent)
		}
	}
}

// TestFailingEndpointsGetHalfOfTheSlots lets six endpoints fail and then hang. Together they take
// half of the slots of the process. An endpoint of a different account gets all its messages
// meanwhile.
func TestFailingEndpointsGetHalfOfTheSlots(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, func(o *webhooks.Options) { o.Slots = 8 })
	failingAccount, workingAccount := fx.createAccount(t, "failing"), fx.createAccount(t, "working")
	failing, hanging := newRecorder(500), newHangingEndpoint(500)
	var hang bool
	for range 6 {
		fx.addWebhook(t, process, failingAccount, func(ctx context.Context, m webhook.Message) webhook.Response {
			if hang {
				return hanging.handle(ctx, m)
			}
			return failing.handle(ctx, m)
		})
	}
	fx.emit(t, failingAccount, 1)
	fx.fanOut(t, process)
	failing.awaitMessages(t, 6)
	process.worker.WaitIdle()

	hang = true
	fx.emit(t, failingAccount, 5)
	fx.fanOut(t, process)
	hanging.awaitMessages(4) // half of the slots
	working := newRecorder(200)
	fx.addWebhook(t, process, workingAccount, working.handle)
	fx.emit(t, workingAccount, 10)
	fx.fanOut(t, process)
	working.awaitMessages(t, 10)
	if n := hanging.maxConcurrent(); n != 4 {
		t.Errorf("failing endpoints had %d of 8 slots, want 4", n)
	}
}

// TestNewEndpointsThatHangDelayNoProvenEndpoint lets 1,008 endpoints hang at their first messages.
// Each of them gets at most one slot, and together they get at most three quarters of the 1,024
// slots. A proven endpoint therefore gets all its messages meanwhile.
func TestNewEndpointsThatHangDelayNoProvenEndpoint(t *testing.T) {
	fx := newFixture(t)
	process := fx.startProcess(t, nil)
	workingAccount, working, hanging := fx.createAccount(t, "working"), newRecorder(200), newHangingEndpoint(500)
	fx.addWebhook(t, process, workingAccount, working.handle)
	fx.emit(t, workingAccount, 1)
	fx.fanOut(t, process)
	working.awaitMessages(t, 1)
	process.worker.WaitIdle()
	for n := range 112 {
		hangingAccount := fx.createAccount(t, fmt.Sprint("hanging", n))
		for range 9 {
			fx.addWebhook(t, process, hangingAccount, hanging.handle)
		}
		fx.emit(t, hangingAccount, webhook.MaxConcurrent)
	}
	fx.fanOut(t, process)
	const maxUnproven = 1024 * 3 / 4 // 1024 is the default of Options.Slots
	hanging.awaitMessages(maxUnproven)
	fx.emit(t, workingAccount, 10)
	fx.fanOut(t, process)
	working.awaitMessages(t, 10)
	if n := hanging.maxConcurrent(); n != maxUnproven {
		t.Errorf("the new endpoints had %d slots, want %d", n, maxUnproven)
	}
}

// TestProcessesShareTheLimitOfAnEndpoint checks that two processes together send at most four
// messages at the same time to an endpoint. The endpoint has accepted a message of each process, so
// it is proven in both processes.
func TestProcessesShareTheLimitOfAnEndpoint(t *testing.T) {
	fx := newFixture(t)
	firstProcess, secondProcess := fx.startProcess(t, nil), fx.startProcess(t, nil)
	owner := fx.createAccount(t, "a")
	hanging, accepting := newHangingEndpoint(200), newRecorder(200)
	var hang atomic.Bool
	fx.addWebhook(t, firstProcess, owner, func(ctx context.Context, m webhook.Message) webhook.Response {
		if hang.Load() {
			return hanging.handle(ctx, m)
		}
		return accepting.handle(ctx, m)
	})
	for _, p := range []process{firstProcess, secondProcess} {
		fx.emit(t, owner, 1)
		fx.fanOut(t, p)
		accepting.awaitMessages(t, 1)
		p.worker.WaitIdle()
	}
	hang.Store(true)
	fx.emit(t, owner, 20)
	var fanOuts sync.WaitGroup
	for _, p := range []process{firstProcess, secondProcess} {
		fanOuts.Go(func() { fx.fanOut(t, p) })
	}
	fanOuts.Wait()
	hanging.awaitMessages(webhook.MaxConcurrent)
	close(hanging.release)
	hanging.awaitMessages(20 - webhook.MaxConcurrent)
	firstProcess.worker.WaitIdle()
	secondProcess.worker.WaitIdle()
	if n := hanging.maxConcurrent(); n != webhook.MaxConcurrent {
		t.Errorf("the endpoint had %d messages at the same time, want %d", n, webhook.MaxConcurrent)
	}
}

// TestStartedWorkerFansOutEventsAtOnce checks that a started worker fans out the events of its own
// process without waiting for its next poll.
func TestStartedWorkerFansOutEventsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		process := fx.startProcess(t, nil)
		owner := fx.createAccount(t, "a")
		accepting := newRecorder(200)
		fx.addWebhook(t, process, owner, accepting.handle)
		process.worker.Start()
		for range 5 {
			start := time.Now()
			fx.emit(t, owner, 1)
			accepting.awaitMessages(t, 1)
			if elapsed := time.Since(start); elapsed > time.Second {
				t.Errorf("the event arrived after %s, want at most a second, which is less than the interval of the polls", elapsed)
			}
		}
		process.worker.WaitIdle()
		time.Sleep(time.Minute) // in fake time, until the pause after the last batch of results has ended
	})
}
