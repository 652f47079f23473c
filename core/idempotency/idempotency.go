// SPDX-License-Identifier: Apache-2.0

// Package idempotency decides how a write with an Idempotency-Key is handled.
//
// Decide is called before the operation. It decides whether to run the operation, to replay the
// stored answer, or to refuse the request. DecideEnd is called after the operation. It decides
// whether to keep the answer, to keep only the key, or to release the key. Record is the stored
// state of a key. Request has the parts by which two requests are compared.
package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
)

const (
	// Retention is how long a key is stored after its last attempt ended, or after that attempt
	// began if it crashed.
	Retention = 24 * time.Hour
	// Lease is how long an attempt owns the key. The attempt can renew its lease.
	Lease = 15 * time.Second
	// MaxAnswer is the maximum size of a stored answer, in bytes.
	MaxAnswer = 256 << 10
	// DeleteBatch is the maximum number of expired keys that one statement deletes.
	DeleteBatch = 500
)

// KeyID identifies one key of one account. The key itself is not stored, because callers put e-mail
// addresses in it.
type KeyID struct {
	Account access.AccountID
	Key     [32]byte // SHA-256 of the key, and of bounds of the API key that may change the answer
}

// String returns the associated data of the encrypted answer, which binds the answer to its key.
func (id KeyID) String() string {
	return "idempotency/" + string(id.Account) + "/" + hex.EncodeToString(id.Key[:])
}

// Request holds the parts of a request that must be equal for two requests to be the same.
type Request struct {
	Method string
	Path   string // escaped, as received
	Query  string // raw
	Body   []byte // raw
}

// Text returns the text from which the fingerprint is computed. Each part is prefixed with its
// length, so that different requests never have the same text.
func (r Request) Text() []byte {
	body := sha256.Sum256(r.Body)
	var text []byte
	for _, part := range []string{r.Method, canonicalPath(r.Path), r.Query, string(body[:])} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
		text = append(text, part...)
	}
	return text
}

// canonicalPath returns a path with its UUIDs in lower case, because UUIDs that differ only in case
// are equal.
func canonicalPath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if id, ok := ident.Parse(s); ok {
			segments[i] = id
		}
	}
	return strings.Join(segments, "/")
}

// Record is the stored state of a key.
type Record struct {
	// Fingerprint identifies the request. Two different requests with the same key have different
	// fingerprints.
	Fingerprint []byte
	// Attempt identifies the attempt that owns the record. Each attempt has a unique id, so an
	// attempt whose lease has expired cannot overwrite the record of a newer attempt.
	Attempt string
	// Leased is true while an attempt holds the lease, by the database's clock.
	Leased bool
	// Answer is the encrypted answer, nil until there is one to keep.
	Answer    []byte
	ExpiresAt time.Time
}

// isExpired reports whether the key is not leased and its retention has ended.
func (r Record) isExpired(now time.Time) bool { return !r.Leased && !now.Before(r.ExpiresAt) }

// Verdict is the decision on a request whose key is stored.
type Verdict int

// The verdicts.
const (
	// Run executes the operation with a new attempt.
	Run Verdict = iota + 1
	// Replay returns the stored answer.
	Replay
	// Conflict refuses the request, because the key belongs to a different request.
	Conflict
	// Busy refuses the request, because the same request is still running.
	Busy
)

// Decide returns the verdict on a request whose key has the record r. sameRequest is true when the
// record belongs to the same request.
func Decide(r Record, sameRequest bool, now time.Time) Verdict {
	switch {
	case r.isExpired(now):
		return Run
	case !sameRequest:
		return Conflict
	case r.Answer != nil:
		return Replay
	case r.Leased:
		return Busy
	default:
		return Run
	}
}

// Effects describes what a request did, apart from reading the database.
type Effects struct {
	// ProviderCalled is true when a provider was called or the live DNS was read.
	ProviderCalled bool
	// Answered is true when a provider answered or a read of the live DNS ended.
	Answered bool
	// Changed is true when data were stored or may have been.
	Changed bool
	// Completed is true when the successful answer was stored in the transaction of the last
	// change.
	Completed bool
}

// Result is what happens to a key when its attempt ends.
type Result int

// The results.
const (
	// KeepAnswer stores the answer and replays it from now on.
	KeepAnswer Result = iota + 1
	// AnswerKept means that the answer is stored already.
	AnswerKept
	// KeepKey keeps the key without an answer. The same request runs again and finds the effects of
	// this attempt.
	KeepKey
	// Release deletes the key, as if it had never been used.
	Release
)

// statusesNotKept lists the statuses from 400 to 499 whose answers are never kept. Answers with
// 401, 402 and 429 depend on the caller's credentials, plan or rate. A 404 can be wrong, because
// the replicas of a provider lag and can miss an object that exists.
var statusesNotKept = []int{401, 402, 404, 429}

// DecideEnd returns what happens to the key. The decision depends on the answer's HTTP status and
// on the effects of the request:
//
//   - The answer to a successful request is kept.
//   - A refusal (4xx) is kept if Answered is true. A second run could get a different answer from
//     the provider or the DNS, and the key would then have two answers. There are two exceptions:
//     statuses in statusesNotKept, and refusals for which fromStore is true. A refusal of the
//     second kind depends only on stored data. A concurrent request can change the data, so a
//     repeated request is decided again.
//   - After any other request, the key is kept without an answer if the request asked a provider or
//     the DNS, or changed data. Otherwise the key is released.
func DecideEnd(status int, fromStore bool, e Effects) Result {
	switch {
	case status >= 200 && status < 300 && e.Completed:
		return AnswerKept
	case status >= 200 && status < 300:
		return KeepAnswer
	case e.Answered && !fromStore && status >= 400 && status < 500 && !slices.Contains(statusesNotKept, status):
		return KeepAnswer
	case e.ProviderCalled || e.Changed:
		return KeepKey
	default:
		return Release
	}
}
