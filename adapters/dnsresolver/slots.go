// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/tenantry/tenantry/core/access"
)

// Limits on concurrent questions. They protect this process and the servers from overload.
//
// The owners of domains choose the servers of their domains, and these servers can be slow. Each
// read also needs the resolvers and the registries' servers. Questions to the resolvers and the
// registries have separate slots, so that slow servers of domains cannot use up all slots.
const (
	maxServerQuestions  = 128
	maxTrustedQuestions = 64
	maxPerAddress       = 4 // to one server address; the operator's resolvers have no such limit
	minShares           = 4 // the minimum number of shares into which the slots are divided
)

// slots limits the concurrent questions: in total, for each account, and for each server address.
//
// An account gets at most its share of the slots. As long as slots outnumber accounts, one share is
// left for the next account. Its first question therefore usually starts at once, even if no server
// of another account answers. If several questions wait for a slot, the account that holds the
// fewest slots comes first.
type slots struct {
	total int

	mu        sync.Mutex
	inUse     int
	arrivals  int
	accounts  map[access.AccountID]*accountSlots
	addresses map[netip.AddrPort]int
}

// accountSlots holds the number of slots that one account uses, and its questions that wait for a
// slot.
type accountSlots struct {
	inUse   int
	waiting []*waiter
}

// waiter is a question that waits for a slot.
type waiter struct {
	account access.AccountID
	addr    netip.AddrPort
	// perAddress is the maximum number of concurrent questions to addr.
	perAddress int
	arrival    int
	granted    chan struct{} // closed when the question has its slot
}

func newSlots(total int) *slots {
	return &slots{total: total, accounts: map[access.AccountID]*accountSlots{}, addresses: map[netip.AddrPort]int{}}
}

// acquire waits for a slot of an account and returns the function that releases it. At most
// perAddress questions are sent to addr at once. acquire fails when ctx ends.
func (s *slots) acquire(ctx context.Context, account access.AccountID, addr netip.AddrPort, perAddress int) (release func(), err error) {
	w := s.enqueue(account, addr, perAddress)
	select {
	case <-w.granted:
		return func() { s.release(w) }, nil
	case <-ctx.Done():
		s.abandon(w)
		return nil, ctx.Err()
	}
}

func (s *slots) enqueue(account access.AccountID, addr netip.AddrPort, perAddress int) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals++
	w := &waiter{account: account, addr: addr, perAddress: perAddress, arrival: s.arrivals, granted: make(chan struct{})}
	if s.accounts[account] == nil {
		s.accounts[account] = &accountSlots{}
	}
	s.accounts[account].waiting = append(s.accounts[account].waiting, w)
	s.grantSlots()
	return w
}

// abandon removes a question that waits, or releases its slot if it got one in the meantime.
func (s *slots) abandon(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	usage := s.accounts[w.account]
	if i := slices.Index(usage.waiting, w); i >= 0 {
		usage.waiting = slices.Delete(usage.waiting, i, i+1)
		s.forgetIdle(w.account)
		s.grantSlots() // the shares of the other accounts may be larger now
		return
	}
	s.releaseLocked(w)
}

func (s *slots) release(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(w)
}

func (s *slots) releaseLocked(w *waiter) {
	s.inUse--
	s.accounts[w.account].inUse--
	if s.addresses[w.addr]--; s.addresses[w.addr] == 0 {
		delete(s.addresses, w.addr)
	}
	s.forgetIdle(w.account)
	s.grantSlots()
}

func (s *slots) forgetIdle(account access.AccountID) {
	if usage := s.accounts[account]; usage.inUse == 0 && len(usage.waiting) == 0 {
		delete(s.accounts, account)
	}
}

// grantSlots gives the free slots to questions that wait. The caller holds s.mu.
func (s *slots) grantSlots() {
	for s.inUse < s.total {
		w := s.nextWaiter()
		if w == nil {
			return
		}
		usage := s.accounts[w.account]
		usage.waiting = slices.DeleteFunc(usage.waiting, func(other *waiter) bool { return other == w })
		usage.inUse++
		s.inUse++
		s.addresses[w.addr]++
		close(w.granted)
	}
}

// nextWaiter returns the question that gets the next slot, or nil if the account or the address of
// every waiting question is at its limit.
func (s *slots) nextWaiter() *waiter {
	share := max(1, s.total/max(minShares, len(s.accounts)+1))
	var best *waiter
	for _, usage := range s.accounts {
		if usage.inUse >= share {
			continue
		}
		i := slices.IndexFunc(usage.waiting, func(w *waiter) bool { return s.addresses[w.addr] < w.perAddress })
		if i >= 0 && (best == nil || s.precedes(usage.waiting[i], best)) {
			best = usage.waiting[i]
		}
	}
	return best
}

func (s *slots) precedes(a, b *waiter) bool {
	if d := s.accounts[a.account].inUse - s.accounts[b.account].inUse; d != 0 {
		return d < 0
	}
	return a.arrival < b.arrival
}
