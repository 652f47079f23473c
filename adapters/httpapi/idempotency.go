// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Idempotency is what makes a write happen once.
type Idempotency struct {
	Keys   ports.Idempotency
	Sealer ports.Sealer
	Prints ports.Fingerprinter
	Now    func() time.Time
	// Lease is idempotency.Lease unless set.
	Lease time.Duration
}

// recordTime bounds each step with the database that must not end with the
// caller.
const recordTime = 5 * time.Second

// write is a request with a key: what it is and what is known of it.
type write struct {
	at   idempotency.Place
	text []byte // see idempotency.Request
	// seen is what the look-up found, if it found anything.
	seen  idempotency.Record
	found bool
}

// remember answers a request whose key is known, without looking at anything
// else: what it was about may be gone by now.
func (g *guard) remember(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if !e.route.terms.write {
			next.ServeHTTP(w, r)
			return
		}
		given, err := writeOf(r, e)
		if err != nil {
			refuse(w, r, err)
			return
		}
		e.write = given
		if g.lookUp(w, r, given) {
			next.ServeHTTP(w, r)
		}
	})
}

func writeOf(r *http.Request, e *exchange) (*write, error) {
	body, err := io.ReadAll(r.Body) // in memory, see intake
	if err != nil {
		return nil, err
	}
	r.Body = held(body)
	asked := idempotency.Request{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Body: body}
	key := sha256.Sum256([]byte(r.Header.Get("Idempotency-Key")))
	return &write{at: idempotency.Place{Account: e.caller.Account.ID, Key: key}, text: asked.Text()}, nil
}

// lookUp reports whether the request may go on to its claim. Otherwise it is
// answered.
func (g *guard) lookUp(w http.ResponseWriter, r *http.Request, given *write) bool {
	var err error
	if given.seen, given.found, err = g.once.Keys.Remembered(r.Context(), given.at); err != nil {
		refuse(w, r, err)
		return false
	}
	if !given.found {
		return true
	}
	verdict := idempotency.Judge(given.seen, g.once.Prints.Matches(given.text, given.seen.Fingerprint), g.once.Now())
	if verdict == idempotency.Run {
		return true
	}
	// What ends here is a look at what is known, whatever the operation is.
	if _, ok := g.charge(w, r, reads); !ok {
		return false
	}
	switch verdict {
	case idempotency.Replay:
		g.replay(w, r, given)
	case idempotency.Busy:
		refuse(w, r, busy())
	default:
		refuse(w, r, fault.KeyConflict.With("the Idempotency-Key was used for another method, path, query string or body"))
	}
	return false
}

func busy() error {
	return fault.KeyInProgress.RetryIn(time.Second, "the first request with this Idempotency-Key is still running")
}

// claim lets one of all requests with the same key run the operation. From
// here on the caller may go away.
func (g *guard) claim(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if !e.route.terms.write {
			next.ServeHTTP(w, r)
			return
		}
		r = r.WithContext(context.WithoutCancel(r.Context()))
		failpoint.Hit("idempotency.before-claim")
		attempt, ok := g.win(w, r, e.write)
		if !ok {
			return
		}
		failpoint.Hit("idempotency.after-claim")
		g.work(w, r, &run{guard: g, write: e.write, attempt: attempt}, next)
	})
}

// claims is how often a request tries to win a key that others have and let go
// of at the same moment.
const claims = 3

// win reports the attempt that has the key now. A request that lost is
// answered from what the winner left.
func (g *guard) win(w http.ResponseWriter, r *http.Request, given *write) (attempt string, won bool) {
	for range claims {
		attempt, won, err := g.tryClaim(r.Context(), given)
		if err != nil {
			refuse(w, r, err)
			return "", false
		}
		if won {
			return attempt, true
		}
		exchangeOf(r.Context()).lost = true
		if !g.lookUp(w, r, given) {
			return "", false
		}
	}
	refuse(w, r, busy())
	return "", false
}

func (g *guard) tryClaim(ctx context.Context, given *write) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	print, err := g.once.Prints.Fingerprint(given.text)
	if err != nil {
		return "", false, err
	}
	c := ports.Claim{Place: given.at, Fingerprint: print, Lease: g.once.Lease, Now: g.once.Now()}
	if given.found {
		return g.once.Keys.TakeOver(ctx, given.seen.Attempt, c)
	}
	return g.once.Keys.Claim(ctx, c)
}

var errLeaseLost = errors.New("another request has the Idempotency-Key by now")
