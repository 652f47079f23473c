// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"net/netip"
	"sync"
)

// Limits on concurrent questions, so that neither this process nor a provider's server is
// overloaded. Resolvers have a higher limit: they belong to the operator, and each read asks them.
const (
	maxInFlight    = 32
	maxPerAddress  = 4
	maxPerResolver = 16
)

// slots limits the concurrent questions, in total and per server address.
type slots struct {
	total      chan struct{}
	mu         sync.Mutex
	perAddress map[netip.AddrPort]*addressSlots
}

type addressSlots struct {
	sem   chan struct{}
	users int
}

func newSlots() *slots {
	return &slots{total: make(chan struct{}, maxInFlight), perAddress: map[netip.AddrPort]*addressSlots{}}
}

// acquire waits for a free slot and returns the function that releases it. It fails when ctx ends.
// The slot of the address is taken first, so that waiting for a busy server does not hold a slot of
// the total.
func (s *slots) acquire(ctx context.Context, addr netip.AddrPort, mode queryMode) (release func(), err error) {
	own := s.retain(addr, mode)
	if err := acquireSlot(ctx, own.sem); err != nil {
		s.drop(addr, own)
		return nil, err
	}
	if err := acquireSlot(ctx, s.total); err != nil {
		<-own.sem
		s.drop(addr, own)
		return nil, err
	}
	return func() {
		<-s.total
		<-own.sem
		s.drop(addr, own)
	}, nil
}

func acquireSlot(ctx context.Context, sem chan struct{}) error {
	select {
	case sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slots) retain(addr netip.AddrPort, mode queryMode) *addressSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, ok := s.perAddress[addr]
	if !ok {
		limit := maxPerAddress
		if mode.recurse {
			limit = maxPerResolver
		}
		own = &addressSlots{sem: make(chan struct{}, limit)}
		s.perAddress[addr] = own
	}
	own.users++
	return own
}

func (s *slots) drop(addr netip.AddrPort, own *addressSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(s.perAddress, addr)
	}
}
