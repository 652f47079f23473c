// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
)

// Audit keeps what operators did. A store is opened for one operator. Each of
// its methods that acts on behalf of operators says so, and records the act in
// the transaction that acts: neither is there without the other.
type Audit interface {
	// RecordAct records an act on something outside the database.
	RecordAct(ctx context.Context, action audit.Action, details map[string]string) error
	// AuditEvents lists acts, newest first.
	AuditEvents(ctx context.Context, q AuditQuery) ([]audit.Event, error)
}

// AuditQuery narrows a list of acts.
type AuditQuery struct {
	Account access.AccountID // only acts on this account, unless empty
	Since   time.Time        // only acts at or after, unless zero
	Limit   int              // at most so many
}
