// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"maps"
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
	now map[route]*flight
}

// route is what makes two reads the same.
type route struct{ name, wanted string }

type flight struct {
	done    chan struct{}
	sight   dns.Sight
	waiting int
	cancel  context.CancelFunc
}

func (f *flights) do(ctx context.Context, to route, limit time.Duration, read func(context.Context) dns.Sight) (dns.Sight, error) {
	if err := ctx.Err(); err != nil {
		return dns.Sight{}, err
	}
	fl := f.join(ctx, to, limit, read)
	defer f.leave(to, fl)
	select {
	case <-fl.done:
		return clone(fl.sight), nil
	case <-ctx.Done():
		return dns.Sight{}, ctx.Err()
	}
}

func (f *flights) join(ctx context.Context, to route, limit time.Duration, read func(context.Context) dns.Sight) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.now[to]; ok {
		fl.waiting++
		return fl
	}
	if f.now == nil {
		f.now = map[route]*flight{}
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	fl := &flight{done: make(chan struct{}), waiting: 1, cancel: cancel}
	f.now[to] = fl
	go func() {
		defer cancel()
		fl.sight = read(own)
		f.remove(to, fl)
		close(fl.done)
	}()
	return fl
}

func (f *flights) leave(to route, fl *flight) {
	f.mu.Lock()
	fl.waiting--
	last := fl.waiting == 0
	if last && f.now[to] == fl {
		delete(f.now, to) // who comes now starts anew instead of joining a read that ends
	}
	f.mu.Unlock()
	if last {
		fl.cancel()
	}
}

func (f *flights) remove(to route, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now[to] == fl {
		delete(f.now, to)
	}
}

// clone lets each waiter do with its answer what it likes.
func clone(s dns.Sight) dns.Sight {
	s.Servers, s.Delegation, s.Warnings = slices.Clone(s.Servers), slices.Clone(s.Delegation), slices.Clone(s.Warnings)
	s.Sets = slices.Clone(s.Sets)
	for i := range s.Sets {
		s.Sets[i].Values = slices.Clone(s.Sets[i].Values)
	}
	s.Beyond = dns.Beyond{
		SPF: maps.Clone(s.Beyond.SPF), Above: maps.Clone(s.Beyond.Above),
		Exchanges: maps.Clone(s.Beyond.Exchanges), Keys: maps.Clone(s.Beyond.Keys),
	}
	return s
}
