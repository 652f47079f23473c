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
	// Domains lists the domains of a tenant, sorted by name. It leaves out domains that are only
	// reserved (Added is false), and domains that are missing: discoveries did not find them at the
	// platform. It fails with tenant_not_found.
	Domains(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]domain.Domain, error)
	// Domain returns a domain that Domains would list, by its name. It fails with tenant_not_found
	// or domain_not_found.
	Domain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error)
	// DomainByID returns a domain that Domains would list, by its row id. It fails with
	// domain_not_found.
	DomainByID(ctx context.Context, owner access.AccountID, domainID string) (domain.Domain, error)
	// ReserveDomain reserves a domain, and returns its row:
	//
	//   - The domain has no row: the reservation is a new row, and JustReserved is set.
	//   - The domain was added and is not missing: the row is returned without a change.
	//   - The domain is missing: its row becomes a reservation, and Added is false.
	//   - The row is a reservation: the reservation is renewed, and PreviousReservedAt is its old
	//     time.
	//
	// Each time a row is reserved again, its ReservedAt increases. WithdrawReservation undoes this
	// increase. ReserveDomain deletes the record of an earlier removal of the domain: discoveries
	// may then store the domain again, and a later removal does not repeat the earlier one. It runs
	// in one transaction under a lock on the tenant. It fails with tenant_not_found, or with
	// domain_limit_reached if the domain needs a new reservation and the tenant has maxDomains
	// rows. Reservations count, missing domains do not.
	ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, maxDomains int, now time.Time) (domain.Domain, error)
	// WithdrawReservation undoes the renewal of a reservation: the row gets the time
	// d.PreviousReservedAt again. It does nothing if the domain was added, or if a different
	// request has reserved it since.
	WithdrawReservation(ctx context.Context, owner access.AccountID, d domain.Domain) error
	// EndReservation ends a reservation whose domain was not added. If the domain was missing
	// before the reservation, its row becomes missing again, with the old MissingSince. Otherwise
	// EndReservation deletes the row. It does nothing if the domain was added, or if a different
	// request has reserved it after reservedAt.
	EndReservation(ctx context.Context, owner access.AccountID, domainID string, reservedAt time.Time) error
	// SaveDomain does the same as ChangeDomain, and commits the stored answer with the change.
	SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain, storedAnswer *StoredAnswer) error
	// ChangeDomain merges the observation d into the stored domain with domain.Domain.Merge. It
	// keeps each stored part that was observed later than the same part of d. It returns the stored
	// domain. It fails with domain_not_found.
	ChangeDomain(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error)
}

// DomainChecks provides the verified domains of all active accounts to the worker that rereads
// their DNS. It ignores domains that are missing at the platform.
type DomainChecks interface {
	// StaleDomains lists at most limit verified domains whose last read was at or before the given
	// time, oldest read first. A domain that was never read counts as read at its creation.
	StaleDomains(ctx context.Context, before time.Time, limit int) ([]StaleDomain, error)
	// DomainHealth summarizes the verified domains.
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
	// OldestRead is the earliest time of a domain's last read. It is zero if there are no domains.
	// A domain that was never read counts as read at its creation.
	OldestRead time.Time
	// Drifted is the number of domains with drift, by kind.
	Drifted map[domain.Drift]int
}
