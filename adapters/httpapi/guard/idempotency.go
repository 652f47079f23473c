// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
)

// Idempotency configures how a repeated write with the same Idempotency-Key is recognized and
// answered.
type Idempotency struct {
	Keys          ports.Idempotency
	Sealer        ports.Sealer
	Fingerprinter ports.Fingerprinter
	Now           func() time.Time
	// Lease is how long a claim on a key lasts without renewal. After that, a repetition of the
	// request can claim the key. The default is idempotency.Lease.
	Lease time.Duration
}

// storeTimeout limits the store calls of this package that claim, release or abandon a key, or
// store an answer or an audit entry.
const storeTimeout = 5 * time.Second

// keyedWrite is a request with an Idempotency-Key and the stored record of that key.
type keyedWrite struct {
	keyID   idempotency.KeyID
	content []byte // the content of the request (see idempotency.Request)
	// record is the stored record of the key. It is valid if hasRecord is true.
	record    idempotency.Record
	hasRecord bool
	// claimBegan is when the call of the store that claimed the key began. The lease is counted
	// from this time, because the store grants it later.
	claimBegan time.Time
}

// replayStored answers a request whose Idempotency-Key has a record, unless the request may claim
// the key.
func (g *guard) replayStored(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if !e.route.rules.Write {
			next.ServeHTTP(w, r)
			return
		}
		keyed := keyedWriteOf(r, e)
		e.write, e.act.Write = keyed, keyed.keyID.Key[:]
		if g.checkRecord(w, r, keyed) {
			next.ServeHTTP(w, r)
		}
	})
}

// keyedWriteOf returns the key and the content of a write. It leaves the body readable.
func keyedWriteOf(r *http.Request, e *exchange) *keyedWrite {
	request := idempotency.Request{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Body: peekBody(r)}
	key := sha256.Sum256([]byte(r.Header.Get("Idempotency-Key") + boundsSuffix(e)))
	return &keyedWrite{keyID: idempotency.KeyID{Account: e.caller.Account.ID, Key: key}, content: request.Text()}
}

// boundsSuffix returns the text that is appended to the Idempotency-Key before it is hashed. It
// separates the answers to API keys with different bounds. An answer may be replayed only to an API
// key that could have received it.
//
//   - For an API key without bounds, the suffix is empty for all writes. Two different writes with
//     one Idempotency-Key are therefore a conflict.
//   - For a write that manages API keys, the suffix contains all bounds of the caller's key.
//   - For any other write, the suffix contains the tenants to which the caller's key is limited. It
//     is empty if the key is not limited to some tenants.
//
// A suffix begins with a space, which an Idempotency-Key cannot contain.
func boundsSuffix(e *exchange) string {
	switch bounds := e.caller.Bounds; {
	case e.route.rules.ManagesKeys && bounds.Text() != access.Unbounded().Text():
		return " " + bounds.Text()
	case bounds.Tenants != nil:
		return " " + access.Bounds{Tenants: bounds.Tenants}.Text()
	default:
		return ""
	}
}

// checkRecord reads the stored record of the key. It returns true if the request can claim the key.
// Otherwise it answers the request and returns false.
func (g *guard) checkRecord(w http.ResponseWriter, r *http.Request, keyed *keyedWrite) bool {
	var err error
	if keyed.record, keyed.hasRecord, err = g.idempotency.Keys.KeyRecord(r.Context(), keyed.keyID); err != nil {
		Refuse(w, r, err)
		return false
	}
	if !keyed.hasRecord {
		return true
	}
	verdict := idempotency.Decide(keyed.record, g.idempotency.Fingerprinter.Matches(keyed.content, keyed.record.Fingerprint), g.idempotency.Now())
	if verdict == idempotency.Run {
		return true
	}
	// A request that checkRecord answers counts as a read, although its operation is a write.
	if _, ok := g.countRequest(w, r, Reads); !ok {
		return false
	}
	switch verdict {
	case idempotency.Replay:
		g.sendStored(w, r, keyed)
	case idempotency.Busy:
		Refuse(w, r, keyInProgressError())
	default:
		Refuse(w, r, fault.KeyConflict.With("the Idempotency-Key was used for another method, path, query string or body"))
	}
	return false
}

// keyInProgressError returns the error for a request whose key belongs to a request in progress.
func keyInProgressError() error {
	return fault.KeyInProgress.RetryIn(time.Second, "the first request with this Idempotency-Key is still running")
}

// claimKey lets only one of several requests with the same key execute the operation at a time.
// That request continues even if its caller disconnects.
func (g *guard) claimKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if !e.route.rules.Write {
			next.ServeHTTP(w, r)
			return
		}
		r = r.WithContext(context.WithoutCancel(r.Context()))
		attempt, ok := g.acquireKey(w, r, e.write)
		if !ok {
			return
		}
		g.runOperation(w, r, &run{guard: g, keyedWrite: e.write, attempt: attempt}, next)
	})
}

// maxClaimAttempts limits how often a request tries to claim a key. A claim can fail if other
// requests claim and release the key at the same time.
const maxClaimAttempts = 3

// acquireKey claims the key and returns the id of the attempt. If it cannot claim the key, it
// answers the request and returns false. If a different request holds the key, the answer comes
// from that request's record.
func (g *guard) acquireKey(w http.ResponseWriter, r *http.Request, keyed *keyedWrite) (attempt string, won bool) {
	for range maxClaimAttempts {
		attempt, won, err := g.tryClaim(r.Context(), keyed)
		if err != nil {
			Refuse(w, r, err)
			return "", false
		}
		if won {
			return attempt, true
		}
		if !g.checkRecord(w, r, keyed) {
			exchangeOf(r.Context()).lostKey = keyed.hasRecord // false if the store failed
			return "", false
		}
	}
	exchangeOf(r.Context()).lostKey = true
	Refuse(w, r, keyInProgressError())
	return "", false
}

// tryClaim claims a key that has no record. If there is a record, it takes the key over from the
// recorded attempt.
func (g *guard) tryClaim(ctx context.Context, keyed *keyedWrite) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	fingerprint, err := g.idempotency.Fingerprinter.Fingerprint(keyed.content)
	if err != nil {
		return "", false, err
	}
	keyed.claimBegan = time.Now()
	claim := ports.Claim{Key: keyed.keyID, Fingerprint: fingerprint, Lease: g.idempotency.Lease, Now: g.idempotency.Now()}
	if keyed.hasRecord {
		return g.idempotency.Keys.TakeOver(ctx, keyed.record.Attempt, claim)
	}
	return g.idempotency.Keys.Claim(ctx, claim)
}

// checkIdempotencyKey answers 400 if a write has no valid Idempotency-Key header.
func (g *guard) checkIdempotencyKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !exchangeOf(r.Context()).route.rules.Write {
			next.ServeHTTP(w, r)
			return
		}
		switch values := r.Header.Values("Idempotency-Key"); {
		case len(values) == 0:
			Refuse(w, r, fault.KeyRequired.With("a write needs an Idempotency-Key header"))
		case len(values) > 1 || !isValidKey(values[0]):
			Refuse(w, r, fault.InvalidKey.With("the Idempotency-Key is not one header of 1 to 255 visible ASCII characters"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isValidKey reports whether an Idempotency-Key has 1 to 255 visible ASCII characters.
func isValidKey(key string) bool {
	return len(key) >= 1 && len(key) <= 255 &&
		strings.IndexFunc(key, func(c rune) bool { return c < '!' || c > '~' }) < 0
}
