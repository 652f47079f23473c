// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// SendWatch tells operators how the counting and enforcing of send limits goes.
type SendWatch interface {
	// SendHealth counts over all accounts. Tenants are behind that were last
	// counted before that.
	SendHealth(ctx context.Context, now, behind time.Time) (SendHealth, error)
	// SendStandings are those of an account's tenants that were counted, or in
	// which a mailbox is blocked.
	SendStandings(ctx context.Context, owner access.AccountID) (map[tenant.GUID]SendStanding, error)
}

// SendHealth is how the enforcement of all accounts is.
type SendHealth struct {
	// Due is when the tenant became due that is due for longest and that nobody
	// works on; zero when none is.
	Due time.Time
	// Limited are the tenants in which a limit is enforced and which let us in,
	// Behind those among them that are behind.
	Limited, Behind int
	// Blocked are the mailboxes that are blocked, Stranded those among them
	// whose tenants do not let us in, so that nobody can release them.
	Blocked, Stranded int
}

// SendStanding is how the enforcement of one tenant is.
type SendStanding struct {
	// CountedAt is when its messages were last counted, zero when they never
	// were.
	CountedAt time.Time
	// Blocked are its mailboxes that are blocked.
	Blocked int
}
