// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/ports"
)

// Local is a queue in the memory of one process. Wake-ups are lost when the process ends. At the
// next start, sweeps of the database find the due jobs again.
type Local struct {
	options        Options
	handlerCtx     context.Context
	cancelHandlers context.CancelFunc
	handlers       handlers

	mu        sync.Mutex // guards the fields below
	scheduler scheduler
	timer     *time.Timer   // fires when the next wake-up becomes due
	isWorking bool          // between Start and Stop
	idle      chan struct{} // closed when the last handler has returned after Stop
}

// NewLocal returns an empty queue. It fails if an option is out of range.
func NewLocal(o Options) (*Local, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Local{options: o, scheduler: newScheduler(o.MaxHandlers), idle: make(chan struct{})}
	l.handlerCtx, l.cancelHandlers = context.WithCancel(context.Background())
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
		l.scheduler.add(&entry{Wakeup: withTrace(ctx, w)})
	}
	l.startDue()
	return nil
}

// Start implements ports.Worker.
func (l *Local) Start(ctx context.Context, w ports.Work) error {
	byKind, err := newHandlers(l, w)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.handlers != nil {
		l.mu.Unlock()
		return errors.New("queue: started twice")
	}
	l.handlers, l.isWorking = byKind, true
	l.mu.Unlock()
	return l.Wake(ctx, startupWakeups(w)...)
}

// Backlog implements ports.Worker.
func (l *Local) Backlog(ctx context.Context) ([]ports.Backlog, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.scheduler.backlog(time.Now()), nil
}

// startDue starts the handlers of due wake-ups, as many as the limits allow. It sets the timer for
// the next wake-up. The caller holds the lock.
func (l *Local) startDue() {
	if !l.isWorking {
		return
	}
	now := time.Now()
	for e := l.scheduler.take(now); e != nil; e = l.scheduler.take(now) {
		panics.Go(func() { l.run(e) }, l.options.logPanic)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if at, ok := l.scheduler.nextAt(); ok {
		l.timer = panics.AfterFunc(time.Until(at), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.startDue()
		}, l.options.logPanic)
	}
}

func (l *Local) run(due *entry) {
	result := l.options.handle(l.handlerCtx, l.handlers, due.Wakeup, due.failures)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scheduler.handlerReturned(due)
	if result.shouldRetry {
		due.failures = result.failures
		due.At = time.Now().Add(result.delay)
		l.scheduler.add(due)
	}
	l.startDue()
	if !l.isWorking && l.scheduler.running == 0 {
		close(l.idle)
	}
}

// Close does nothing, because Local holds no connections.
func (l *Local) Close(context.Context) error { return nil }

// Stop implements ports.Worker.
func (l *Local) Stop(ctx context.Context) error {
	l.mu.Lock()
	wasWorking, running := l.isWorking, l.scheduler.running
	l.isWorking = false
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	defer l.cancelHandlers()
	if !wasWorking || running == 0 {
		return nil
	}
	grace, cancel := graceContext(ctx)
	defer cancel()
	select {
	case <-l.idle:
		return nil
	case <-grace.Done():
		l.cancelHandlers()
	}
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scheduler.running == 0 {
		return nil
	}
	return fmt.Errorf("queue: %d handlers did not end in time", l.scheduler.running)
}
