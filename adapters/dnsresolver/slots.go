// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"net/netip"
	"sync"
)

// How many questions may be in flight, so that neither this process nor one
// provider's server is flooded.
// The resolvers are the operator's own, and every read asks them.
const (
	maxInFlight    = 32
	maxPerAddress  = 4
	maxPerResolver = 16
)

// slots hands out permission to ask.
type slots struct {
	all   chan struct{}
	mu    sync.Mutex
	lanes map[netip.AddrPort]*lane
}

type lane struct {
	places chan struct{}
	users  int
}

func newSlots() *slots {
	return &slots{all: make(chan struct{}, maxInFlight), lanes: map[netip.AddrPort]*lane{}}
}

// take waits for a place. The address comes first: who waits for a busy
// server must not hold a place that another server could use.
func (s *slots) take(ctx context.Context, a netip.AddrPort, how manner) (release func(), err error) {
	l := s.enter(a, how)
	if err := place(ctx, l.places); err != nil {
		s.exit(a, l)
		return nil, err
	}
	if err := place(ctx, s.all); err != nil {
		<-l.places
		s.exit(a, l)
		return nil, err
	}
	return func() {
		<-s.all
		<-l.places
		s.exit(a, l)
	}, nil
}

func place(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slots) enter(a netip.AddrPort, how manner) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.lanes[a]
	if !ok {
		places := maxPerAddress
		if how.recurse {
			places = maxPerResolver
		}
		l = &lane{places: make(chan struct{}, places)}
		s.lanes[a] = l
	}
	l.users++
	return l
}

func (s *slots) exit(a netip.AddrPort, l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.lanes, a)
	}
}
