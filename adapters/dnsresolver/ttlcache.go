// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"sync"
	"time"
)

// Delegations and addresses of name servers are cached, because they change rarely and take several
// round trips to find. Mail records are not cached between reads.
const (
	cacheTTL        = 5 * time.Minute
	cacheMaxEntries = 4096
)

// ttlCache caches values by key for cacheTTL. It uses the machine's clock. The movable clock of a
// sandbox does not affect it.
type ttlCache[T any] struct {
	mu      sync.Mutex
	entries map[string]cacheEntry[T]
}

type cacheEntry[T any] struct {
	value     T
	expiresAt time.Time
}

func (c *ttlCache[T]) get(key string) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[key]
	return entry.value, ok && time.Now().Before(entry.expiresAt)
}

func (c *ttlCache[T]) put(key string, value T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= cacheMaxEntries {
		c.entries = nil // simpler than removing the oldest entries
	}
	if c.entries == nil {
		c.entries = map[string]cacheEntry[T]{}
	}
	c.entries[key] = cacheEntry[T]{value, time.Now().Add(cacheTTL)}
}

func (c *ttlCache[T]) delete(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// answerCache holds the resolvers' answers during one domainRead, so that no question is looked up
// twice.
type answerCache struct {
	reader  *Reader
	mu      sync.Mutex
	entries map[question]*cachedAnswer
}

type cachedAnswer struct {
	done   chan struct{}
	answer parsedAnswer
	err    error
}

func (c *answerCache) lookup(ctx context.Context, q question) (parsedAnswer, error) {
	c.mu.Lock()
	entry, wasAsked := c.entries[q]
	if !wasAsked {
		entry = &cachedAnswer{done: make(chan struct{})}
		c.entries[q] = entry
	}
	c.mu.Unlock()
	if wasAsked {
		<-entry.done // all callers share the deadline of the domainRead, so ctx need not be checked
		return entry.answer, entry.err
	}
	defer close(entry.done)
	m, err := c.reader.queryResolvers(ctx, q)
	if err == nil {
		entry.answer, err = parseAnswer(m, q)
	}
	entry.err = err
	return entry.answer, entry.err
}
