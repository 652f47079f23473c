// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
)

// DomainChecks are the verified domains of all accounts, for the worker that
// reads their DNS again and again.
type DomainChecks interface {
	// StaleDomains lists verified domains that were last read at before or
	// earlier, at most that many: those never read first, then the one whose read
	// is longest ago.
	StaleDomains(ctx context.Context, before time.Time, most int) ([]StaleDomain, error)
	// DomainHealth counts verified domains.
	DomainHealth(ctx context.Context) (DomainHealth, error)
}

// StaleDomain names a domain that is to be read again.
type StaleDomain struct {
	ID      string
	Account access.AccountID
}

// DomainHealth is how the verified domains of all accounts are.
type DomainHealth struct {
	Verified int
	// Oldest is the time of the read that is longest ago; zero when there is
	// none. A domain that was never read counts from its creation.
	Oldest time.Time
	// Drifted counts those in which something drifted, by kind.
	Drifted map[domain.Drift]int
}
