// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// maxHiddenLookups is the maximum number of times that creation repeats the lookup of a mailbox
// whose address the platform reports as taken. An earlier call may have created that mailbox, and
// the platform may not show it yet.
const maxHiddenLookups = 5

// creation creates one mailbox for its reserved row and makes the mailbox usable. It stores the
// stage, so that another request can continue.
type creation struct {
	*Service
	owner    access.AccountID
	platform ports.MailTenant
	retry    reconcile.RetryPolicy
	spec     mailbox.Spec
	row      mailbox.Mailbox
	password secret.Text
	// enableSubmission is true if SMTP AUTH is required, or enabled for the tenant.
	enableSubmission bool
	// mayExist is true once a mailbox that tenantry created may exist at the platform.
	mayExist bool
	// missedBySync is true for a row whose mailbox existed at the platform before a sync missed it.
	// It becomes false when a call of CreateMailbox has an unknown outcome.
	missedBySync bool
	// domainNotAccepted is true if the last call of CreateMailbox with a known outcome failed
	// because the mail server does not accept the domain yet. It becomes false when a read finds
	// the mailbox.
	domainNotAccepted bool
}

// run returns a result if the mailbox exists, if it was created, or if the platform refused it (see
// isRefusal). After any other error, a repetition of the request can continue the creation.
func (c *creation) run(ctx context.Context) (Result, error) {
	if c.row.Stage == mailbox.Ready {
		return c.newResult(mailbox.ResultExists), nil
	}
	c.mayExist = !c.row.JustReserved
	c.missedBySync = c.row.Stage == mailbox.Reserved && c.row.ObjectID != ""
	var found *mailbox.Platform
	var at time.Time
	err := reconcile.Run(ctx, c.retry, func(ctx context.Context) (err error) {
		at = c.Now()
		found, err = c.fetchCurrent(ctx, c.owner, c.row)
		return err
	}, nil)
	if err != nil {
		return c.releaseReservation(ctx, err)
	}
	switch mailbox.NextStep(c.row.Stage, found != nil) {
	case mailbox.Keep:
		return c.recordExisting(ctx, *found, at)
	case mailbox.Create:
		var existed bool
		switch found, at, existed, err = c.createAtPlatform(ctx); {
		case c.missedBySync && existed:
			return c.keepMissedMailbox(ctx, found, at, err)
		case err != nil:
			return c.releaseReservation(ctx, err)
		}
	}
	return c.finishSetup(ctx, *found, at)
}

// recordExisting stores a mailbox that existed before this request, as found at the time at. If a
// concurrent request for the same address has changed the row, recordExisting leaves the row as it
// is.
func (c *creation) recordExisting(ctx context.Context, found mailbox.Platform, at time.Time) (Result, error) {
	rows, err := c.Mailboxes.ReserveMailboxes(ctx, c.owner, c.row.DomainID, []mailbox.Spec{c.spec}, mailbox.MaxPerDomain, c.Now())
	if err != nil {
		return Result{}, err
	}
	c.row = rows[0]
	if c.row.Stage != mailbox.Reserved {
		return c.newResult(mailbox.ResultExists), nil
	}
	c.row = c.row.WithPlatformState(found, at)
	return c.newResult(mailbox.ResultExists), c.save(ctx, c.owner, c.row)
}

// createAtPlatform creates the mailbox. The stage Creating is stored first: from then on a mailbox
// with this address counts as created by tenantry.
//
// If the platform refuses because the address is taken, an earlier call may have created the
// mailbox. createAtPlatform then reads the mailbox. If the read finds no mailbox, there are two
// cases:
//
//   - Every earlier call has a known outcome: createAtPlatform returns the refusal. The address
//     belongs to a different object or, if c.missedBySync is true, to the mailbox of the row.
//   - The outcome of an earlier call is unknown: the platform may not show the mailbox yet.
//     createAtPlatform repeats the call and the read, at most maxHiddenLookups times.
//
// CreateMailbox can return a removed mailbox if its own lookup reads a lagging replica. The call
// may have created a new mailbox, so its outcome is unknown. createAtPlatform then repeats its own
// read until the platform no longer shows the removed mailbox.
//
// existed is true if the last call was refused because the address is taken. It is also true if the
// mailbox is the object that the row had before.
func (c *creation) createAtPlatform(ctx context.Context) (found *mailbox.Platform, at time.Time, existed bool, err error) {
	c.row.Stage, c.row.Observed.Stage = mailbox.Creating, c.Now()
	if err := c.save(ctx, c.owner, c.row); err != nil {
		return nil, at, false, err
	}
	var takenErr error // the platform's refusal of an address that is taken
	hiddenLookups := 0
	err = reconcile.Run(ctx, c.retry, func(ctx context.Context) error {
		created, err := c.platform.CreateMailbox(ctx, c.spec)
		takenErr = nil
		if err == nil || outcome.ChangedNothing(err) {
			c.domainNotAccepted = outcome.KindOf(err) == outcome.NotReady
		}
		if err == nil {
			err = c.checkNotRemoved(ctx, c.owner, c.row.TenantGUID, created.ObjectID, outcome.Unknown)
		}
		switch {
		case err == nil:
			found, at = &created, c.Now()
		case errors.Is(err, fault.InvalidMailboxEmail):
			takenErr = err
			return &outcome.Error{Kind: outcome.Unknown, Cause: "address_taken", Detail: "the address is taken, perhaps by a mailbox that an earlier call created"}
		case !outcome.ChangedNothing(err):
			c.mayExist, c.missedBySync = true, false
		}
		return err
	}, func(ctx context.Context) (bool, error) {
		var err error
		at = c.Now()
		found, err = c.fetchCurrent(ctx, c.owner, c.row)
		switch {
		case err != nil:
			c.mayExist = true
		case found != nil: // so the mail server accepts the domain
			c.domainNotAccepted = false
		case takenErr != nil:
			if !c.mayExist || c.missedBySync || hiddenLookups == maxHiddenLookups {
				return false, takenErr
			}
			hiddenLookups++
		}
		return found != nil, err
	})
	existed = takenErr != nil || found != nil && found.ObjectID != "" && found.ObjectID == c.row.ObjectID
	return found, at, existed, err
}

// keepMissedMailbox ends the creation of a mailbox that still exists at the platform. The platform
// refused to create a second mailbox with the same address, or returned the existing mailbox. found
// is the mailbox at the time at, or nil if the platform does not show the mailbox yet. The row
// keeps its id and its limit, and its stage becomes Reserved again. If found is not nil,
// keepMissedMailbox stores found in the row. Otherwise a later request or sync stores the mailbox.
// The request sets no password.
//
// If the platform refused the address and the mailbox cannot be hidden any more, a different object
// has the address. The row then becomes missing again, and the result has the refusal cause.
func (c *creation) keepMissedMailbox(ctx context.Context, found *mailbox.Platform, at time.Time, cause error) (Result, error) {
	c.row.Stage, c.row.Observed.Stage = mailbox.Reserved, c.Now()
	isFinal := found == nil && errors.Is(cause, fault.InvalidMailboxEmail) && !c.row.MayBeHidden(c.Now())
	if isFinal {
		c.row = c.row.MissingAgain()
	}
	if err := c.save(ctx, c.owner, c.row); err != nil {
		return Result{}, err
	}
	if isFinal {
		return c.failedResult(cause), nil
	}
	if found == nil {
		return Result{}, &outcome.Error{Kind: outcome.NotReady, Cause: "address_taken", Detail: "the mailbox exists, but the platform does not show it yet"}
	}
	return c.recordExisting(ctx, *found, at)
}

// releaseReservation deletes the reserved row if the platform cannot have a mailbox that tenantry
// created. That is the case if the platform refused the address. It is also the case if this
// request has created the row, and all its calls have a known outcome.
func (c *creation) releaseReservation(ctx context.Context, cause error) (Result, error) {
	c.row.JustReserved = !c.mayExist || errors.Is(cause, fault.InvalidMailboxEmail)
	cause = c.releaseIfNew(ctx, c.owner, c.row, cause)
	if isRefusal(cause) {
		return c.failedResult(cause), nil
	}
	return Result{}, cause
}

// isRefusal reports whether the platform refused this one mailbox. Two refusals fail the whole
// request instead: a denied access, and an invalid setting of the platform, whose code is
// service_unavailable.
func isRefusal(err error) bool {
	return outcome.KindOf(err) == outcome.Refused && !errors.Is(err, fault.AccessDenied) && fault.ErrorOf(err).Code.Kind != fault.Unavailable
}

// finishSetup sets the password, enables sign-in and, if c.enableSubmission is true, SMTP
// submission. found is the mailbox as the platform showed it at the time at.
func (c *creation) finishSetup(ctx context.Context, found mailbox.Platform, at time.Time) (Result, error) {
	c.copyPlatform(found, at)
	c.row.Stage, c.row.Provisioned, c.row.Observed.Stage = mailbox.Created, true, c.Now()
	if err := c.saveCreated(ctx); err != nil {
		return Result{}, err
	}
	err := reconcile.Run(ctx, c.retry, func(ctx context.Context) error {
		return c.platform.OpenSignIn(ctx, c.row.ObjectID, c.row.Address, c.password)
	}, nil)
	if err == nil && c.enableSubmission {
		err = reconcile.Run(ctx, c.retry, func(ctx context.Context) error {
			return c.platform.OpenSubmission(ctx, c.row.Address)
		}, nil)
	}
	switch {
	case isRefusal(err):
		return c.failedResult(err), nil
	case err != nil:
		return Result{}, err
	}
	now := c.Now()
	c.row.AccountEnabled, c.row.PrincipalName = true, c.row.Address
	c.row.Observed.Account, c.row.Observed.Enabled = now, observation.HeldUntil(now)
	return c.newResult(mailbox.ResultCreated), nil // storeResults stores the row after all mailboxes of the request have finished
}

// saveCreated stores the created mailbox. If a second request for the same address was refused,
// that request may have deleted the row. saveCreated then reserves the address again.
func (c *creation) saveCreated(ctx context.Context) error {
	err := c.save(ctx, c.owner, c.row)
	if !errors.Is(err, fault.MailboxNotFound) {
		return err
	}
	rows, err := c.Mailboxes.ReserveMailboxes(ctx, c.owner, c.row.DomainID, []mailbox.Spec{c.spec}, mailbox.MaxPerDomain, c.Now())
	if err != nil {
		return err
	}
	c.row = rows[0].Merge(c.row)
	return c.save(ctx, c.owner, c.row)
}

// copyPlatform copies the platform's fields, as read at the time at, into the row.
func (c *creation) copyPlatform(found mailbox.Platform, at time.Time) {
	c.row.Observed.Account, c.row.Observed.Enabled, c.row.Observed.Name = at, at, at
	c.row.Observed.PreviousMissingSince = time.Time{}
	c.row.ObjectID, c.row.DisplayName, c.row.Address = found.ObjectID, found.DisplayName, c.spec.Address
	c.row.PrincipalName, c.row.Alias, c.row.AccountEnabled = found.PrincipalName, found.Alias, found.AccountEnabled
}

func (c *creation) newResult(status string) Result {
	return Result{Status: status, Spec: c.spec, Mailbox: c.row}
}

func (c *creation) failedResult(cause error) Result {
	return Result{Status: mailbox.ResultFailed, Spec: c.spec, Failure: fault.ErrorOf(cause)}
}

// fetchCurrent reads the platform's mailbox at the address of m, with the timeout of one call. It
// returns nil if the platform shows no mailbox at the address. It fails with outcome.NotReady while
// the platform shows a mailbox that tenantry has removed (see checkNotRemoved).
func (s *Service) fetchCurrent(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) (*mailbox.Platform, error) {
	var found mailbox.Platform
	err := reconcile.Call(ctx, func(ctx context.Context) (err error) {
		found, err = s.Platform.For(m.TenantGUID).Mailbox(ctx, m.Address)
		return err
	})
	if errors.Is(err, fault.MailboxNotFound) {
		return nil, nil
	}
	if err == nil {
		err = s.checkNotRemoved(ctx, owner, m.TenantGUID, found.ObjectID, outcome.NotReady)
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// checkNotRemoved checks the object id of a mailbox that the platform has returned. If tenantry has
// recently removed this mailbox, the answer came from a lagging replica. checkNotRemoved then fails
// with an outcome of the given kind.
func (s *Service) checkNotRemoved(ctx context.Context, owner access.AccountID, id tenant.GUID, objectID string, kind outcome.Kind) error {
	removed, err := s.Removals.MailboxRemoved(ctx, owner, id, objectID, s.Now())
	if err != nil {
		return fmt.Errorf("find removed mailbox: %w", err)
	}
	if removed {
		return &outcome.Error{Kind: kind, Cause: "removed_mailbox", Detail: "the platform still shows a removed mailbox"}
	}
	return nil
}
