// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
)

// DNSWrites stores the requests that change zones, and the values that this service wrote, to
// distinguish them from foreign records. A value is managed only once its request is confirmed.
type DNSWrites interface {
	// Written lists the values that were written for a domain of the account, oldest first. Of
	// several writes of one purpose and value it contains only the last. A listed value may no
	// longer be in the zone. The list is empty for a domain of a different account.
	Written(ctx context.Context, owner access.AccountID, domainID string) ([]dns.Written, error)
	// IntendWrite stores a write before its request is sent, and returns its id. The values are not
	// managed yet. It fails with domain_not_found.
	IntendWrite(ctx context.Context, owner access.AccountID, w dns.Write) (id string, err error)
	// OpenWrites lists the writes of a domain that are neither confirmed nor dropped, oldest first.
	OpenWrites(ctx context.Context, owner access.AccountID, domainID string) ([]dns.Write, error)
	// ConfirmWrite makes the values of an open write managed. It has no effect on other writes.
	ConfirmWrite(ctx context.Context, owner access.AccountID, id string) error
	// DropWrite deletes an open write that was not made. It has no effect on other writes.
	DropWrite(ctx context.Context, owner access.AccountID, id string) error
}

// DNSUndo provides the writes of a run to the operator's undo.
type DNSUndo interface {
	// RunWrites returns the account of a run and the run's writes, oldest first, except those that
	// were undone. It fails with provisioning_run_not_found.
	RunWrites(ctx context.Context, runID string) (access.AccountID, []dns.Write, error)
	// BeginUndo ends the run's active jobs with provisioning.Stop, so that they do not write again,
	// and returns the run's writes as RunWrites does. It makes the values of these writes foreign,
	// so that tenantry does not manage a record that someone publishes after the undo. A job for
	// whose domain the run has no writes continues. It fails with
	// domain_provisioning_already_active while a worker executes a job, or if a different run has
	// an active job for the domain of one of these writes.
	BeginUndo(ctx context.Context, owner access.AccountID, runID string, now time.Time) ([]dns.Write, error)
	// FinishUndo marks the writes as undone and records the operator's action, as described at
	// Audit.
	FinishUndo(ctx context.Context, owner access.AccountID, runID string, writes []dns.Write, done Undone) error
}

// Undone counts the values that an undo restored or removed (PutBack), and those that it did not
// touch because someone has changed them (LeftAlone).
type Undone struct{ PutBack, LeftAlone int }
