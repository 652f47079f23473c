// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"sync"
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
	return &hanging{began: make(chan struct{}, 1000), release: make(chan struct{}), status: status}
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

// TestHangingEndpointsDelayNoOther checks, by order and not by time, that 20 endpoints which never
// answer hold back neither the other endpoint of their account nor that of a different account.
func TestHangingEndpointsDelayNoOther(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, nil)
	bad, good := f.account(t, "bad"), f.account(t, "good")
	var dead []*hanging
	for range 8 {
		h := newHanging(500)
		f.webhook(t, p, bad, h.handle)
		dead = append(dead, h)
	}
	working, other := newRecorder(200), newRecorder(200)
	f.webhook(t, p, bad, working.handle)
	f.webhook(t, p, good, other.handle)
	f.emit(t, bad, 10)
	f.emit(t, good, 10)
	f.fanOut(t, p)
	working.wait(t, 10)
	other.wait(t, 10)
	for _, h := range dead {
		for range webhook.MaxConcurrent {
			<-h.began
		}
		h.mu.Lock()
		if h.highest != webhook.MaxConcurrent || h.now != webhook.MaxConcurrent {
			t.Errorf("%d messages at once, %d now", h.highest, h.now)
		}
		h.mu.Unlock()
	}
	// More events reach the working endpoints while the others still hang.
	f.emit(t, bad, 10)
	f.fanOut(t, p)
	working.wait(t, 10)
	for _, h := range dead {
		close(h.release)
	}
	p.worker.WaitIdle()
}

// TestFailingEndpointsGetHalfOfTheSlots fills a process with endpoints that hang and then fail. Once
// they failed, they take one slot each and at most half of all.
func TestFailingEndpointsGetHalfOfTheSlots(t *testing.T) {
	f := newFixture(t)
	p := f.process(t, func(o *webhooks.Options) { o.Slots = 8 })
	bad, good := f.account(t, "bad"), f.account(t, "good")
	failing := newRecorder(500)
	var dead []*hanging
	var hang bool
	for range 6 {
		h := newHanging(500)
		dead = append(dead, h)
		f.webhook(t, p, bad, func(ctx context.Context, m webhook.Message) webhook.Response {
			if hang {
				return h.handle(ctx, m)
			}
			return failing.handle(ctx, m)
		})
	}
	f.emit(t, bad, 1)
	f.fanOut(t, p)
	failing.wait(t, 6)
	p.worker.WaitIdle()
	f.queue.Take()

	hang = true
	f.emit(t, bad, 5)
	f.fanOut(t, p)
	if used := p.worker.Used(); used != 4 {
		t.Errorf("failing endpoints have %d of 8 slots", used)
	}
	if waiting := f.queue.Take(); len(waiting) != 2 {
		t.Errorf("%d webhooks wait for a slot", len(waiting))
	}
	working := newRecorder(200)
	f.webhook(t, p, good, working.handle)
	f.emit(t, good, 10)
	f.fanOut(t, p)
	working.wait(t, 10)
	for _, h := range dead {
		close(h.release)
	}
	p.worker.WaitIdle()
}

// TestProcessesShareTheLimitOfAnEndpoint checks that two processes together send at most four
// messages at once to an endpoint.
func TestProcessesShareTheLimitOfAnEndpoint(t *testing.T) {
	f := newFixture(t)
	one, two := f.process(t, nil), f.process(t, nil)
	owner := f.account(t, "a")
	h := newHanging(200)
	f.webhook(t, one, owner, h.handle)
	f.emit(t, owner, 20)
	var both sync.WaitGroup
	for _, p := range []process{one, two} {
		both.Go(func() { f.fanOut(t, p) })
	}
	both.Wait()
	for range webhook.MaxConcurrent {
		<-h.began
	}
	close(h.release)
	one.worker.WaitIdle()
	two.worker.WaitIdle()
	if h.highest != webhook.MaxConcurrent {
		t.Errorf("%d messages at once", h.highest)
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
