// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

type setLimitInput struct {
	TenantID string `path:"tenant_id"`
	Body     setLimit
}

type getLimitInput struct {
	TenantID    string `path:"tenant_id"`
	DomainScope string `query:"domain_scope"`

	domainScope *string // nil if the parameter is missing
}

// Resolve distinguishes an empty domain_scope from a missing one.
func (in *getLimitInput) Resolve(ctx huma.Context) []error {
	if address := ctx.URL(); address.Query().Has("domain_scope") {
		in.domainScope = &in.DomainScope
	}
	return nil
}

func sendLimitOperations(api huma.API, service *limits.Service) {
	setMailboxLimit(api, service)
	getMailboxLimit(api, service)
}

func setMailboxLimit(api huma.API, service *limits.Service) {
	register(api, huma.Operation{
		OperationID: "set-mailbox-limit", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/mailbox-limits", Tags: []string{tagMailboxes},
		Summary: "Enforce a daily send limit",
		Description: "Sets a limit that is enforced, for one domain or, without `domain_scope`, for all of the tenant, and makes sure of the " +
			"mail flow rule that blocks mailboxes beyond it. A mailbox's own stored limit goes before its domain's, and that before the " +
			"tenant's. It is safe to repeat. Counts come from the mail platform's message trace, which is minutes late, and the mail platform " +
			"needs up to about 30 minutes to act on a rule: a mailbox can pass its limit by what it sends meanwhile.",
		Metadata: terms{bucket: providerHeavy, write: true, request: exampleSetLimit, answer: exampleLimitSet,
			refuses: codes(platformCodes, only(fault.InvalidSendLimit, fault.TenantNotFound, fault.DomainNotFound, fault.ExchangeNotReady))}.metadata(),
		SkipValidateBody: true, // setLimit validates the body
	}, func(ctx context.Context, who access.Caller, in *setLimitInput) (limitSet, error) {
		wanted, err := in.Body.wanted()
		if err != nil {
			return limitSet{}, err
		}
		out, err := service.Set(completing(ctx, limitSetOf), who.Account.ID, tenant.LookupGUID(in.TenantID), wanted)
		if err != nil {
			return limitSet{}, err
		}
		return limitSetOf(out), nil
	})
}

func getMailboxLimit(api huma.API, service *limits.Service) {
	register(api, huma.Operation{
		OperationID: "get-mailbox-limit", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/mailbox-limits", Tags: []string{tagMailboxes},
		Summary:     "Get an enforced send limit",
		Description: "Returns the limit that is enforced in a domain or, without `domain_scope`, in all of the tenant.",
		Metadata: terms{bucket: reads, answer: exampleLimitShown,
			refuses: only(fault.InvalidRequest, fault.TenantNotFound, fault.PolicyNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *getLimitInput) (limitShown, error) {
		l, err := service.Get(ctx, who.Account.ID, tenant.LookupGUID(in.TenantID), in.domainScope)
		if err != nil {
			return limitShown{}, err
		}
		return limitShownOf(l), nil
	})
}
