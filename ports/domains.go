// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
)

// Domains stores the custom domains of the owner's tenants.
type Domains interface {
	// Domains lists the added domains of a tenant by name. For all methods except ReserveDomain,
	// missing domains do not exist. It fails with tenant_not_found.
	Domains(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]domain.Domain, error)
	// Domain returns an added domain by its name. It fails with tenant_not_found or
	// domain_not_found.
	Domain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error)
	// DomainByID returns an added domain by its row id. It fails with domain_not_found.
	DomainByID(ctx context.Context, owner access.AccountID, domainID string) (domain.Domain, error)
	// ReserveDomain stores a reservation for a domain and returns it with JustReserved set. If the
	// domain has a row already, it returns that row, in which Added says whether the domain was
	// added. A missing domain becomes a reservation again. If the row is a reservation already, it
	// renews it and sets ReservedBefore. ReservedAt is later than that of every earlier reservation
	// of the row that counts. If Removals has removed the domain, discoveries may find it again,
	// and if a removal has begun, a later one is not its repetition. It runs in one transaction
	// under a lock on the tenant. It fails with tenant_not_found, or with domain_limit_reached if
	// the domain needs a new reservation and the tenant has max rows. Reservations count, missing
	// domains do not.
	ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, max int, now time.Time) (domain.Domain, error)
	// WithdrawReservation takes back a reservation that renewed an earlier one, which then counts
	// again. It does nothing if a different request has reserved the domain since.
	WithdrawReservation(ctx context.Context, owner access.AccountID, d domain.Domain) error
	// ReleaseDomain deletes an unfinished reservation. If the domain was missing before, it is
	// missing again, since the same time. It does nothing if a different request has reserved the
	// domain after reservedAt.
	ReleaseDomain(ctx context.Context, owner access.AccountID, domainID string, reservedAt time.Time) error
	// SaveDomain does the same as ChangeDomain and commits the completion with it.
	SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain, completion *Completion) error
	// ChangeDomain merges an observation into the stored domain with domain.Domain.Merge. Parts
	// that were observed later stay. It returns the stored domain. It fails with domain_not_found.
	ChangeDomain(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error)
}

// DomainChecks provides the verified domains of all active accounts to the worker that rereads
// their DNS.
type DomainChecks interface {
	// StaleDomains lists at most limit verified domains whose last read was at or before the given
	// time, oldest read first. A domain that was never read counts as read at its creation.
	StaleDomains(ctx context.Context, before time.Time, limit int) ([]StaleDomain, error)
	// DomainHealth counts verified domains.
	DomainHealth(ctx context.Context) (DomainHealth, error)
}

// StaleDomain names a domain whose DNS must be read again.
type StaleDomain struct {
	ID      string
	Account access.AccountID
}

// DomainHealth summarizes the verified domains of all active accounts.
type DomainHealth struct {
	Verified int
	// Oldest is the time of the oldest last read, zero if there are no domains. A domain that was
	// never read counts as read at its creation.
	Oldest time.Time
	// Drifted is the number of domains with drift, by kind.
	Drifted map[domain.Drift]int
}
