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

// Bucket is the name of a rate limit. Each operation belongs to one bucket.
type Bucket string

// The buckets. Each request in ProviderHeavy and ProviderHeavyWrites counts towards
// Limits.MaxProviderOperations.
const (
	Reads               Bucket = "read"
	Writes              Bucket = "write"
	Expensive           Bucket = "expensive"
	ProviderHeavy       Bucket = "provider_heavy"
	ProviderHeavyWrites Bucket = "provider_heavy_writes"
)

// Buckets returns the buckets in the order of the documentation.
func Buckets() []Bucket {
	return []Bucket{Reads, Expensive, ProviderHeavy, ProviderHeavyWrites, Writes}
}

// quotas has the rate limit of each bucket. The limit applies per account.
var quotas = map[Bucket]ratelimit.Bucket{
	Reads:               {Limit: 600, Window: time.Minute},
	Writes:              {Limit: 240, Window: 10 * time.Minute},
	Expensive:           {Limit: 30, Window: time.Minute},
	ProviderHeavy:       {Limit: 240, Window: 10 * time.Minute},
	ProviderHeavyWrites: {Limit: 12, Window: 10 * time.Minute},
}

// ProviderConcurrency is the value of X-RateLimit-Bucket for a request that exceeds
// Limits.MaxProviderOperations.
const ProviderConcurrency = "provider_concurrency"

// EventWaiters is the value of X-RateLimit-Bucket for a request that exceeds
// Limits.MaxEventWaiters.
const EventWaiters = "event_waiters"

// Limits configures the rate limits and the concurrency limits.
type Limits struct {
	Counters ports.Limiter
	// Off disables all limits except MaxInFlight: requests are counted, but not refused. It is for
	// benchmarks.
	Off bool
	// MaxProviderOperations is the maximum number of operations of an account that call providers
	// concurrently, over all replicas. The default is 4.
	MaxProviderOperations int
	// MaxEventWaiters is the maximum number of requests of an account that wait for events, over
	// all replicas. The default is 5.
	MaxEventWaiters int
	// MaxInFlight is the maximum number of requests that the process handles concurrently. The
	// default is 1,000. See inFlightLimit for the share of each client.
	MaxInFlight int
}

// forAccount returns the rate limit of one account in this bucket.
func (b Bucket) forAccount(account access.AccountID) ratelimit.Bucket {
	q := quotas[b]
	q.Key = string(b) + ":" + string(account)
	return q
}

// Balance is how much of a bucket an account can still use.
type Balance struct {
	Bucket    Bucket
	Limit     int
	Window    time.Duration
	Remaining int
}

// Balances returns the balance of each bucket. It does not change the counts.
func (l Limits) Balances(ctx context.Context, account access.AccountID) []Balance {
	var balances []Balance
	for _, b := range Buckets() {
		q := b.forAccount(account)
		balances = append(balances, Balance{Bucket: b, Limit: q.Limit, Window: q.Window, Remaining: l.Counters.Remaining(ctx, q)})
	}
	return balances
}

// concurrencyLimit limits how many requests of an account run at once, over all replicas.
type concurrencyLimit struct {
	bucket string // the X-RateLimit-Bucket of a refused request
	slots  string // the name of the slots in Limits.Counters
	max    int
	detail string // the detail of the refusal, in which %d stands for max
}

// concurrencyLimitOf returns the concurrency limit for a request with these rules. limited is false
// if there is no such limit.
func (g *guard) concurrencyLimitOf(rules OperationRules, r *http.Request) (c concurrencyLimit, limited bool) {
	switch {
	case rules.Bucket == ProviderHeavy || rules.Bucket == ProviderHeavyWrites || rules.CallsProviderIf != nil && rules.CallsProviderIf(peekBody(r)):
		c = concurrencyLimit{ProviderConcurrency, "account:", g.limits.MaxProviderOperations, "the account already has %d operations in progress that call providers"}
	case rules.WaitsIf != nil && rules.WaitsIf(declaredValues(exchangeOf(r.Context()).route.op, r.URL.RawQuery)):
		c = concurrencyLimit{EventWaiters, "waiters:", g.limits.MaxEventWaiters, "the account already has %d requests that wait for events"}
	default:
		return c, false
	}
	c.slots += string(exchangeOf(r.Context()).caller.Account.ID)
	return c, true
}

// peekBody returns the buffered body and leaves it readable.
func peekBody(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	r.Body = bufferedBody(body)
	return body
}

// limitRate counts each request for an operation in the operation's bucket. It answers 429 if the
// bucket is full. It also enforces Limits.MaxProviderOperations and Limits.MaxEventWaiters. A
// request does not count if it exceeds one of these two limits, or if a different request claimed
// its Idempotency-Key first.
func (g *guard) limitRate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if e.route.op == nil {
			next.ServeHTTP(w, r)
			return
		}
		refund, ok := g.countRequest(w, r, e.route.rules.Bucket)
		if !ok {
			return
		}
		if limit, limited := g.concurrencyLimitOf(e.route.rules, r); limited {
			maximum := limit.max
			if g.limits.Off {
				maximum = math.MaxInt32
			}
			releaseSlot, ok := g.limits.Counters.Enter(r.Context(), limit.slots, maximum)
			if !ok {
				refund()
				g.refuseTooMany(w, r, limit.bucket, ratelimit.Verdict{Limit: limit.max, ResetIn: time.Second, RetryIn: time.Second}, limit.detail, limit.max)
				return
			}
			defer releaseSlot()
		}
		next.ServeHTTP(w, r)
		if e.lostKey {
			refund()
		}
	})
}

// countRequest counts a request in bucket b and sets the rate limit headers. If the bucket is full,
// it answers 429 and returns false. refund reverses the count.
func (g *guard) countRequest(w http.ResponseWriter, r *http.Request, b Bucket) (refund func(), ok bool) {
	decision, refund := g.limits.Counters.Take(r.Context(), b.forAccount(exchangeOf(r.Context()).caller.Account.ID))
	if !decision.Allowed && !g.limits.Off {
		g.refuseTooMany(w, r, string(b), decision, "%d requests of this kind are allowed in %s", decision.Limit, windowText(quotas[b].Window))
		return refund, false
	}
	g.setRateHeaders(w, string(b), decision)
	return refund, true
}

func (g *guard) refuseTooMany(w http.ResponseWriter, r *http.Request, name string, decision ratelimit.Verdict, detail string, args ...any) {
	g.setRateHeaders(w, name, decision)
	g.countRefusal(r.Context(), name)
	Refuse(w, r, fault.RateLimitExceeded.RetryIn(max(decision.RetryIn, time.Second), detail, args...))
}

// The names of the rate limit headers, in the canonical form of net/http. Names in this form need
// no conversion.
const (
	bucketHeader    = "X-Ratelimit-Bucket"
	limitHeader     = "X-Ratelimit-Limit"
	remainingHeader = "X-Ratelimit-Remaining"
	resetHeader     = "X-Ratelimit-Reset"
)

// setRateHeaders sets the four rate limit headers. The reset time is a time of the machine's clock,
// also in the sandbox, which has a clock of its own.
func (g *guard) setRateHeaders(w http.ResponseWriter, name string, decision ratelimit.Verdict) {
	header := w.Header()
	header.Set(bucketHeader, name)
	header.Set(limitHeader, strconv.Itoa(decision.Limit))
	header.Set(remainingHeader, strconv.Itoa(decision.Remaining))
	reset := time.Now().Add(decision.ResetIn)
	header.Set(resetHeader, strconv.FormatInt(int64(math.Ceil(float64(reset.UnixMilli())/1000)), 10))
}

func copyRateHeaders(to, from http.Header) {
	for _, name := range []string{bucketHeader, limitHeader, remainingHeader, resetHeader} {
		if values, ok := from[name]; ok {
			to[name] = values
		}
	}
}

func windowText(window time.Duration) string {
	if window == time.Minute {
		return "a minute"
	}
	return strconv.Itoa(int(window.Minutes())) + " minutes"
}

func (l Limits) orDefaults() Limits {
	l.MaxProviderOperations, l.MaxEventWaiters = cmp.Or(l.MaxProviderOperations, 4), cmp.Or(l.MaxEventWaiters, 5)
	l.MaxInFlight = cmp.Or(l.MaxInFlight, 1000)
	return l
}

// refusalCounter returns a function that counts a 429 answer in a metric, by bucket.
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
