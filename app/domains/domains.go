// SPDX-License-Identifier: Apache-2.0

// Package domains adds, verifies and signs custom domains and shows their DNS.
package domains

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Service holds the use cases of domains.
type Service struct {
	Tenants  ports.Tenants
	Domains  ports.Domains
	Platform ports.MailPlatform
	DNS      ports.DNSReader
	Settling *settling.Pass
	Now      func() time.Time
}

// Added is the result of adding a domain.
type Added struct {
	Exists bool // it was on this tenant already; nothing changed
	Domain domain.Domain
	Live   dns.Status
	DKIM   DKIMState
}

// DKIMState is a word and a sentence on where DKIM stands.
type DKIMState struct {
	Status  string // pending, ready or enabled
	Message string
}

// DKIMReport is the live state of a domain's DKIM.
type DKIMReport struct {
	Domain               domain.Domain
	Status               string // pending, ready or enabled
	Selector1, Selector2 dns.Selector
	ReadyToEnable        bool
	CheckedAt            time.Time
}

// List returns a tenant's domains by name.
func (s *Service) List(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]domain.Domain, error) {
	panic("unwritten")
}

// Add adds a domain to a tenant.
func (s *Service) Add(ctx context.Context, acc access.Account, id tenant.GUID, name string) (Added, error) {
	panic("unwritten")
}

// Verify asks the platform to verify a domain. It is safe to repeat.
func (s *Service) Verify(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	panic("unwritten")
}

// EnableDKIM starts DKIM signing for a domain. It is safe to repeat.
func (s *Service) EnableDKIM(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	panic("unwritten")
}

// DKIMStatus reads a domain's DKIM records live.
func (s *Service) DKIMStatus(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (DKIMReport, error) {
	panic("unwritten")
}

// Stored returns a domain as it is stored, without a live read.
func (s *Service) Stored(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	panic("unwritten")
}

// ByID returns a domain by its row id, as it is stored.
func (s *Service) ByID(ctx context.Context, owner access.AccountID, domainID string) (domain.Domain, error) {
	panic("unwritten")
}
