// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Wanted is the limit that a caller asks for. PerDay is 0 when it was of a
// wrong kind.
type Wanted struct {
	DomainScope *string // as it was written; nil for the whole tenant
	PerDay      int
}

// Outcome is a limit that was set, and what became of its policy and rule.
type Outcome struct {
	Limit

	Became sendlimit.Set
}

// Set enforces a daily limit in a scope.
//
// That a rule is about to be is stored first, so that whoever deletes the
// tenant knows of it. The policy is in force once the mail platform has the
// rule, and not before: else it would claim protection that is not there. Any
// of it may be repeated. Refusals: tenant_not_found, domain_not_found,
// invalid_send_limit, access_denied, exchange_bootstrap_not_ready.
func (s *Service) Set(ctx context.Context, owner access.AccountID, id tenant.GUID, w Wanted) (Outcome, error) {
	scope, err := s.admit(ctx, owner, id, w)
	if err != nil {
		return Outcome{}, err
	}
	limit := s.Limit
	if limit == 0 {
		limit = workLimit
	}
	ctx, cancel := settling.Detach(ctx, limit)
	defer cancel()
	p, err := s.Policies.ReservePolicy(ctx, owner, id, scope, s.Now())
	if err != nil {
		return Outcome{}, fmt.Errorf("reserve policy: %w", err)
	}
	all, err := s.Mailboxes.Mailboxes(ctx, owner, id)
	if err != nil {
		return Outcome{}, err
	}
	addresses := within(p, all)
	rule, err := s.ensure(ctx, p, addresses)
	if err != nil {
		return Outcome{}, settling.Consent{Tenants: s.Tenants, Platform: s.Platform}.Notice(ctx, owner, id, err)
	}
	var out Outcome
	out.Mailboxes = len(addresses)
	now := s.Now().UTC().Truncate(time.Microsecond) // as it will be read again
	out.Policy, out.Became = p.With(w.PerDay, rule, now)
	return out, s.save(ctx, owner, out)
}

// admit refuses what needs no look at the platform, and returns the scope.
func (s *Service) admit(ctx context.Context, owner access.AccountID, id tenant.GUID, w Wanted) (string, error) {
	scope := sendlimit.TenantWide
	if w.DomainScope != nil {
		d, err := s.Domains.Domain(ctx, owner, id, domain.Lookup(*w.DomainScope))
		if err != nil {
			return "", err
		}
		scope = d.Name
	}
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if err != nil {
		return "", err
	}
	if err := sendlimit.Valid(w.PerDay); err != nil {
		return "", err
	}
	if err := t.Reachable(); err != nil {
		return "", err
	}
	if t.Bootstrap != tenant.BootstrapReady {
		return "", fault.ExchangeNotReady.With("the mail server of the tenant is not prepared yet")
	}
	return scope, nil
}

func (s *Service) save(ctx context.Context, owner access.AccountID, out Outcome) error {
	ctx, err := ports.Complete(ctx, out)
	if err != nil {
		return err
	}
	err = settling.Store(ctx, func(ctx context.Context) error { return s.Policies.SavePolicy(ctx, owner, out.Policy) })
	failpoint.Hit("limits.after-save")
	switch {
	case errors.Is(err, fault.PolicyNotFound):
		return s.gone(ctx, owner, out.Policy)
	case err != nil:
		return fmt.Errorf("save policy: %w", err)
	}
	return nil
}

// gone says what took a policy with it while it was set.
func (s *Service) gone(ctx context.Context, owner access.AccountID, p sendlimit.Policy) error {
	if _, err := s.Tenants.Tenant(ctx, owner, p.Tenant); err != nil || p.Scope == sendlimit.TenantWide {
		return cmp.Or(err, fault.TenantNotFound.With("the account holds no such tenant"))
	}
	return fault.DomainNotFound.With("the tenant holds no such domain")
}
