// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
)

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
