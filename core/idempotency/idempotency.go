// SPDX-License-Identifier: Apache-2.0

// Package idempotency decides what becomes of a write that carries a key: run
// it, answer it again, refuse it, and what is remembered of its end.
package idempotency

import (
	"encoding/hex"
	"time"

	"github.com/tenantry/tenantry/core/access"
)

const (
	// Kept is how long a key is remembered after its last attempt ended.
	Kept = 24 * time.Hour
	// Lease is how long a key stays with an owner who says nothing more.
	Lease = 15 * time.Second
	// MaxAnswer is the largest body that is remembered, in bytes.
	MaxAnswer = 256 << 10
	// Batch is how many forgotten keys are swept at once.
	Batch = 500
)

// Place names one key of one account. The key itself is not kept: callers put
// e-mail addresses in it.
type Place struct {
	Account access.AccountID
	Key     [32]byte // the SHA-256
}

// String is what a sealed answer is bound to.
func (p Place) String() string {
	return "idempotency/" + string(p.Account) + "/" + hex.EncodeToString(p.Key[:])
}

// Record is what is remembered of a key.
type Record struct {
	// Fingerprint tells the request from any other with the same key.
	Fingerprint []byte
	// Attempt names the run that the record belongs to now. Each run has a
	// name of its own, so one that lost the key cannot write to it.
	Attempt string
	// Leased is true while an attempt holds the lease, by the database's clock.
	Leased bool
	// Answer is the sealed answer, nil until there is one to keep.
	Answer    []byte
	ExpiresAt time.Time
}

// expired reports whether the key is not leased and its time is over.
func (r Record) expired(now time.Time) bool { return !r.Leased && !now.Before(r.ExpiresAt) }

// Verdict is what to do with a request whose key is known.
type Verdict int

// The verdicts.
const (
	// Run the operation, after the key was taken over.
	Run Verdict = iota + 1
	// Replay the remembered answer.
	Replay
	// Conflict: the key stands for another request.
	Conflict
	// Busy: the same request is still being worked on.
	Busy
)

// Judge looks at what is remembered. same tells whether it is of the same
// request.
func Judge(r Record, same bool, now time.Time) Verdict {
	switch {
	case r.expired(now):
		return Run
	case !same:
		return Conflict
	case r.Answer != nil:
		return Replay
	case r.Leased:
		return Busy
	default:
		return Run
	}
}
