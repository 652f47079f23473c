// SPDX-License-Identifier: Apache-2.0

// Package limits sets and shows the daily limits that are enforced for a
// tenant or one of its domains.
package limits

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// workLimit bounds the work of one request unless Limit is set.
const workLimit = 50 * time.Second

// Service holds the use cases of limits.
type Service struct {
	Tenants   ports.Tenants
	Domains   ports.Domains
	Mailboxes ports.MailboxStore
	Policies  ports.SendPolicies
	Platform  ports.MailPlatform
	Now       func() time.Time
	// Pause lies between two tries of a step whose outcome is unknown; Limit
	// bounds the work of one request.
	Pause, Limit time.Duration
}

// Limit is a policy that is in force, and how many mailboxes lie in its scope.
type Limit struct {
	Policy    sendlimit.Policy
	Mailboxes int
}

// Get returns the policy of a scope: a domain as the caller wrote it, or nil
// for the whole tenant. Refusals: tenant_not_found, policy_not_found.
func (s *Service) Get(ctx context.Context, owner access.AccountID, id tenant.GUID, domainScope *string) (Limit, error) {
	scope := sendlimit.TenantWide
	if domainScope != nil {
		scope = domain.Lookup(*domainScope)
	}
	p, err := s.Policies.Policy(ctx, owner, id, scope)
	if err != nil {
		return Limit{}, err
	}
	all, err := s.Mailboxes.Mailboxes(ctx, owner, id)
	return Limit{p, len(within(p, all))}, err
}

// within are the addresses in a policy's scope.
func within(p sendlimit.Policy, all []mailbox.Mailbox) []string {
	var addresses []string
	for _, m := range all {
		if p.Covers(m.DomainName) {
			addresses = append(addresses, m.Address)
		}
	}
	return addresses
}
