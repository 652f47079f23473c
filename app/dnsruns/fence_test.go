// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// behind is a context whose deadline is over and whose timer has not run yet, as
// a process sees it that was stopped and continues.
type behind struct {
	context.Context
	deadline time.Time
}

func (b behind) Deadline() (time.Time, bool) { return b.deadline, true }

// slowJobs are held, but that takes longer than a lease.
type slowJobs struct{ ports.DNSJobs }

func (slowJobs) HoldJob(_ context.Context, _ provisioning.Job, lease time.Duration) (bool, error) {
	<-time.After(lease + time.Millisecond)
	return true, nil
}

func TestAWriteAfterTheLeaseIsNone(t *testing.T) {
	c := &claim{Worker: &Worker{Jobs: slowJobs{}, Lease: 20 * time.Millisecond}}
	for name, ctx := range map[string]context.Context{
		"without a deadline":          t.Context(),
		"with one that is over first": behind{t.Context(), time.Now()},
	} {
		err := c.guard(ctx, func(context.Context) error {
			t.Errorf("%s: it wrote", name)
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
