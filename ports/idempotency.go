// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/idempotency"
)

// Idempotency stores the idempotency keys of writes. Leases use the database's clock, which all
// replicas share. Expiry uses the caller's clock.
type Idempotency interface {
	// Remembered returns the record of a key. found is false for an unused key.
	Remembered(ctx context.Context, at idempotency.KeyID) (r idempotency.Record, found bool, err error)
	// Claim inserts an unused key. Of concurrent calls one wins and gets the name of its attempt.
	Claim(ctx context.Context, c Claim) (attempt string, won bool, err error)
	// TakeOver claims a key from the attempt from. It succeeds only if that attempt still holds the
	// key, its lease has ended, and there is no answer that is valid at c.Now.
	TakeOver(ctx context.Context, from string, c Claim) (attempt string, won bool, err error)
	// Hold renews the lease of an attempt. held is false if a different attempt has the key. The
	// same is true for Finish, Leave and Release.
	Hold(ctx context.Context, at idempotency.KeyID, attempt string, lease time.Duration) (held bool, err error)
	// Finish stores the sealed answer, to be kept until the given time. It may be repeated.
	Finish(ctx context.Context, at idempotency.KeyID, attempt string, answer []byte, until time.Time) (held bool, err error)
	// Leave ends an attempt without storing an answer.
	Leave(ctx context.Context, at idempotency.KeyID, attempt string, until time.Time) (held bool, err error)
	// Release deletes the key.
	Release(ctx context.Context, at idempotency.KeyID, attempt string) (held bool, err error)
	// Reap deletes at most that many keys that have expired at now and are not leased. It returns
	// their number.
	Reap(ctx context.Context, now time.Time, most int) (int, error)
}

// Claim holds the data of a new claim of a key.
type Claim struct {
	Key         idempotency.KeyID
	Fingerprint []byte
	Lease       time.Duration
	Now         time.Time
}

// Completion is the answer of an idempotent write, sealed for storage. A store that is passed one
// commits it in the transaction of the change that the answer describes. If a different attempt
// holds the key by then, the store commits neither and fails with
// idempotency_request_in_progress. Without a Completion it commits only the change.
type Completion struct {
	Key     idempotency.KeyID
	Attempt string
	Answer  []byte
	Until   time.Time
}

// Answer returns the Completion for the result of a use case, or nil if the answer is not to be
// stored. A use case takes an Answer only if a second run would return a different result. Before
// its last change it makes the Completion and passes it to the store. A nil Answer stands for a
// caller without an Idempotency-Key.
type Answer[R any] func(R) (*Completion, error)

// Completion calls a with the result. It returns nil if a is nil.
func (a Answer[R]) Completion(result R) (*Completion, error) {
	if a == nil {
		return nil, nil
	}
	return a(result)
}
