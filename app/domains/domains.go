// SPDX-License-Identifier: Apache-2.0

// Package domains adds, verifies and removes custom domains, and enables their DKIM signing. It
// also rereads the DNS of verified domains about once a day.
//
// Start reading at Service in domains.go. The steps that requests and provisioning jobs share, such
// as the verification, are in app/domainsteps.
//
//   - domains.go: Service, List, StoredDomain, ByID
//   - add.go: Add, the checks of its limits, and the reservation of a row
//   - platform_add.go: adds a domain at the mail platform, and resolves an unknown outcome
//   - verify.go: Verify
//   - dkim.go: EnableDKIM, DKIMStatus
//   - remove.go: Remove
//   - watch.go: Watch, the daily check of the DNS, and its pause during a resolver outage
package domains

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// workTimeout is the maximum total duration of the platform calls of one request that changes a
// domain.
const workTimeout = 55 * time.Second

// searchTime is the default of Service.Search. The platform's replicas usually show a new domain
// within this time.
const searchTime = 6 * time.Second

// Service has the use cases of domains.
type Service struct {
	*domainsteps.Steps
	Removals ports.Removals
	// Search is how long Add searches for a domain after an unknown outcome. It defaults to 6 s.
	Search time.Duration
}

// List returns the domains of a tenant, sorted by name. It fails with tenant_not_found.
func (s *Service) List(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]domain.Domain, error) {
	return s.Domains.Domains(ctx, owner, id)
}

// StoredDomain returns a domain as it is stored, without a live read. It fails with
// tenant_not_found or domain_not_found.
func (s *Service) StoredDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	return s.Domains.Domain(ctx, owner, id, domain.ParseNameOrNone(name))
}

// ByID returns the stored domain with this row id. It fails with domain_not_found.
func (s *Service) ByID(ctx context.Context, owner access.AccountID, domainID string) (domain.Domain, error) {
	return s.Domains.DomainByID(ctx, owner, domainID)
}
