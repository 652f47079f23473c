// SPDX-License-Identifier: Apache-2.0

// Package domains adds and verifies custom domains, enables their DKIM signing, and plans the DNS
// records that they need.
//
// The main types are Service, which holds the use cases of callers and of jobs, Survey, a live read
// of a domain's DNS with its plan, and Watch, which rereads the DNS of verified domains.
//
// Start reading at Service in domains.go. Adding is in add.go and platform_add.go, verification in
// verify.go, DKIM in dkim.go. Surveys, their writes and the records that the platform asks for are
// in survey.go. The search for the DNS provider that holds a zone is in zone_holder.go. The steps
// that provisioning jobs call are in steps.go. The daily check and its backoff during a resolver
// outage are in watch.go.
package domains

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// workLimit bounds the calls of one request to the mail platform.
const workLimit = 55 * time.Second

// searchLimit is longer than the platform's replicas take to show a domain that was just added.
const searchLimit = 6 * time.Second

// Service holds the use cases of domains. All fields but DMARC and Search are required.
type Service struct {
	Tenants    ports.Tenants
	Domains    ports.Domains
	Platform   ports.MailPlatform
	DNS        ports.DNSReader
	Reconciler *reconcile.Pass
	// Connections opens the zones of accounts at their DNS providers. Writes stores which records
	// tenantry manages, so that they are distinguished from foreign records.
	Connections *dnsconnections.Service
	Writes      ports.DNSWrites
	// DMARC is the operator's DMARC record for domains that have none. It defaults to
	// dns.DefaultPolicy.
	DMARC string
	Now   func() time.Time
	// Search is how long Add searches for a domain after an unknown outcome. It defaults to 6 s.
	Search time.Duration
}

// List returns the domains of a tenant, sorted by name. It fails with tenant_not_found.
func (s *Service) List(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]domain.Domain, error) {
	return s.Domains.Domains(ctx, owner, id)
}

// Stored returns a domain as it is stored, without a live read. It fails with tenant_not_found or
// domain_not_found.
func (s *Service) Stored(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	return s.Domains.Domain(ctx, owner, id, domain.Lookup(name))
}

// ByID returns the stored domain with this row id. It fails with domain_not_found.
func (s *Service) ByID(ctx context.Context, owner access.AccountID, domainID string) (domain.Domain, error) {
	return s.Domains.DomainByID(ctx, owner, domainID)
}

// recordLostConsent returns err unchanged. If err shows that the tenant's consent is gone, it
// stores that first.
func (s *Service) recordLostConsent(ctx context.Context, owner access.AccountID, id tenant.GUID, err error) error {
	return reconcile.Consent{Tenants: s.Tenants, Platform: s.Platform}.Notice(ctx, owner, id, err)
}
