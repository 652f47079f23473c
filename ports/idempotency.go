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
