// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// storeResults stores the created mailboxes and the answer in one transaction. If no mailbox was
// created, it stores nothing. If errs contains an error, the caller gets no results. storeResults
// then stores the created mailboxes as unfinished and stores no answer, so that a repetition of the
// request reports them as created.
func (s *Service) storeResults(ctx context.Context, owner access.AccountID, results []Result, errs []error, encoder ports.AnswerEncoder[[]Result]) error {
	stage := mailbox.Ready
	if errors.Join(errs...) != nil {
		stage = mailbox.Created
	}
	var createdMailboxes []mailbox.Mailbox
	for i, r := range results {
		if r.Status == mailbox.ResultCreated {
			results[i].Mailbox.Stage, results[i].Mailbox.Observed.Stage = stage, s.Now()
			createdMailboxes = append(createdMailboxes, results[i].Mailbox)
		}
	}
	if len(createdMailboxes) == 0 {
		return nil
	}
	if stage != mailbox.Ready {
		encoder = nil
	}
	storedAnswer, err := encoder.Encode(results)
	if err != nil {
		return err
	}
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		return s.Mailboxes.ConcludeMailboxes(ctx, owner, createdMailboxes, storedAnswer)
	})
	if err != nil {
		return fmt.Errorf("conclude mailboxes: %w", err)
	}
	return nil
}

// combineResults returns the results, or one error for the whole request if any mailbox has an
// error. The client can then repeat the request, which continues with the unfinished mailboxes and
// returns a result for every mailbox.
func (s *Service) combineResults(ctx context.Context, owner access.AccountID, id tenant.GUID, results []Result, errs []error) ([]Result, error) {
	var worst error
	for _, err := range errs {
		if severity(err) > severity(worst) {
			worst = err
		}
	}
	switch severity(worst) {
	case 0:
		return results, nil
	case severityUnfinished:
		return nil, fault.ProviderTimeout.With("work on the mailboxes is not finished yet")
	default:
		return nil, s.recordLostConsent(ctx, owner, id, worst)
	}
}

// The severities of errors, in ascending order. A request fails with its error of the highest
// severity.
const (
	severityUnavailable = iota + 1
	severityBroken
	severityUnfinished
	severityInternal
	severityDenied
)

func severity(err error) int {
	if err == nil {
		return 0
	}
	switch {
	case errors.Is(err, fault.AccessDenied):
		return severityDenied
	case errors.Is(err, fault.MailboxNotFound):
		return severityUnfinished // another request for the same address released the row
	}
	switch outcome.KindOf(err) {
	case outcome.Throttled, outcome.Down:
		return severityUnavailable
	case outcome.Broken:
		return severityBroken
	case outcome.NotReady, outcome.Unknown:
		return severityUnfinished
	default:
		return severityInternal
	}
}

// releaseIfNew deletes the row if row.JustReserved is true, which means that the platform cannot
// have a mailbox that tenantry created for this row. If a later request has reserved the row too,
// the store keeps the row. releaseIfNew returns cause, or the error of the store.
func (s *Service) releaseIfNew(ctx context.Context, owner access.AccountID, row mailbox.Mailbox, cause error) error {
	if !row.JustReserved {
		return cause
	}
	err := reconcile.Store(ctx, func(ctx context.Context) error { return s.Mailboxes.ReleaseMailbox(ctx, owner, row.ID, row.ReservedAt) })
	if err != nil {
		return fmt.Errorf("release mailbox: %w", err)
	}
	return cause
}
