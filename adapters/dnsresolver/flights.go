// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// flights makes one read out of several of the same domain at the same time.
// A read belongs to nobody in particular: it goes on while anyone waits for
// it and ends with the last one who leaves.
type flights struct {
	mu  sync.Mutex
	now map[string]*flight
}

type flight struct {
	done    chan struct{}
	sight   dns.Sight
	waiting int
	cancel  context.CancelFunc
}

func (f *flights) do(ctx context.Context, name string, limit time.Duration, read func(context.Context, string) dns.Sight) (dns.Sight, error) {
	if err := ctx.Err(); err != nil {
		return dns.Sight{}, err
	}
	fl := f.join(ctx, name, limit, read)
	defer f.leave(name, fl)
	select {
	case <-fl.done:
		return clone(fl.sight), nil
	case <-ctx.Done():
		return dns.Sight{}, ctx.Err()
	}
}

func (f *flights) join(ctx context.Context, name string, limit time.Duration, read func(context.Context, string) dns.Sight) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.now[name]; ok {
		fl.waiting++
		return fl
	}
	if f.now == nil {
		f.now = map[string]*flight{}
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	fl := &flight{done: make(chan struct{}), waiting: 1, cancel: cancel}
	f.now[name] = fl
	go func() {
		defer cancel()
		fl.sight = read(own, name)
		f.remove(name, fl)
		close(fl.done)
	}()
	return fl
}

func (f *flights) leave(name string, fl *flight) {
	f.mu.Lock()
	fl.waiting--
	last := fl.waiting == 0
	if last && f.now[name] == fl {
		delete(f.now, name) // who comes now starts anew instead of joining a read that ends
	}
	f.mu.Unlock()
	if last {
		fl.cancel()
	}
}

func (f *flights) remove(name string, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now[name] == fl {
		delete(f.now, name)
	}
}

// clone lets each waiter do with its answer what it likes.
func clone(s dns.Sight) dns.Sight {
	s.Servers = slices.Clone(s.Servers)
	s.Sets = slices.Clone(s.Sets)
	for i := range s.Sets {
		s.Sets[i].Values = slices.Clone(s.Sets[i].Values)
	}
	return s
}
