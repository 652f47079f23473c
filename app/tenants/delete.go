// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// deleteTimeout is the timeout of Delete, of Withdraw, and of RemoveAllRules for each tenant.
	deleteTimeout = 50 * time.Second
	// pauseLease is the duration of the lease with which Delete and Withdraw pause enforcement for
	// the tenant.
	pauseLease = time.Minute
)

// DeleteResult is a tenant before its deletion, and the result of removing its managed rules.
type DeleteResult struct {
	tenant.Tenant
	RuleRemoval
}

// Delete removes the tenant from the service, with its domains, mailboxes, limits and provisioning
// jobs. It first removes the managed transport rules at the platform. Otherwise a rule would keep
// blocking mailboxes after the service has deleted their limits. If rules may remain, Delete
// deletes the tenant anyway, and the result names these rules. Delete changes nothing else at the
// platform. It fails with tenant_not_found, and with service_unavailable if a different request
// ends the pause of enforcement.
func (s *Service) Delete(ctx context.Context, owner access.AccountID, id tenant.GUID, encoder ports.AnswerEncoder[DeleteResult]) (DeleteResult, error) {
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if err != nil {
		return DeleteResult{}, err
	}
	ctx, cancel := reconcile.Detach(ctx, deleteTimeout)
	defer cancel()
	result := DeleteResult{Tenant: t}
	if result.RuleRemoval, err = s.removeManagedRules(ctx, owner, t, pauseLease); err != nil {
		return DeleteResult{}, err
	}
	storedAnswer, err := encoder.Encode(result)
	if err != nil {
		s.resumeEnforcement(ctx, result.RuleRemoval)
		return DeleteResult{}, err
	}
	err = reconcile.Store(ctx, func(ctx context.Context) error { return s.Tenants.DeleteTenant(ctx, owner, id, storedAnswer) })
	if err != nil {
		s.resumeEnforcement(ctx, result.RuleRemoval)
		return DeleteResult{}, err
	}
	return result, nil
}

// WithdrawResult is the result of Withdraw: the account to which the tenant was assigned, and the
// result of removing the managed rules.
type WithdrawResult struct {
	Account access.AccountID
	RuleRemoval
}

// Withdraw ends the assignment of a managed tenant, on behalf of the operator. Like Delete, it
// first removes the managed transport rules. It fails with the same errors as Delete.
func (s *Service) Withdraw(ctx context.Context, id tenant.GUID) (WithdrawResult, error) {
	guid := tenant.ParseGUIDOrNone(string(id))
	owner, err := s.Assignments.AccountOfManagedTenant(ctx, guid)
	if err != nil {
		return WithdrawResult{}, err
	}
	t, err := s.Tenants.Tenant(ctx, owner, guid)
	if err != nil {
		return WithdrawResult{}, err
	}
	ctx, cancel := reconcile.Detach(ctx, deleteTimeout)
	defer cancel()
	removal, err := s.removeManagedRules(ctx, owner, t, pauseLease)
	if err != nil {
		return WithdrawResult{}, err
	}
	err = reconcile.Store(ctx, func(ctx context.Context) (err error) {
		owner, err = s.Assignments.Withdraw(ctx, guid, removal.RemainingRules...)
		return err
	})
	if err != nil {
		s.resumeEnforcement(ctx, removal)
	}
	return WithdrawResult{owner, removal}, err
}
