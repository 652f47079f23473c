// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/ports"
)

// bucket names the rate limit that an operation counts in.
type bucket string

// The buckets. What counts in the last two calls a provider.
const (
	reads               bucket = "read"
	expensive           bucket = "expensive"
	providerHeavy       bucket = "provider_heavy"
	providerHeavyWrites bucket = "provider_heavy_writes"
)

// quotas is what an account may ask for in each bucket.
var quotas = map[bucket]ratelimit.Bucket{
	reads:               {Limit: 600, Window: time.Minute},
	expensive:           {Limit: 30, Window: time.Minute},
	providerHeavy:       {Limit: 240, Window: 10 * time.Minute},
	providerHeavyWrites: {Limit: 12, Window: 10 * time.Minute},
}

// concurrency is what a request beyond Limits.AtOnce is told as its bucket.
const concurrency = "provider_concurrency"

// Limits keep callers within bounds.
type Limits struct {
	Counters ports.Limiter
	// Off counts, but refuses nothing; for benchmarks.
	Off bool
	// AtOnce is how many operations of an account may call providers at the
	// same time, over all replicas; 4.
	AtOnce int
	// InFlight is how many requests the process works on at once; 1,000.
	InFlight int
}

// of is an account's bucket.
func (b bucket) of(account access.AccountID) ratelimit.Bucket {
	q := quotas[b]
	q.Key = string(b) + ":" + string(account)
	return q
}

// occupies reports whether a request takes one of the account's places at the
// providers while it runs.
func (t terms) occupies(r *http.Request) bool {
	return t.bucket == providerHeavy || t.bucket == providerHeavyWrites || t.sometimes != nil && t.sometimes(peek(r))
}

// peek reads the body, which is in memory, and leaves it there.
func peek(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	r.Body = held(body)
	return body
}

// has makes a test for a member of a body.
func has(member string) func(body []byte) bool {
	return func(body []byte) bool {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(body, &members)
		_, ok := members[member]
		return ok
	}
}

// limit counts every request for an operation in its bucket, and lets an
// account do only so much at the providers at once.
func (g *guard) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if e.route.op == nil {
			next.ServeHTTP(w, r)
			return
		}
		giveBack, ok := g.charge(w, r, e.route.terms.bucket)
		if !ok {
			return
		}
		if e.route.terms.occupies(r) {
			leave, ok := g.limits.Counters.Enter(r.Context(), "account:"+string(e.caller.Account.ID), g.places())
			if !ok {
				giveBack()
				g.refuseTooMany(w, r, concurrency, ratelimit.Verdict{Limit: g.limits.AtOnce, ResetIn: time.Second, RetryIn: time.Second},
					"%d operations of the account are at work at the providers already", g.limits.AtOnce)
				return
			}
			defer leave()
		}
		next.ServeHTTP(w, r)
		if e.lost {
			giveBack()
		}
	})
}

func (g *guard) places() int {
	if g.limits.Off {
		return math.MaxInt32
	}
	return g.limits.AtOnce
}

// charge counts a request in a bucket and says so in the answer's headers.
// When it does not fit in, it is answered.
func (g *guard) charge(w http.ResponseWriter, r *http.Request, b bucket) (giveBack func(), ok bool) {
	v, giveBack := g.limits.Counters.Take(r.Context(), b.of(exchangeOf(r.Context()).caller.Account.ID))
	if !v.Allowed && !g.limits.Off {
		g.refuseTooMany(w, r, string(b), v, "%d requests in %s of this kind are allowed", v.Limit, inWords(quotas[b].Window))
		return giveBack, false
	}
	g.tell(w, string(b), v)
	return giveBack, true
}

func (g *guard) refuseTooMany(w http.ResponseWriter, r *http.Request, name string, v ratelimit.Verdict, detail string, args ...any) {
	g.tell(w, name, v)
	g.refused(r.Context(), name)
	refuse(w, r, fault.RateLimitExceeded.RetryIn(max(v.RetryIn, time.Second), detail, args...))
}

// tell writes the four headers.
func (g *guard) tell(w http.ResponseWriter, name string, v ratelimit.Verdict) {
	h := w.Header()
	h.Set("X-RateLimit-Bucket", name)
	h.Set("X-RateLimit-Limit", strconv.Itoa(v.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(v.Remaining))
	reset := g.once.Now().Add(v.ResetIn)
	h.Set("X-RateLimit-Reset", strconv.FormatInt(int64(math.Ceil(float64(reset.UnixMilli())/1000)), 10))
}

func inWords(window time.Duration) string {
	if window == time.Minute {
		return "a minute"
	}
	return strconv.Itoa(int(window.Minutes())) + " minutes"
}

func (l Limits) orDefaults() Limits {
	l.AtOnce, l.InFlight = cmp.Or(l.AtOnce, 4), cmp.Or(l.InFlight, 1000)
	return l
}
