// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/core/outcome"
)

// enforceSweepEvery is how often tenants are looked for that are due to be
// counted. The sandbox keeps to it: there limits are enforced when its control
// interface is told so, and a sweep is not to come first.
const enforceSweepEvery = time.Minute

// enforceLimits makes the runner that counts messages and enforces limits.
func (s *service) enforceLimits(o outside) error {
	m, err := telemetry.NewEnforcement()
	if err != nil {
		return err
	}
	s.enforcer = &enforcement.Runner{
		Runs: s.store, Policies: s.store, Tenants: s.store, Platform: s.platform, Now: o.now,
		Late: m.Late, Changed: m.Changed, Ended: m.Ended, OnlyLimited: o.onlyLimited,
	}
	return nil
}

// enforceNow is one run of all tenants. What a mail platform did not let it do
// is left to the next run, as ever.
func (s *service) enforceNow(ctx context.Context) error {
	err := s.enforcer.RunAll(ctx)
	if outcome.Of(err) != 0 {
		s.log.WarnContext(ctx, "limits of some tenants could not be enforced", "error", err)
		return nil
	}
	return err
}
