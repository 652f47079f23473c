// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"time"

	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/settings"
)

// checkTickEvery is how often it is looked which domains are to be read again.
const checkTickEvery = 5 * time.Minute

// watchDomains makes what reads the DNS of verified domains again.
func (s *service) watchDomains(c settings.Config, o outside) error {
	results := make([]string, 0, len(domains.Checks))
	for _, check := range domains.Checks {
		results = append(results, string(check))
	}
	count, err := telemetry.DomainChecks(results...)
	if err != nil {
		return err
	}
	s.checkTick = cmp.Or(o.checkTick, checkTickEvery)
	s.watch = &domains.Watch{
		Domains: s.store, Checks: s.store, DNS: s.domains.DNS, Queue: s.queue, Now: o.now, Log: s.log, Off: !c.DomainChecks,
		Checked: func(ctx context.Context, check domains.Check) { count(ctx, string(check)) },
	}
	return nil
}
