// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// SetRequest is the limit that a caller asks for. PerDay is 0 if the request's value was not a
// whole number.
type SetRequest struct {
	DomainScope *string // as the caller wrote it; nil for the whole tenant
	PerDay      int
}

// SetResult is a limit after Set. PolicyResult tells whether the policy and its rule were created,
// updated or left unchanged.
type SetResult struct {
	Limit

	PolicyResult sendlimit.PolicyResult
}

// Set enforces a daily limit in a scope. It returns the limit that is now in force.
//
// Set reserves the policy first, so that a deletion of the tenant also removes a rule that Set may
// have created. The policy comes into force last. If the platform refuses the rule, the limit in
// force stays as it was. A failed Set can be repeated.
//
// Set fails with tenant_not_found, domain_not_found, invalid_send_limit, access_denied or
// exchange_bootstrap_not_ready, and with the errors of the platform and the store. If End deletes
// the policy meanwhile, Set fails with service_unavailable.
func (s *Service) Set(ctx context.Context, owner access.AccountID, id tenant.GUID, request SetRequest, encoder ports.AnswerEncoder[SetResult]) (SetResult, error) {
	scope, err := s.checkRequest(ctx, owner, id, request)
	if err != nil {
		return SetResult{}, err
	}
	ctx, cancel := reconcile.Detach(ctx, cmp.Or(s.Timeout, workTimeout))
	defer cancel()
	p, err := s.Policies.ReservePolicy(ctx, owner, id, scope, s.Now())
	if err != nil {
		return SetResult{}, fmt.Errorf("reserve policy: %w", err)
	}
	mailboxes, err := s.Mailboxes.Mailboxes(ctx, owner, id)
	if err != nil {
		return SetResult{}, err
	}
	addresses := coveredAddresses(p, mailboxes)
	rule, err := s.ensureRule(ctx, p, addresses)
	if err != nil {
		return SetResult{}, reconcile.Consent{Tenants: s.Tenants, Platform: s.Platform, Now: s.Now}.RecordIfRevoked(ctx, owner, id, err)
	}
	result := SetResult{Limit: Limit{Mailboxes: len(addresses)}}
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		// ChangePolicy passes the stored policy, because a concurrent request may have changed it
		// since p was read.
		return s.Policies.ChangePolicy(ctx, owner, p.ID, func(current sendlimit.Policy) (sendlimit.Policy, *ports.StoredAnswer, error) {
			now := s.Now().UTC().Truncate(time.Microsecond) // the precision of the store
			result.Policy, result.PolicyResult = current.With(request.PerDay, rule, now)
			storedAnswer, err := encoder.Encode(result)
			return result.Policy, storedAnswer, err
		})
	})
	switch {
	case errors.Is(err, fault.PolicyNotFound):
		return SetResult{}, s.deletedError(ctx, owner, p)
	case err != nil:
		return SetResult{}, fmt.Errorf("save policy: %w", err)
	}
	return result, nil
}

// checkRequest makes the checks that need no platform call, and returns the scope.
func (s *Service) checkRequest(ctx context.Context, owner access.AccountID, id tenant.GUID, request SetRequest) (string, error) {
	scope := sendlimit.TenantWide
	if request.DomainScope != nil {
		d, err := s.Domains.Domain(ctx, owner, id, domain.ParseNameOrNone(*request.DomainScope))
		if err != nil {
			return "", err
		}
		scope = d.Name
	}
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if err != nil {
		return "", err
	}
	if err := sendlimit.CheckLimit(request.PerDay); err != nil {
		return "", err
	}
	return scope, t.CheckConsentAndMailServer()
}

// deletedError returns the error for a policy that was deleted during Set: with its tenant, with
// its domain, or by End.
func (s *Service) deletedError(ctx context.Context, owner access.AccountID, p sendlimit.Policy) error {
	if _, err := s.Tenants.Tenant(ctx, owner, p.Tenant); err != nil {
		return err
	}
	if p.Scope != sendlimit.TenantWide {
		if _, err := s.Domains.Domain(ctx, owner, p.Tenant, domain.ParseNameOrNone(p.Scope)); err != nil {
			return err
		}
	}
	return fault.ServiceUnavailable.RetryIn(time.Second, "another request removed the limit at the same time; try again")
}

// ensureRule returns the transport rule of a policy, and creates it if it does not exist. The
// platform needs one mailbox to create a rule. ensureRule uses any of the mailboxes, because the
// rule is switched off until enforcement blocks a mailbox. If the platform has none of the
// addresses, ensureRule creates no rule, and the first block creates it.
func (s *Service) ensureRule(ctx context.Context, p sendlimit.Policy, addresses []string) (sendlimit.Rule, error) {
	platform := s.Platform.For(p.Tenant)
	rule, err := s.ensureRuleWith(ctx, platform, p.Scope, addresses[:min(1, len(addresses))])
	if !errors.Is(err, fault.MailboxNotFound) {
		return rule, err
	}
	listedAddresses, err := s.knownAddresses(ctx, platform, addresses)
	if err != nil {
		return rule, err
	}
	if rule, err = s.ensureRuleWith(ctx, platform, p.Scope, listedAddresses[:min(1, len(listedAddresses))]); errors.Is(err, fault.MailboxNotFound) {
		return s.ensureRuleWith(ctx, platform, p.Scope, nil) // the mailbox was deleted in the meantime
	}
	return rule, err
}

// ensureRuleWith creates or finds the rule of a scope. The platform finds an existing rule by its
// name, so a call whose answer was lost can be repeated.
func (s *Service) ensureRuleWith(ctx context.Context, platform ports.MailTenant, scope string, senders []string) (rule sendlimit.Rule, err error) {
	err = reconcile.Run(ctx, reconcile.RetryPolicy{Pause: s.Pause}, func(ctx context.Context) (err error) {
		rule, err = platform.EnsureRule(ctx, scope, senders)
		return err
	}, nil)
	return rule, err
}

// knownAddresses returns the addresses for which the platform lists a mailbox.
func (s *Service) knownAddresses(ctx context.Context, platform ports.MailTenant, addresses []string) ([]string, error) {
	var listed []mailbox.Platform
	err := reconcile.Run(ctx, reconcile.RetryPolicy{Pause: s.Pause}, func(ctx context.Context) (err error) {
		listed, err = platform.Mailboxes(ctx)
		return err
	}, nil)
	return slices.DeleteFunc(slices.Clone(addresses), func(address string) bool {
		return !slices.ContainsFunc(listed, func(m mailbox.Platform) bool { return strings.EqualFold(m.Address, address) })
	}), err
}
