// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
)

// DNSWrites stores the requests that change zones, and the values that tenantry wrote. tenantry
// uses these values to distinguish managed records from foreign records. A value is managed once
// its request is confirmed or counts as made (see dns.ResolveWrites).
type DNSWrites interface {
	// Written lists the values that were written for a domain of the account, oldest first. If
	// several writes have the same purpose, name, type and value, only the last is listed. A listed
	// value may no longer be in the zone. The list is empty for a domain of a different account.
	Written(ctx context.Context, owner access.AccountID, domainID string) ([]dns.Written, error)
	// IntendWrite stores a write before its request is sent, and returns the id of the write. The
	// values are not managed yet. IntendWrite fails with domain_not_found.
	IntendWrite(ctx context.Context, owner access.AccountID, w dns.Write) (id string, err error)
	// OpenWrites lists the writes of a domain that are neither confirmed nor dropped, oldest first.
	OpenWrites(ctx context.Context, owner access.AccountID, domainID string) ([]dns.Write, error)
	// ConfirmWrite makes the values of an open write managed. It does nothing if the write is not
	// open.
	ConfirmWrite(ctx context.Context, owner access.AccountID, id string) error
	// DropWrite deletes an open write whose request changed nothing. It does nothing if the write
	// is not open.
	DropWrite(ctx context.Context, owner access.AccountID, id string) error
}

// DNSUndo provides the writes of a run to the operator's undo.
type DNSUndo interface {
	// RunWrites returns the account of a run and the run's writes, oldest first, except those that
	// were undone. It fails with provisioning_run_not_found.
	RunWrites(ctx context.Context, runID string) (access.AccountID, []dns.Write, error)
	// BeginUndo returns the run's writes as RunWrites does. It makes the values of these writes
	// foreign, so that tenantry does not manage a record that someone publishes after the undo. It
	// also ends the run's active jobs for the domains of these writes with provisioning.Stop, so
	// that the jobs do not write again. The run's other jobs continue. BeginUndo fails with
	// domain_provisioning_already_active if a worker executes a job for one of these domains, or if
	// a different run has an active job for one of them.
	BeginUndo(ctx context.Context, owner access.AccountID, runID string, now time.Time) ([]dns.Write, error)
	// FinishUndo marks the writes as undone and records the undo, as described at Audit.
	FinishUndo(ctx context.Context, owner access.AccountID, runID string, writes []dns.Write, done UndoCounts) error
}

// UndoCounts counts the values of an undo. Restored counts the values that the undo put back or
// removed. Kept counts the values that it did not touch, because someone has changed them.
type UndoCounts struct{ Restored, Kept int }
