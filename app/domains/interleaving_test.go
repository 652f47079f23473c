// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/interleaving"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// addFaults are the ways in which the platform fails one of two requests that add a domain.
var addFaults = []fake.Fault{
	{Method: "AddDomain", Kind: outcome.Throttled, Times: 1},
	{Method: "AddDomain", Kind: outcome.Refused, Code: fault.DomainUnavailable, Times: 1},
	{Method: "AddDomain", Kind: outcome.Unknown, Times: 1},
	{Method: "AddDomain", Kind: outcome.Unknown, AfterEffect: true, Times: 1},
	{Method: "Domain", Kind: outcome.Down, Times: 1},
	{Method: "Records", Kind: outcome.Throttled, Times: 1},
}

// TestTwoAddsOfADomainInEveryOrder lets two requests with different Idempotency-Keys add the same
// domain, while one call of the platform fails. If a request succeeds, the domain is stored. A
// domain at the platform has a row, so that it counts towards the limit of the tenant.
func TestTwoAddsOfADomainInEveryOrder(t *testing.T) {
	interleaving.Explore(t, 3, func(t *testing.T, o *interleaving.Order) {
		synctest.Test(t, func(t *testing.T) {
			fx := newFixture(t)
			steps := interleaving.Steps{}
			service := fx.service(fake.SteppedMailPlatform(fx.fake, steps), fake.SteppedDomains(fx.store, steps))
			fx.fake.Fail(addFaults[o.Choose(len(addFaults))])
			var results [2]AddResult
			add := func(n int) func(context.Context) error {
				return func(ctx context.Context) (err error) {
					results[n], err = service.Add(ctx, fx.account, guid, zone, nil)
					return err
				}
			}
			errs := o.Run(t.Context(), func() {}, add(0), add(1))
			for n, err := range errs {
				if err != nil {
					continue
				}
				if d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone); err != nil || d.ID != results[n].Domain.ID || !d.Added || len(d.Verification) == 0 {
					t.Errorf("request %d succeeds with %+v, but stored is %+v, %v", n, results[n].Domain, d, err)
				}
			}
			_, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone)
			if atPlatform := len(fx.fake.SnapshotOf(guid).Domains); atPlatform > 1 || atPlatform == 1 && err != nil {
				t.Errorf("the platform has %d domains, want at most one and its row; the store: %v; the requests: %v", atPlatform, err, errors.Join(errs...))
			}
			fx.addDomain(t)
			if n := fx.fake.Effects("AddDomain"); n != 1 {
				t.Errorf("AddDomain took effect %d times, want once", n)
			}
		})
	})
}
