// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"
)

// databaseTime bounds a look at the database that nobody waits for long.
const databaseTime = 2 * time.Second

// freshPulse is how long a look at the database is good for. Scrapes wait for
// each other: were each to look at a database that hangs, the second would take
// too long and so count as a service that is down.
const freshPulse = time.Second

// pulse tells whether the database answers, to all who ask at about the same
// time.
type pulse struct {
	ping func(context.Context) error

	mu   sync.Mutex
	seen time.Time
	err  error
}

func (p *pulse) feel(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.seen.IsZero() && time.Since(p.seen) < freshPulse {
		return p.err
	}
	// What one asker gives up on is not what the others should hear.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTime)
	defer cancel()
	p.err = p.ping(ctx)
	p.seen = time.Now()
	return p.err
}
