// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"sync"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports/failpoint"
)

const (
	// unruledAtOnce is of how many tenants rules are taken out side by side.
	unruledAtOnce = 8
	// closeLease is how long no run begins in tenants of an account that is
	// about to be closed.
	closeLease = 10 * time.Minute
)

// Withdrawn is whose tenant it was, and what became of our rules in it.
type Withdrawn struct {
	Account access.AccountID
	Unruled
}

// Withdraw ends an assignment on the operator's behalf, our rules first, as
// Delete does. Refusal: tenant_not_found.
func (s *Service) Withdraw(ctx context.Context, id tenant.GUID) (Withdrawn, error) {
	guid := tenant.LookupGUID(string(id))
	owner, err := s.Assignments.Assigned(ctx, guid)
	if err != nil {
		return Withdrawn{}, err
	}
	t, err := s.Tenants.Tenant(ctx, owner, guid)
	if err != nil {
		return Withdrawn{}, err
	}
	ctx, cancel := settling.Detach(ctx, deleteLimit)
	defer cancel()
	gone, err := s.unrule(ctx, owner, t, runLease)
	if err != nil {
		return Withdrawn{}, err
	}
	failpoint.Hit("tenants.before-withdraw")
	owner, err = s.Assignments.Withdraw(ctx, guid, gone.Left...)
	return Withdrawn{owner, gone}, err
}

// UnruledTenant is what became of our rules in one tenant of an account.
type UnruledTenant struct {
	Tenant tenant.GUID
	Unruled
}

// Unrule takes our rules out of all tenants of an account that the operator is
// about to close, and returns those that may have had some.
func (s *Service) Unrule(ctx context.Context, owner access.AccountID) ([]UnruledTenant, error) {
	held, err := s.Tenants.Tenants(ctx, owner)
	if err != nil {
		return nil, err
	}
	gone, errs := make([]Unruled, len(held)), make([]error, len(held))
	places := make(chan struct{}, unruledAtOnce)
	var wg sync.WaitGroup
	for n, t := range held {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, deleteLimit)
			defer cancel()
			gone[n], errs[n] = s.unrule(ctx, owner, t, closeLease)
		})
	}
	wg.Wait()
	var all []UnruledTenant
	for n, t := range held {
		if errs[n] != nil {
			return nil, errs[n]
		}
		if gone[n].Removed || len(gone[n].Left) > 0 {
			all = append(all, UnruledTenant{t.GUID, gone[n]})
		}
	}
	return all, nil
}
