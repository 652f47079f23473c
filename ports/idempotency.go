// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/idempotency"
)

// Idempotency remembers the keys of writes. Leases are measured by the
// database's clock, which all replicas share; expiry by the caller's.
type Idempotency interface {
	// Remembered looks a key up. found is false for one never used.
	Remembered(ctx context.Context, at idempotency.Place) (r idempotency.Record, found bool, err error)
	// Claim takes a key that nobody has, by one insert: of several at once
	// one wins and learns the name of its attempt.
	Claim(ctx context.Context, c Claim) (attempt string, won bool, err error)
	// TakeOver takes a key from the attempt that was seen to have it, if it
	// still has it, its lease is over, and it has left no answer that still
	// counts at c.Now.
	TakeOver(ctx context.Context, from string, c Claim) (attempt string, won bool, err error)
	// Hold renews the lease of an attempt. held is false when another has
	// the key, here and in the three that follow.
	Hold(ctx context.Context, at idempotency.Place, attempt string, lease time.Duration) (held bool, err error)
	// Finish stores the sealed answer, to be kept until then. It may be
	// repeated.
	Finish(ctx context.Context, at idempotency.Place, attempt string, answer []byte, until time.Time) (held bool, err error)
	// Leave ends an attempt without an answer to keep.
	Leave(ctx context.Context, at idempotency.Place, attempt string, until time.Time) (held bool, err error)
	// Release forgets the key.
	Release(ctx context.Context, at idempotency.Place, attempt string) (held bool, err error)
	// Reap forgets at most that many keys whose time was over at now and that
	// nobody works on, and says how many.
	Reap(ctx context.Context, now time.Time, most int) (int, error)
}

// Claim is what a key is claimed with.
type Claim struct {
	Place       idempotency.Place
	Fingerprint []byte
	Lease       time.Duration
	Now         time.Time
}
