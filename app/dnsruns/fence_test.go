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

// lateTimer is a context whose deadline has passed but whose timer has not fired. A process that
// was suspended sees such a context when it continues.
type lateTimer struct {
	context.Context
	deadline time.Time
}

func (b lateTimer) Deadline() (time.Time, bool) { return b.deadline, true }

// slowJobs renews leases, but takes longer than a lease to do so.
type slowJobs struct{ ports.DNSJobs }

func (slowJobs) HoldJob(_ context.Context, _ provisioning.Job, lease time.Duration) (bool, error) {
	<-time.After(lease + time.Millisecond)
	return true, nil
}

func TestGuardRefusesAWriteAfterTheLease(t *testing.T) {
	c := &claim{Worker: &Worker{Jobs: slowJobs{}, Lease: 20 * time.Millisecond}}
	for name, ctx := range map[string]context.Context{
		"without a deadline":          t.Context(),
		"with one that is over first": lateTimer{t.Context(), time.Now()},
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
