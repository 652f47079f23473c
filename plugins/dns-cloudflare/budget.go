// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// budgets holds the budget of each token, by the fingerprint of its connection.
type budgets struct {
	now   func() time.Time
	limit int // calls of one token in any window
	mu    sync.Mutex
	all   map[string]*budget
}

func newBudgets(now func() time.Time) *budgets {
	return &budgets{now: now, limit: limit, all: map[string]*budget{}}
}

// of finds a token's budget and forgets those that are whole again.
func (b *budgets) of(token string) *budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, other := range b.all {
		if name != token && other.whole() {
			delete(b.all, name)
		}
	}
	if b.all[token] == nil {
		b.all[token] = &budget{now: b.now, limit: b.limit}
	}
	return b.all[token]
}

// budget counts the calls of one token in any five minutes, and keeps away
// from Cloudflare as long as it asked to. Cloudflare counts a call when it
// arrives, which may be any time until its answer, so from then on it is young.
type budget struct {
	now   func() time.Time
	limit int
	mu    sync.Mutex
	open  int         // calls without an answer yet
	calls []time.Time // when those of the last window ended, oldest first
	until time.Time
}

// take allows one call, or says how long to wait.
func (b *budget) take() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.expire(now)
	free := now.Add(callTime) // when all of them are under way
	if len(b.calls) > 0 {
		free = b.calls[0].Add(window)
	}
	if b.open+len(b.calls) >= b.limit && b.until.Before(free) {
		b.until = free
	}
	if wait := b.until.Sub(now); wait > 0 {
		return &outcome.Error{Kind: outcome.Throttled, Cause: "budget", RetryAfter: wait, Detail: "the provider wants us to wait"}
	}
	b.open++
	return nil
}

// ended notes that an allowed call has been answered, or never will be.
func (b *budget) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	b.calls = append(b.calls, b.now())
}

func (b *budget) expire(now time.Time) {
	for len(b.calls) > 0 && now.Sub(b.calls[0]) >= window {
		b.calls = b.calls[1:]
	}
}

func (b *budget) pause(wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.now().Add(wait); until.After(b.until) {
		b.until = until
	}
}

func (b *budget) whole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.expire(now)
	return b.open == 0 && len(b.calls) == 0 && !b.until.After(now)
}

// budgeted takes the token's budget before each call and turns the answers
// whose status says all into outcomes, as the library drops their headers.
type budgeted struct {
	next   http.RoundTripper
	budget *budget
}

func (b budgeted) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := b.budget.take(); err != nil {
		return nil, err
	}
	resp, err := b.next.RoundTrip(r)
	b.budget.ended()
	if err != nil {
		return nil, err
	}
	trouble := sdk.TroubleOf(resp.StatusCode, resp.Header, b.budget.now())
	if trouble == nil {
		return resp, nil
	}
	_ = resp.Body.Close()
	var o *outcome.Error
	if errors.As(trouble, &o) && o.Kind == outcome.Throttled {
		b.budget.pause(o.RetryAfter)
	}
	return nil, trouble
}
