// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"net/netip"
	"sync"
)

// Limits on concurrent questions. They protect this process and the providers' servers from
// overload. Resolvers have a higher limit: they belong to the operator, and each read asks them.
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
// It takes the slot of the address first. So a question that waits for a busy server does not use
// up a slot of the total.
func (s *slots) acquire(ctx context.Context, addr netip.AddrPort, mode queryMode) (release func(), err error) {
	addrSlots := s.retain(addr, mode)
	if err := acquireSlot(ctx, addrSlots.sem); err != nil {
		s.drop(addr, addrSlots)
		return nil, err
	}
	if err := acquireSlot(ctx, s.total); err != nil {
		<-addrSlots.sem
		s.drop(addr, addrSlots)
		return nil, err
	}
	return func() {
		<-s.total
		<-addrSlots.sem
		s.drop(addr, addrSlots)
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
	addrSlots, ok := s.perAddress[addr]
	if !ok {
		limit := maxPerAddress
		if mode.recurse {
			limit = maxPerResolver
		}
		addrSlots = &addressSlots{sem: make(chan struct{}, limit)}
		s.perAddress[addr] = addrSlots
	}
	addrSlots.users++
	return addrSlots
}

func (s *slots) drop(addr netip.AddrPort, addrSlots *addressSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if addrSlots.users--; addrSlots.users == 0 {
		delete(s.perAddress, addr)
	}
}
