// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
)

// leastPause is how long SalesBlink wants to be left alone after a 429, at least.
// It says so in its guide and not in the answer.
const leastPause = 60 * time.Second

// pauses are the keys that SalesBlink wants to rest.
type pauses struct {
	now   func() time.Time
	mu    sync.Mutex
	until map[string]time.Time
}

func newPauses(now func() time.Time) *pauses {
	return &pauses{now: now, until: map[string]time.Time{}}
}

// check refuses a call while its key rests, and forgets those that have rested.
func (p *pauses) check(who string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for other, until := range p.until {
		if !until.After(now) {
			delete(p.until, other)
		}
	}
	if until, rests := p.until[who]; rests {
		return &outcome.Error{Kind: outcome.Throttled, Cause: "pause", RetryAfter: until.Sub(now), Detail: "the provider wants us to wait"}
	}
	return nil
}

// note lets a key rest when the trouble is that it asked too much.
func (p *pauses) note(who string, trouble error) error {
	var o *outcome.Error
	if !errors.As(trouble, &o) || o.Kind != outcome.Throttled {
		return trouble
	}
	o.RetryAfter = max(o.RetryAfter, leastPause)
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := p.now().Add(o.RetryAfter); until.After(p.until[who]) {
		p.until[who] = until
	}
	return trouble
}
