// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/idempotency"
)

// Idempotency stores the idempotency keys of writes. Leases use the database's clock, which all
// replicas share. Expiry uses the caller's clock.
type Idempotency interface {
	// KeyRecord returns the record of a key. found is false for an unused key.
	KeyRecord(ctx context.Context, key idempotency.KeyID) (r idempotency.Record, found bool, err error)
	// Claim inserts an unused key. Only one of several concurrent calls wins, and gets the id of
	// its attempt.
	Claim(ctx context.Context, c Claim) (attempt string, won bool, err error)
	// TakeOver claims a key that an earlier attempt has claimed; from is the id of that attempt. It
	// succeeds only if that attempt's lease has expired and the key has no answer that is valid at
	// c.Now.
	TakeOver(ctx context.Context, from string, c Claim) (attempt string, won bool, err error)
	// RenewKeyLease renews the lease of an attempt. held is false if a different attempt has the
	// key or the key no longer exists. Finish, Abandon and Release return held in the same way.
	RenewKeyLease(ctx context.Context, key idempotency.KeyID, attempt string, lease time.Duration) (held bool, err error)
	// Finish stores the answer of a write that has no change to commit with it. It may be repeated.
	Finish(ctx context.Context, c StoredAnswer) (held bool, err error)
	// Abandon ends an attempt without storing an answer. The key is kept until the given time. A
	// key with an answer stays unchanged, and held is false.
	Abandon(ctx context.Context, key idempotency.KeyID, attempt string, until time.Time) (held bool, err error)
	// Release deletes the key. A key with an answer is kept, and held is false.
	Release(ctx context.Context, key idempotency.KeyID, attempt string) (held bool, err error)
	// Reap deletes at most limit keys that have expired at now and are not leased. It returns the
	// number of deleted keys.
	Reap(ctx context.Context, now time.Time, limit int) (int, error)
}

// Claim holds the data of a new claim of a key.
type Claim struct {
	Key         idempotency.KeyID
	Fingerprint []byte
	Lease       time.Duration
	Now         time.Time
}

// StoredAnswer is the answer of an idempotent write, encrypted for storage. A store commits it in
// the transaction of the change that the answer describes. If the attempt does not hold the key any
// more, the store commits neither and fails with idempotency_request_in_progress. If the
// StoredAnswer is nil, the store commits only the change.
type StoredAnswer struct {
	Key     idempotency.KeyID
	Attempt string
	Answer  []byte
	Until   time.Time
	// Outcome is the outcome of the request's audit entry, which is committed with the answer. It
	// is nil for a refusal that gets no entry.
	Outcome *audit.Outcome
}

// AnswerEncoder encodes the result of a use case as the answer that the store keeps for repetitions
// of the request. It returns nil if the answer must not be stored. A use case has an AnswerEncoder
// only if a second run would return a different result. The use case encodes the result before its
// last change, and passes the StoredAnswer to the store. With a nil AnswerEncoder, no answer is
// stored.
type AnswerEncoder[R any] func(R) (*StoredAnswer, error)

// Encode calls e with the result. It returns nil if e is nil.
func (e AnswerEncoder[R]) Encode(result R) (*StoredAnswer, error) {
	if e == nil {
		return nil, nil
	}
	return e(result)
}
