// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/panics"
)

// sharedReads lets concurrent callers that need the same domain share one read. The read is
// cancelled when its last caller stops waiting.
type sharedReads struct {
	mu      sync.Mutex
	running map[readKey]*sharedRead
}

// readKey identifies reads that can share one result: the same account, the same domain and the
// same wanted records. Accounts do not share reads, because a read uses the slots of one account.
type readKey struct {
	owner        access.AccountID
	name, wanted string
}

type sharedRead struct {
	done   chan struct{}
	result dns.ZoneRead
	// panicked is the panic of the read. Each caller panics with it.
	panicked error
	waiters  int
	cancel   context.CancelFunc
}

// readShared runs read, or waits for a running read with the same key. limit is the timeout of the
// read. readShared returns the error of ctx when ctx ends first. If the read panics, readShared
// panics with a *panics.Error.
func (s *sharedReads) readShared(ctx context.Context, key readKey, limit time.Duration, read func(context.Context) dns.ZoneRead) (dns.ZoneRead, error) {
	if err := ctx.Err(); err != nil {
		return dns.ZoneRead{}, err
	}
	shared := s.join(ctx, key, limit, read)
	defer s.leaveRead(key, shared)
	select {
	case <-shared.done:
		panics.Repanic(shared.panicked)
		return cloneRead(shared.result), nil
	case <-ctx.Done():
		return dns.ZoneRead{}, ctx.Err()
	}
}

func (s *sharedReads) join(ctx context.Context, key readKey, limit time.Duration, read func(context.Context) dns.ZoneRead) *sharedRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared, ok := s.running[key]; ok {
		shared.waiters++
		return shared
	}
	if s.running == nil {
		s.running = map[readKey]*sharedRead{}
	}
	readCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	shared := &sharedRead{done: make(chan struct{}), waiters: 1, cancel: cancel}
	s.running[key] = shared
	finish := func() {
		cancel()
		s.remove(key, shared)
		close(shared.done)
	}
	panics.Go(func() {
		shared.result = read(readCtx)
		finish()
	}, func(e *panics.Error) {
		shared.panicked = e
		finish()
	})
	return shared
}

func (s *sharedReads) leaveRead(key readKey, shared *sharedRead) {
	s.mu.Lock()
	shared.waiters--
	isLast := shared.waiters == 0
	if isLast && s.running[key] == shared {
		delete(s.running, key) // a new caller must not join a read that is being cancelled
	}
	s.mu.Unlock()
	if isLast {
		shared.cancel()
	}
}

func (s *sharedReads) remove(key readKey, shared *sharedRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[key] == shared {
		delete(s.running, key)
	}
}

// cloneRead returns a copy of s. The copy shares with s only the lists of values in Referenced,
// which callers must not change.
func cloneRead(s dns.ZoneRead) dns.ZoneRead {
	s.Servers, s.Delegation, s.Warnings = slices.Clone(s.Servers), slices.Clone(s.Delegation), slices.Clone(s.Warnings)
	s.Sets = slices.Clone(s.Sets)
	for i := range s.Sets {
		s.Sets[i].Values = slices.Clone(s.Sets[i].Values)
	}
	s.Referenced = dns.Referenced{
		SPF: maps.Clone(s.Referenced.SPF), ParentDMARC: maps.Clone(s.Referenced.ParentDMARC),
		Exchanges: maps.Clone(s.Referenced.Exchanges), Keys: maps.Clone(s.Referenced.Keys),
	}
	return s
}
