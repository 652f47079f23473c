// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"hash/maphash"
)

// ZoneLocks lets one write of a zone run at a time within this process, for
// providers that compare and write in two calls. Zones share a fixed number of
// locks.
type ZoneLocks struct {
	seed  maphash.Seed
	locks [256]chan struct{}
}

// NewZoneLocks makes locks that nobody holds.
func NewZoneLocks() *ZoneLocks {
	l := &ZoneLocks{seed: maphash.MakeSeed()}
	for i := range l.locks {
		l.locks[i] = make(chan struct{}, 1)
	}
	return l
}

// Hold waits for the lock of a zone. What it returns releases it.
func (l *ZoneLocks) Hold(ctx context.Context, zone string) (release func(), err error) {
	lock := l.locks[maphash.String(l.seed, zone)%uint64(len(l.locks))]
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, NoAnswer(ctx.Err())
	}
}
