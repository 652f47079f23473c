// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tenantry/tenantry/adapters/testserver/interleaving"
	"github.com/tenantry/tenantry/core/fault"
)

// attachRace is a race of requests that change which tenants the account ann has. During the race,
// ann has one slot.
type attachRace struct {
	*race
	inactive bool // whether the account was deactivated
}

// connectTenant returns a use case that signs in and confirms, as an administrator does. The use
// case ignores the error of an account without a free slot or an active plan.
func (r *attachRace) connectTenant(username string) useCase {
	b := r.openCallback(r.t, r.grantConsent(r.t, r.ann, username))
	query := r.visitPage(r.t, b.page, username)
	return func(ctx context.Context) error {
		confirmation, err := r.FinishSignIn(ctx, query, b.cookie)
		if err == nil {
			interleaving.Step(ctx)
			_, err = r.Confirm(ctx, b.cookie, confirmation.CSRF, true) // the only step of Confirm is before Attach
		}
		switch {
		case err == nil && r.inactive:
			return errors.New("an inactive account attached a tenant")
		case errors.Is(err, fault.TenantLimitReached), errors.Is(err, fault.NoAPIPlan):
			return nil
		}
		return err
	}
}

func (r *attachRace) deactivate(ctx context.Context) error {
	interleaving.Step(ctx)
	_, err := r.store.SetActive(ctx, r.ann.ID, false)
	r.inactive = err == nil
	return err
}

func (r *attachRace) delete(ctx context.Context) error {
	interleaving.Step(ctx)
	_, err := r.Delete(ctx, r.ann.ID, guid, nil)
	return err
}

var attachRaces = []struct {
	name       string
	minTenants int // the smallest number of tenants that the account may have after the race
	prepare    func(r *attachRace)
	useCases   func(r *attachRace) []useCase
}{
	{
		"two tenants and one slot", 1,
		func(*attachRace) {},
		func(r *attachRace) []useCase {
			return []useCase{r.connectTenant(admin), r.connectTenant(otherAdmin)}
		},
	},
	{
		"a tenant and the deactivation of the account", 0,
		func(*attachRace) {},
		func(r *attachRace) []useCase { return []useCase{r.connectTenant(admin), r.deactivate} },
	},
	{
		"a deletion and two tenants", 0,
		func(r *attachRace) { r.connect(r.t, r.ann, admin) },
		func(r *attachRace) []useCase {
			return []useCase{r.delete, r.connectTenant(admin), r.connectTenant(otherAdmin)}
		},
	},
}

// TestSlotsLimitTheTenantsInEveryOrder checks that an account has no more tenants than slots after
// a race, and that no request attaches a tenant to an inactive account.
func TestSlotsLimitTheTenantsInEveryOrder(t *testing.T) {
	for _, tc := range attachRaces {
		t.Run(tc.name, func(t *testing.T) {
			interleaving.Explore(t, 3, func(t *testing.T, order *interleaving.Order) {
				synctest.Test(t, func(t *testing.T) {
					r := &attachRace{race: newRaceOf(t, newFixture(t))}
					_, err := r.store.ChangePlan(t.Context(), r.ann.ID, "complete", 2)
					must(t, err)
					tc.prepare(r)
					useCases := tc.useCases(r)
					_, err = r.store.ChangePlan(t.Context(), r.ann.ID, "complete", 1)
					must(t, err)
					r.runInOrder(order, useCases...)
					if guids := r.listedTenants(t, r.ann); len(guids) > 1 || len(guids) < tc.minTenants {
						t.Errorf("the account with one slot has the tenants %v, want %d or 1", guids, tc.minTenants)
					}
				})
			})
		})
	}
}
