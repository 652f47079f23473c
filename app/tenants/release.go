// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"
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
	// about to be closed: longer than it takes to ask all the tenants that one
	// may have, each in its own time.
	closeLease = time.Hour
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
	if err != nil {
		s.giveBack(ctx, gone)
	}
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
		if gone[n].Removed || len(gone[n].Left) > 0 {
			all = append(all, UnruledTenant{t.GUID, gone[n]})
		}
	}
	if err := errors.Join(errs...); err != nil {
		s.Resume(ctx, all)
		return nil, err
	}
	return all, nil
}

// Resume has enforcement go on in tenants of an account that was not closed after
// all. Their rules are made again.
func (s *Service) Resume(ctx context.Context, all []UnruledTenant) {
	for _, u := range all {
		s.giveBack(ctx, u.Unruled)
	}
}
