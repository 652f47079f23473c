// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/ports"
)

// Each of these believes a clock that was ahead.
type (
	waitsForIt   struct{ sendRunsPort }
	forgetsByIt  struct{ sendRunsPort }
	freshOfLater struct{ sendWatchPort }
)

func (b waitsForIt) DueTenants(ctx context.Context, at time.Time, most int) ([]ports.DueTenant, error) {
	all, err := b.sendRunsPort.DueTenants(ctx, at, most)
	return slices.DeleteFunc(all, func(d ports.DueTenant) bool { return d.At.After(at) }), err
}

func (b forgetsByIt) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	r.Mark = c.Mark
	return b.sendRunsPort.SaveCounts(ctx, r, c)
}

func (b freshOfLater) SendHealth(ctx context.Context, at, behind time.Time) (ports.SendHealth, error) {
	h, err := b.sendWatchPort.SendHealth(ctx, at, behind)
	if err != nil {
		return h, err
	}
	late, err := b.sendWatchPort.SendHealth(ctx, at.Add(1000*time.Hour), behind)
	h.Behind = late.Behind
	return h, err
}

func TestSendSuitesNoticeWhoBelievesAClockThatIsAhead(t *testing.T) {
	store := reusedStore(t)
	for name, broken := range map[string]struct {
		checks []storeCheck
		spoil  func(Stores) Stores
	}{
		"a tenant is due when it said":  {sendRunChecks, func(s Stores) Stores { return with(s, waitsForIt{s}) }},
		"counts are forgotten by it":    {sendRunChecks, func(s Stores) Stores { return with(s, forgetsByIt{s}) }},
		"what it counted is not behind": {sendWatchChecks, func(s Stores) Stores { return with(s, freshOfLater{s}) }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, broken.checks, broken.spoil) })
	}
}
