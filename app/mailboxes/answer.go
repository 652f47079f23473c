// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// conclude stores what was created, all at once with the answer. When another
// mailbox keeps the request from its answer nobody learns of it: then it stays
// unfinished, so that the same request again reports it as created.
func (s *Service) conclude(ctx context.Context, owner access.AccountID, results []Result, errs []error) error {
	stage := mailbox.Ready
	if errors.Join(errs...) != nil {
		stage = mailbox.Created
	}
	var created []mailbox.Mailbox
	for i, r := range results {
		if r.Status == mailbox.ResultCreated {
			results[i].Mailbox.Stage = stage
			created = append(created, results[i].Mailbox)
		}
	}
	if len(created) == 0 {
		return nil
	}
	if stage == mailbox.Ready {
		var err error
		if ctx, err = ports.Complete(ctx, results); err != nil {
			return err
		}
	}
	failpoint.Hit("mailboxes.before-conclude")
	err := settling.Store(ctx, func(ctx context.Context) error { return s.Mailboxes.ConcludeMailboxes(ctx, owner, created) })
	if err != nil {
		return fmt.Errorf("conclude mailboxes: %w", err)
	}
	failpoint.Hit("mailboxes.after-conclude")
	return nil
}

// answer makes one answer of all mailboxes: one that is not finished takes the
// others with it, and the same request again tells of them all.
func (s *Service) answer(ctx context.Context, owner access.AccountID, id tenant.GUID, results []Result, errs []error) ([]Result, error) {
	worst := error(nil)
	for _, err := range errs {
		if err != nil && (worst == nil || weight(err) > weight(worst)) {
			worst = err
		}
	}
	switch weight(worst) {
	case 0:
		return results, nil
	case doubtful:
		return nil, fault.ProviderTimeout.With("work on the mailboxes is not finished yet")
	default:
		return nil, s.noticed(ctx, owner, id, worst)
	}
}

// The weights of what kept a mailbox from its end. When a platform that asks
// us to stay away meets another mailbox that is in doubt, the doubt counts.
const (
	away = iota + 1
	broken
	doubtful
	ours
	denied
)

func weight(err error) int {
	if err == nil {
		return 0
	}
	switch {
	case errors.Is(err, fault.AccessDenied):
		return denied
	case errors.Is(err, fault.MailboxNotFound):
		return doubtful // another request for the same address gave the place back
	}
	switch outcome.Of(err) {
	case outcome.Throttled, outcome.Down:
		return away
	case outcome.Broken:
		return broken
	case outcome.NotReady, outcome.Unknown:
		return doubtful
	default:
		return ours
	}
}

// giveBack gives a place back that this request took and of which nothing can
// be at the platform; it returns why nothing came of it.
func (s *Service) giveBack(ctx context.Context, owner access.AccountID, row mailbox.Mailbox, why error) error {
	if !row.Fresh {
		return why
	}
	if err := s.release(ctx, owner, row); err != nil {
		return err
	}
	return why
}

func (s *Service) release(ctx context.Context, owner access.AccountID, row mailbox.Mailbox) error {
	err := settling.Store(ctx, func(ctx context.Context) error { return s.Mailboxes.ReleaseMailbox(ctx, owner, row.ID) })
	if err != nil {
		return fmt.Errorf("release mailbox: %w", err)
	}
	return nil
}
