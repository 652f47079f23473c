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

// Two requests with their own Idempotency-Keys add the same domain, and the platform fails one of
// them. If one request succeeds, the domain is stored. Every domain at the platform has a row, so
// it counts towards the tenant's limit.
func TestTwoAddsOfADomainInEveryOrder(t *testing.T) {
	interleaving.Explore(t, 3, func(t *testing.T, o *interleaving.Order) {
		synctest.Test(t, func(t *testing.T) {
			h := newFixture(t)
			steps := interleaving.Steps{}
			s := h.service(fake.SteppedMailPlatform(h.fake, steps), fake.SteppedDomains(h.store, steps))
			h.fake.Fail(addFaults[o.Choose(len(addFaults))])
			var added [2]AddResult
			add := func(n int) func(context.Context) error {
				return func(ctx context.Context) (err error) {
					added[n], err = s.Add(ctx, h.acc, guid, zone, nil)
					return err
				}
			}
			errs := o.Run(t.Context(), func() {}, add(0), add(1))
			for n, err := range errs {
				if err != nil {
					continue
				}
				if d, err := h.store.Domain(t.Context(), h.acc.ID, guid, zone); err != nil || d.ID != added[n].Domain.ID || !d.Added || len(d.Verification) == 0 {
					t.Errorf("request %d succeeds with %+v, stored is %+v, %v", n, added[n].Domain, d, err)
				}
			}
			_, err := h.store.Domain(t.Context(), h.acc.ID, guid, zone)
			if held := len(h.fake.SnapshotOf(guid).Domains); held > 1 || held == 1 && err != nil {
				t.Errorf("the platform has %d domains, the store: %v; the requests: %v", held, err, errors.Join(errs...))
			}
			h.added(t)
			if n := h.fake.Effects("AddDomain"); n != 1 {
				t.Errorf("added %d times", n)
			}
		})
	})
}
