// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/webhook"
)

// hanging is an endpoint that answers only when it is released.
type hanging struct {
	mu      sync.Mutex
	now     int // messages that wait for an answer
	highest int
	began   chan struct{}
	release chan struct{}
	status  int
}

func newHanging(status int) *hanging {
	return &hanging{began: make(chan struct{}, 10_000), release: make(chan struct{}), status: status}
}

func (h *hanging) handle(ctx context.Context, _ webhook.Message) webhook.Response {
	h.count(1)
	h.began <- struct{}{}
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	h.count(-1)
	return webhook.Response{StatusCode: h.status}
}

func (h *hanging) count(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += n
	h.highest = max(h.highest, h.now)
}

// wait waits until n more messages have arrived.
func (h *hanging) wait(n int) {
	for range n {
		<-h.began
	}
}

// maxConcurrent returns how many messages have waited at the same time.
func (h *hanging) maxConcurrent() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.highest
}

// TestHangingEndpointsDelayNoOther checks that eight endpoints which stop answering hold back no
// other endpoint, of the same account or of a different one. Each hanging endpoint gets four
// messages at the same time. The test compares the order of events and measures no time.
func TestHangingEndpointsDelayNoOther(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	bad, good := f.account(t, "bad"), f.account(t, "good")
	accepting := newRecorder(200)
	var hang atomic.Bool
	var dead []*hanging
	for range 8 {
		h := newHanging(500)
		f.webhook(t, p, bad, func(ctx context.Context, m webhook.Message) webhook.Response {
			if hang.Load() {
				return h.handle(ctx, m)
			}
			return accepting.handle(ctx, m)
		})
		dead = append(dead, h)
	}
	f.emit(t, bad, 1)
	f.fanOut(t, p)
	accepting.wait(t, 8)
	p.worker.WaitIdle()

	hang.Store(true)
	working, other := newRecorder(200), newRecorder(200)
	f.webhook(t, p, bad, working.handle)
	f.webhook(t, p, good, other.handle)
	f.emit(t, bad, 10)
	f.emit(t, good, 10)
	f.fanOut(t, p)
	working.wait(t, 10)
	other.wait(t, 10)
	for _, h := range dead {
		h.wait(webhook.MaxConcurrent)
	}
	// More events reach the working endpoints while the others still hang.
	f.emit(t, bad, 10)
	f.fanOut(t, p)
	working.wait(t, 10)
	for _, h := range dead {
		if n := h.maxConcurrent(); n != webhook.MaxConcurrent {
			t.Errorf("%d messages at the same time", n)
		}
	}
}

// TestFailingEndpointsGetHalfOfTheSlots fills the slots of a process with endpoints that hang and
// then fail. After their failure, each takes one slot, and together they take at most half of all
// slots.
func TestFailingEndpointsGetHalfOfTheSlots(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, func(o *webhooks.Options) { o.Slots = 8 })
	bad, good := f.account(t, "bad"), f.account(t, "good")
	failing, dead := newRecorder(500), newHanging(500)
	var hang bool
	for range 6 {
		f.webhook(t, p, bad, func(ctx context.Context, m webhook.Message) webhook.Response {
			if hang {
				return dead.handle(ctx, m)
			}
			return failing.handle(ctx, m)
		})
	}
	f.emit(t, bad, 1)
	f.fanOut(t, p)
	failing.wait(t, 6)
	p.worker.WaitIdle()

	hang = true
	f.emit(t, bad, 5)
	f.fanOut(t, p)
	dead.wait(4)
	working := newRecorder(200)
	f.webhook(t, p, good, working.handle)
	f.emit(t, good, 10)
	f.fanOut(t, p)
	working.wait(t, 10)
	if n := dead.maxConcurrent(); n != 4 {
		t.Errorf("failing endpoints had %d of 8 slots", n)
	}
}

// TestNewEndpointsThatHangDelayNoOther lets 1,008 endpoints hang at their first messages. Each gets
// one slot, and together they get at most three quarters of all slots. A proven endpoint therefore
// gets all its messages meanwhile.
func TestNewEndpointsThatHangDelayNoOther(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	good, proven, dead := f.account(t, "good"), newRecorder(200), newHanging(500)
	f.webhook(t, p, good, proven.handle)
	f.emit(t, good, 1)
	f.fanOut(t, p)
	proven.wait(t, 1)
	p.worker.WaitIdle()
	for n := range 112 {
		bad := f.account(t, fmt.Sprint("bad", n))
		for range 9 {
			f.webhook(t, p, bad, dead.handle)
		}
		f.emit(t, bad, webhook.MaxConcurrent)
	}
	f.fanOut(t, p)
	const most = 1024 * 3 / 4
	dead.wait(most)
	f.emit(t, good, 10)
	f.fanOut(t, p)
	proven.wait(t, 10)
	if n := dead.maxConcurrent(); n != most {
		t.Errorf("endpoints that are not proven had %d slots", n)
	}
}

// TestProcessesShareTheLimitOfAnEndpoint checks that two processes together send at most four
// messages at the same time to an endpoint that is proven in both.
func TestProcessesShareTheLimitOfAnEndpoint(t *testing.T) {
	f := newFixture(t)
	one, two := f.process(t, nil), f.process(t, nil)
	owner := f.account(t, "a")
	h, accepting := newHanging(200), newRecorder(200)
	var hang atomic.Bool
	f.webhook(t, one, owner, func(ctx context.Context, m webhook.Message) webhook.Response {
		if hang.Load() {
			return h.handle(ctx, m)
		}
		return accepting.handle(ctx, m)
	})
	for _, p := range []process{one, two} {
		f.emit(t, owner, 1)
		f.fanOut(t, p)
		accepting.wait(t, 1)
		p.worker.WaitIdle()
	}
	hang.Store(true)
	f.emit(t, owner, 20)
	var both sync.WaitGroup
	for _, p := range []process{one, two} {
		both.Go(func() { f.fanOut(t, p) })
	}
	both.Wait()
	h.wait(webhook.MaxConcurrent)
	close(h.release)
	h.wait(20 - webhook.MaxConcurrent)
	one.worker.WaitIdle()
	two.worker.WaitIdle()
	if n := h.maxConcurrent(); n != webhook.MaxConcurrent {
		t.Errorf("%d messages at the same time", n)
	}
}

// TestEventsAreFannedOutWithoutAPoll checks that the fan-out of Start is triggered by a commit.
func TestEventsAreFannedOutWithoutAPoll(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	owner := f.account(t, "a")
	r := newRecorder(200)
	f.webhook(t, p, owner, r.handle)
	p.worker.Start()
	for range 5 {
		f.emit(t, owner, 1)
		r.wait(t, 1)
	}
}
