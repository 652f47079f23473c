// SPDX-License-Identifier: Apache-2.0

// Package domains adds, verifies and signs custom domains, shows their DNS and
// plans what it needs.
package domains

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// workLimit bounds what one request does at the platform.
const workLimit = 55 * time.Second

// searchLimit is longer than the platform's replicas take to show a domain
// that was just added.
const searchLimit = 6 * time.Second

// Service holds the use cases of domains.
type Service struct {
	Tenants  ports.Tenants
	Domains  ports.Domains
	Platform ports.MailPlatform
	DNS      ports.DNSReader
	Settling *settling.Pass
	// Connections reach the zones of accounts at their DNS providers, Writes
	// tells our own records from other people's.
	Connections *dnsconnections.Service
	Writes      ports.DNSWrites
	// DMARC is the operator's record for domains that have none;
	// dns.DefaultPolicy unless set.
	DMARC string
	Now   func() time.Time
	// Search is how long a domain whose adding brought no answer is looked
	// for; 6 s unless set.
	Search time.Duration
}

// List returns a tenant's domains by name.
func (s *Service) List(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]domain.Domain, error) {
	return s.Domains.Domains(ctx, owner, id)
}

// Stored returns a domain as it is stored, without a live read.
func (s *Service) Stored(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	return s.Domains.Domain(ctx, owner, id, domain.Lookup(name))
}

// ByID returns a domain by its row id, as it is stored.
func (s *Service) ByID(ctx context.Context, owner access.AccountID, domainID string) (domain.Domain, error) {
	return s.Domains.DomainByID(ctx, owner, domainID)
}

func (s *Service) save(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	return settling.Store(ctx, func(ctx context.Context) error { return s.Domains.SaveDomain(ctx, owner, d) })
}

// noticed lets a lost consent be seen before the error goes on its way.
func (s *Service) noticed(ctx context.Context, owner access.AccountID, id tenant.GUID, err error) error {
	return settling.Consent{Tenants: s.Tenants, Platform: s.Platform}.Notice(ctx, owner, id, err)
}
