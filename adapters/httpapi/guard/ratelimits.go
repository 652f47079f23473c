// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"context"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/ports"
)

// Bucket is the name of a rate limit. Each operation counts in one bucket.
type Bucket string

// The buckets. All operations in ProviderHeavy and ProviderHeavyWrites call a provider.
const (
	Reads               Bucket = "read"
	Expensive           Bucket = "expensive"
	ProviderHeavy       Bucket = "provider_heavy"
	ProviderHeavyWrites Bucket = "provider_heavy_writes"
	Writes              Bucket = "write"
)

// quotas holds the rate limit of each bucket. The limit applies per account.
var quotas = map[Bucket]ratelimit.Bucket{
	Reads:               {Limit: 600, Window: time.Minute},
	Expensive:           {Limit: 30, Window: time.Minute},
	ProviderHeavy:       {Limit: 240, Window: 10 * time.Minute},
	ProviderHeavyWrites: {Limit: 12, Window: 10 * time.Minute},
	Writes:              {Limit: 240, Window: 10 * time.Minute},
}

// ProviderConcurrency is the X-RateLimit-Bucket of an answer to a request that exceeds
// Limits.MaxProviderOperations.
const ProviderConcurrency = "provider_concurrency"

// Limits configures the rate limits and the concurrency limits.
type Limits struct {
	Counters ports.Limiter
	// Off disables refusals: requests are only counted. It is for benchmarks.
	Off bool
	// MaxProviderOperations is the maximum number of operations of an account that call providers
	// concurrently, over all replicas. The default is 4.
	MaxProviderOperations int
	// MaxInFlight is the maximum number of requests that the process handles concurrently. The default
	// is 1,000. See inFlightLimit for the parts that clients get.
	MaxInFlight int
}

// forAccount returns the rate limit of one account in this bucket.
func (b Bucket) forAccount(account access.AccountID) ratelimit.Bucket {
	q := quotas[b]
	q.Key = string(b) + ":" + string(account)
	return q
}

// needsProviderSlot reports whether the request calls a provider. Such a request counts against
// Limits.MaxProviderOperations.
func (t Terms) needsProviderSlot(r *http.Request) bool {
	return t.Bucket == ProviderHeavy || t.Bucket == ProviderHeavyWrites || t.CallsProviderIf != nil && t.CallsProviderIf(peekBody(r))
}

// peekBody returns the buffered body and leaves it readable.
func peekBody(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	r.Body = bufferedBody(body)
	return body
}

// limitRate counts each request for an operation in the operation's bucket. It answers 429 if the
// bucket is full. It also enforces Limits.MaxProviderOperations. A request does not count if a
// different request claimed its Idempotency-Key first.
func (g *guard) limitRate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if e.route.op == nil {
			next.ServeHTTP(w, r)
			return
		}
		refund, ok := g.countRequest(w, r, e.route.terms.Bucket)
		if !ok {
			return
		}
		if e.route.terms.needsProviderSlot(r) {
			releaseSlot, ok := g.limits.Counters.Enter(r.Context(), "account:"+string(e.caller.Account.ID), g.providerSlots())
			if !ok {
				refund()
				g.refuseTooMany(w, r, ProviderConcurrency, ratelimit.Verdict{Limit: g.limits.MaxProviderOperations, ResetIn: time.Second, RetryIn: time.Second},
					"the account already has %d operations in progress that call providers", g.limits.MaxProviderOperations)
				return
			}
			defer releaseSlot()
		}
		next.ServeHTTP(w, r)
		if e.keyLost {
			refund()
		}
	})
}

func (g *guard) providerSlots() int {
	if g.limits.Off {
		return math.MaxInt32
	}
	return g.limits.MaxProviderOperations
}

// countRequest counts a request in bucket b and sets the rate limit headers. If the bucket is full,
// countRequest answers 429 and returns false. refund undoes the count.
func (g *guard) countRequest(w http.ResponseWriter, r *http.Request, b Bucket) (refund func(), ok bool) {
	v, refund := g.limits.Counters.Take(r.Context(), b.forAccount(exchangeOf(r.Context()).caller.Account.ID))
	if !v.Allowed && !g.limits.Off {
		g.refuseTooMany(w, r, string(b), v, "%d requests in %s of this kind are allowed", v.Limit, windowText(quotas[b].Window))
		return refund, false
	}
	g.setRateHeaders(w, string(b), v)
	return refund, true
}

func (g *guard) refuseTooMany(w http.ResponseWriter, r *http.Request, name string, v ratelimit.Verdict, detail string, args ...any) {
	g.setRateHeaders(w, name, v)
	g.countRefusal(r.Context(), name)
	Refuse(w, r, fault.RateLimitExceeded.RetryIn(max(v.RetryIn, time.Second), detail, args...))
}

// setRateHeaders sets the four X-RateLimit headers.
func (g *guard) setRateHeaders(w http.ResponseWriter, name string, v ratelimit.Verdict) {
	h := w.Header()
	h.Set("X-RateLimit-Bucket", name)
	h.Set("X-RateLimit-Limit", strconv.Itoa(v.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(v.Remaining))
	reset := g.idempotency.Now().Add(v.ResetIn)
	h.Set("X-RateLimit-Reset", strconv.FormatInt(int64(math.Ceil(float64(reset.UnixMilli())/1000)), 10))
}

func windowText(window time.Duration) string {
	if window == time.Minute {
		return "a minute"
	}
	return strconv.Itoa(int(window.Minutes())) + " minutes"
}

func (l Limits) orDefaults() Limits {
	l.MaxProviderOperations, l.MaxInFlight = cmp.Or(l.MaxProviderOperations, 4), cmp.Or(l.MaxInFlight, 1000)
	return l
}

// refusalCounter returns a function that counts a 429 answer by its bucket.
func refusalCounter(o Options) func(context.Context, string) {
	meter := o.Meter
	if meter == nil {
		meter = otel.GetMeterProvider()
	}
	counter, err := meter.Meter("github.com/tenantry/tenantry/adapters/httpapi").Int64Counter("tenantry.ratelimit.refused",
		metric.WithDescription("Requests answered 429, by the limit that was reached."))
	if err != nil {
		otel.Handle(err)
	}
	return func(ctx context.Context, name string) {
		counter.Add(ctx, 1, metric.WithAttributes(attribute.String("bucket", name)))
	}
}
