// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
)

// Audit stores the actions of operators. A store is opened for one operator. A method that acts for
// an operator stores its change and the record of the action in one transaction.
type Audit interface {
	// RecordAction records an action on something outside the database.
	RecordAction(ctx context.Context, action audit.Action, details map[string]string) error
	// AuditEvents lists actions, newest first.
	AuditEvents(ctx context.Context, q AuditQuery) ([]audit.Event, error)
}

// AuditQuery selects recorded actions.
type AuditQuery struct {
	Account access.AccountID // only actions on this account; empty selects all
	Since   time.Time        // only actions at or after this time; zero selects all
	Limit   int              // maximum number of events
}
