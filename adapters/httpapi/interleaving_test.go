// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/testserver/interleaving"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/ports"
)

// contendedKeys is a store of Idempotency-Keys for a tested request and a concurrent request with
// the same key. order chooses whether a claim of the tested request fails. It also chooses the
// state of the concurrent request when the tested request reads the key after the failed claim.
// While order is nil, claims go to the store unchanged.
type contendedKeys struct {
	ports.Idempotency
	order                *interleaving.Order
	runConcurrentRequest func() // sends the concurrent request and waits for its answer
}

func (k *contendedKeys) Claim(ctx context.Context, c ports.Claim) (string, bool, error) {
	order := k.order
	if order == nil {
		return k.Idempotency.Claim(ctx, c)
	}
	switch order.Choose(4) {
	case 1: // the concurrent request releases the key at once
		return "", false, nil
	case 2: // the concurrent request is still running
		_, _, err := k.Idempotency.Claim(ctx, c)
		return "", false, err
	case 3: // the concurrent request has its answer
		k.order = nil
		k.runConcurrentRequest()
		return "", false, nil
	default: // the claim succeeds, unless the key is already claimed
		return k.Idempotency.Claim(ctx, c)
	}
}

// countingLimiter counts the requests in each bucket, without refunded requests.
type countingLimiter struct {
	ports.Limiter
	mu     sync.Mutex
	counts map[string]int
}

func (l *countingLimiter) Take(ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
	v, refund := l.Limiter.Take(ctx, b)
	bucket, _, _ := strings.Cut(b.Key, ":")
	count := func(n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.counts[bucket] += n
	}
	count(1)
	return v, func() {
		count(-1)
		refund()
	}
}

// TestRequestsCountOnceInEveryOrder checks that a request which runs counts in the bucket of its
// operation, and that a request which loses its Idempotency-Key does not. A request that is
// answered from the record of its key counts as a read.
func TestRequestsCountOnceInEveryOrder(t *testing.T) {
	env := newTestEnv(t)
	keys, counters := &contendedKeys{Idempotency: env.store}, &countingLimiter{Limiter: newCounters(t)}
	env.options.Guard.Idempotency.Keys, env.options.Guard.Limits = keys, guard.Limits{Counters: counters, Off: true}
	client := serve(t, env.handler(t))
	orders := 0
	interleaving.Explore(t, 0, func(t *testing.T, order *interleaving.Order) {
		orders++
		request := addDomainCall(env, fmt.Sprint("key-", orders)) // a new key for each order
		ran := 0
		keys.runConcurrentRequest = func() {
			client.expect(request, http.StatusOK, "")
			ran++
		}
		keys.order, counters.counts = order, map[string]int{}
		got := client.do(request)
		keys.order = nil
		answeredFromRecord := 0
		switch {
		case got.status == http.StatusOK && got.header.Get("Idempotency-Replayed") == "":
			ran++
		case got.status == http.StatusOK, got.header.Get("X-RateLimit-Bucket") == "read":
			answeredFromRecord++
		}
		if counters.counts["provider_heavy"] != ran || counters.counts["read"] != answeredFromRecord {
			t.Errorf("answered %d %s: %d requests ran and %d were answered from the record, but the buckets counted %v", got.status, got.code(), ran, answeredFromRecord, counters.counts)
		}
	})
}
