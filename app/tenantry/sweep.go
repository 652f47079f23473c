// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/idempotency"
)

// sweepEvery is how often Idempotency-Keys whose time is over are forgotten.
const sweepEvery = time.Minute

// sweepTime bounds one batch.
const sweepTime = 10 * time.Second

// reap forgets in batches, so that no statement holds the table for long.
func (s *service) reap(ctx context.Context) error {
	for gone := idempotency.Batch; gone == idempotency.Batch; {
		within, cancel := context.WithTimeout(ctx, sweepTime)
		var err error
		gone, err = s.store.Reap(within, s.once.Now(), idempotency.Batch)
		cancel()
		if err != nil {
			return fmt.Errorf("forget expired Idempotency-Keys: %w", err)
		}
	}
	return nil
}

// takeUp makes writes that the end of the last process cut off free to run
// again at once. On a server's database other processes may be at work on them,
// so there only the end of their leases does that.
func (s *service) takeUp(ctx context.Context, databaseURL string) error {
	if !strings.HasPrefix(databaseURL, "sqlite:") {
		return nil
	}
	return s.store.EndLeases(ctx)
}
