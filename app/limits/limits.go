// SPDX-License-Identifier: Apache-2.0

// Package limits sets, shows and ends the daily send limits of tenants and of domains. It stores
// each limit as a policy, and creates and removes the transport rule of the policy. Package
// enforcement counts messages and blocks mailboxes.
//
// Start reading at Service.Set.
//
//   - limits.go: Service and Get
//   - set.go: Set, its checks, and the creation of the transport rule
//   - end.go: End, which unblocks the mailboxes of a policy and removes its rule
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

// workTimeout is the default of Service.Timeout.
const workTimeout = 50 * time.Second

// Service has the use cases of limits.
type Service struct {
	Tenants   ports.Tenants
	Domains   ports.Domains
	Mailboxes ports.MailboxStore
	Policies  ports.SendPolicies
	Claims    ports.TenantClaims
	Removals  ports.Removals
	Platform  ports.MailPlatform
	Now       func() time.Time
	// Pause is the time between two tries of a platform call. Timeout is the maximum duration of
	// one Set or End, without the first checks. They default to 1 s and 50 s.
	Pause, Timeout time.Duration
	// PassWait and CallWait are the fields of reconcile.EnforcementPause. They apply to End.
	PassWait, CallWait time.Duration
}

// Limit is a policy that is in force, and the number of mailboxes in its scope.
type Limit struct {
	Policy    sendlimit.Policy
	Mailboxes int
}

// Get returns the limit of a scope. The scope is a domain as the caller wrote it, or nil for the
// whole tenant. Get fails with tenant_not_found or policy_not_found.
func (s *Service) Get(ctx context.Context, owner access.AccountID, id tenant.GUID, domainScope *string) (Limit, error) {
	scope := sendlimit.TenantWide
	if domainScope != nil {
		scope = domain.ParseNameOrNone(*domainScope)
	}
	p, err := s.Policies.Policy(ctx, owner, id, scope)
	if err != nil {
		return Limit{}, err
	}
	mailboxes, err := s.Mailboxes.Mailboxes(ctx, owner, id)
	return Limit{p, len(coveredAddresses(p, mailboxes))}, err
}

func coveredAddresses(p sendlimit.Policy, mailboxes []mailbox.Mailbox) []string {
	var addresses []string
	for _, m := range mailboxes {
		if p.Covers(m.DomainName) {
			addresses = append(addresses, m.Address)
		}
	}
	return addresses
}
