// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenantry/tenantry/ports"
)

// Local is the queue of one process. Nothing of it survives the process: the
// sweep of its start finds what was due.
type Local struct {
	o     Options
	ctx   context.Context // of handlers
	cut   context.CancelFunc
	kinds kinds

	mu      sync.Mutex
	plan    plan
	timer   *time.Timer // of the next wake-up that is not due yet
	working bool
	idle    chan struct{} // closed by the last handler once working has ended
}

// NewLocal makes a queue that is empty.
func NewLocal(o Options) (*Local, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Local{o: o, plan: newPlan(o.AtOnce), idle: make(chan struct{})}
	l.ctx, l.cut = context.WithCancel(context.Background())
	return l, nil
}

// Wake implements ports.Queue.
func (l *Local) Wake(ctx context.Context, wakeups ...ports.Wakeup) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range wakeups {
		if w.At.IsZero() {
			w.At = time.Now()
		}
		l.plan.add(&entry{Wakeup: caused(ctx, w)})
	}
	l.begin()
	return nil
}

// Start implements ports.Worker.
func (l *Local) Start(ctx context.Context, w ports.Work) error {
	// Without an id of its own no run of a periodic begins before the last ended.
	all, err := kindsOf(l, w, func(time.Time) string { return "" })
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.kinds != nil {
		l.mu.Unlock()
		return errors.New("queue: started twice")
	}
	l.kinds, l.working = all, true
	l.mu.Unlock()
	return l.Wake(ctx, first(w)...)
}

// Backlog implements ports.Worker.
func (l *Local) Backlog(ctx context.Context) ([]ports.Backlog, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.plan.backlog(time.Now()), nil
}

// begin runs what is due as far as there is room, and comes back when more is
// due. The caller holds the lock.
func (l *Local) begin() {
	if !l.working {
		return
	}
	now := time.Now()
	for e := l.plan.take(now); e != nil; e = l.plan.take(now) {
		go l.run(e)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if at, ok := l.plan.nextAt(); ok {
		l.timer = time.AfterFunc(time.Until(at), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.begin()
		})
	}
}

func (l *Local) run(e *entry) {
	again, retry := l.o.call(l.ctx, l.kinds, e.Wakeup, e.failures)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan.done(e)
	if retry {
		e.failures++
		e.At = time.Now().Add(again)
		l.plan.add(e)
	}
	l.begin()
	if !l.working && l.plan.running == 0 {
		close(l.idle)
	}
}

// Close frees nothing.
func (l *Local) Close(context.Context) error { return nil }

// Stop implements ports.Worker.
func (l *Local) Stop(ctx context.Context) error {
	l.mu.Lock()
	was, running := l.working, l.plan.running
	l.working = false
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	defer l.cut()
	if !was || running == 0 {
		return nil
	}
	soft, cancel := cutBefore(ctx)
	defer cancel()
	select {
	case <-l.idle:
		return nil
	case <-soft.Done():
		l.cut()
	}
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.plan.running == 0 {
		return nil
	}
	return fmt.Errorf("queue: %d handlers did not end in time", l.plan.running)
}
