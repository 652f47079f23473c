// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/fault"
)

// inFlightLimit limits how many requests the process handles concurrently. Under overload it
// refuses further requests at once, because they would slow down the requests in progress.
//
// There are three groups of slots. A request for a connect page holds a slot of the group "pages".
// A request for an operation first holds a slot of the group "authenticating". When its key is
// accepted, the request moves to the group "authenticated". If the process has accepted the key
// before, the request begins in the group "authenticated". The groups "pages" and "authenticating"
// have lower limits, so that requests without a valid key leave slots for others. Each group shares
// its slots between clients. Other requests need no slot, because their answers are in memory.
type inFlightLimit struct {
	max int // the number of slots of all groups together

	mu                                   sync.Mutex
	refused                              int // requests without a slot since warnedAt
	warnedAt                             time.Time
	taken                                int
	pages, authenticating, authenticated slotGroup
}

// slotGroup is a group of slots, which its clients share. In the group "authenticated" a client is
// an account. In the other groups it is a network (see ClientNetwork).
type slotGroup struct {
	max, taken int
	byClient   map[string]int // the number of slots of each client that holds one
}

// slot identifies the slot of a request: its group, and the client for which it counts. The zero
// value stands for no slot.
type slot struct {
	group  *slotGroup
	client string
}

func (l *inFlightLimit) init(limit int) {
	l.max = limit
	for _, g := range []struct {
		group *slotGroup
		max   int
	}{{&l.pages, limit / 4}, {&l.authenticating, limit / 2}, {&l.authenticated, limit}} {
		*g.group = slotGroup{max: max(1, g.max), byClient: map[string]int{}}
	}
}

// hasRoom reports whether the client may take one more slot. The slots of the group are divided
// into equal shares: one for each client, and one more for the next client. A single client
// therefore gets half of the slots, but at least one slot.
func (g *slotGroup) hasRoom(client string) bool {
	clientSlots, clients := g.byClient[client], len(g.byClient)
	if clientSlots == 0 {
		clients++
	}
	return g.taken < g.max && clientSlots < max(1, g.max/(clients+1))
}

func (g *slotGroup) add(client string, n int) {
	g.taken += n
	if g.byClient[client] += n; g.byClient[client] == 0 {
		delete(g.byClient, client)
	}
}

// acquire takes the slot s. It returns false if all slots or the client's share are taken.
func (l *inFlightLimit) acquire(s slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken >= l.max || !s.group.hasRoom(s.client) {
		return false
	}
	l.taken++
	s.group.add(s.client, 1)
	return true
}

// release releases s. It does nothing for the zero slot.
func (l *inFlightLimit) release(s slot) {
	if s.group == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken--
	s.group.add(s.client, -1)
}

// countRefused counts a request without a slot. If a warning is due, it returns the number of such
// requests since the last warning, otherwise 0.
func (l *inFlightLimit) countRefused(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused++
	if now.Sub(l.warnedAt) < overloadWarningInterval {
		return 0
	}
	refused := l.refused
	l.refused, l.warnedAt = 0, now
	return refused
}

// swap replaces heldSlot with wantedSlot. If the client of wantedSlot has no room, it returns false
// and changes nothing.
func (l *inFlightLimit) swap(heldSlot, wantedSlot slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !wantedSlot.group.hasRoom(wantedSlot.client) {
		return false
	}
	heldSlot.group.add(heldSlot.client, -1)
	wantedSlot.group.add(wantedSlot.client, 1)
	return true
}

// ClientNetwork returns the network that counts as one client: an IPv4 address, or the /64 network
// of an IPv6 address. One machine can use any address of a /64 network.
func ClientNetwork(a netip.Addr) string {
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().String()
	}
	return a.String()
}

// limitInFlight answers 503 if all slots of the process or of the request's group are taken. It
// also answers 503 if the client has used up its share of the group.
func (g *guard) limitInFlight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		s := slot{client: ClientNetwork(e.client)}
		switch {
		case e.isPage:
			s.group = &g.inFlight.pages
		case e.needsKey(r.URL.Path):
			s.group = &g.inFlight.authenticating
			if account, ok := g.acceptedKeys.account(r.Header.Values("Authorization")); ok {
				s = slot{&g.inFlight.authenticated, string(account)}
			}
		default:
			next.ServeHTTP(w, r)
			return
		}
		if !g.inFlight.acquire(s) {
			Refuse(w, r, g.refuseSlot(r.Context(), e))
			return
		}
		e.slot = s
		defer func() { g.inFlight.release(e.slot) }()
		next.ServeHTTP(w, r)
	})
}

// limitAccount answers 503 if the group "authenticated" has no room for the account. After this
// step the request counts for its account and not for its address.
func (g *guard) limitAccount(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		e.waitWithoutSlot = func(wait func()) error {
			err := g.releaseSlotDuring(r.Context(), e, wait)
			if err == nil && e.needsKey(r.URL.Path) {
				err = g.checkCallerAgain(r)
			}
			return err
		}
		if e.needsKey(r.URL.Path) {
			s := slot{&g.inFlight.authenticated, string(e.caller.Account.ID)}
			if e.slot != s && !g.inFlight.swap(e.slot, s) {
				Refuse(w, r, g.refuseSlot(r.Context(), e))
				return
			}
			e.slot = s
		}
		next.ServeHTTP(w, r)
	})
}

// WaitWithoutSlot releases the in-flight slot of the request of ctx, runs wait, and acquires a slot
// again. It fails with service_unavailable if no slot is free when wait returns. If the key or the
// account may no longer be used after the wait, it fails like the steps authenticate and checkPlan.
func WaitWithoutSlot(ctx context.Context, wait func()) error {
	e := exchangeOf(ctx)
	if e == nil || e.waitWithoutSlot == nil { // an operation without the middleware, in tests
		wait()
		return nil
	}
	return e.waitWithoutSlot(wait)
}

// releaseSlotDuring releases the in-flight slot while wait runs. It fails if no slot is free when
// wait returns.
func (g *guard) releaseSlotDuring(ctx context.Context, e *exchange, wait func()) error {
	s := e.slot
	g.inFlight.release(s)
	e.slot = slot{}
	wait()
	if !g.inFlight.acquire(s) {
		return g.refuseSlot(ctx, e)
	}
	e.slot = s
	return nil
}

// overloadWarningInterval is the minimum time between two log lines about requests without a slot.
const overloadWarningInterval = time.Minute

// refuseSlot returns the error for a request without a slot. Clients can cause any number of such
// requests, so they are not logged as errors. At most once a minute, a warning contains their
// number.
func (g *guard) refuseSlot(ctx context.Context, e *exchange) error {
	e.gotNoSlot = true
	if refused := g.inFlight.countRefused(time.Now()); refused > 0 {
		g.log.WarnContext(ctx, "requests are refused because the server already handles its maximum number of requests, or all that one client may have", "refused", refused)
	}
	return fault.ServiceUnavailable.RetryIn(time.Second, "the server already handles its maximum number of requests")
}
