// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// maxHiddenLookups is how often creation is retried when the address is taken but no mailbox is
// found. The address may belong to our own mailbox that the platform does not show yet.
const maxHiddenLookups = 5

// creation takes one mailbox from its reserved row to a usable mailbox. Each step is stored, so
// that another request can continue.
type creation struct {
	*Service
	owner    access.AccountID
	platform ports.MailTenant
	spec     mailbox.Spec
	row      mailbox.Mailbox
	password secret.Text
	// submission is false where the platform no longer offers SMTP AUTH.
	submission bool
	// mayExist is true once a mailbox that tenantry created may exist at the platform.
	mayExist bool
}

// run returns a result when the mailbox exists or was definitely refused. It returns an error when
// the same request can continue later.
func (c *creation) run(ctx context.Context) (Result, error) {
	if c.row.Stage == mailbox.Ready {
		return c.result(mailbox.ResultExists), nil
	}
	c.mayExist = !c.row.JustReserved
	var found *mailbox.Platform
	err := reconcile.Persist(ctx, c.Pause, func(ctx context.Context) (err error) {
		found, err = fetchMailbox(ctx, c.platform, c.spec.Address)
		return err
	})
	if err != nil {
		return c.releaseFailed(ctx, err)
	}
	switch mailbox.NextStep(c.row.Stage, found != nil) {
	case mailbox.Keep:
		return c.recordExisting(ctx, *found)
	case mailbox.Create:
		if found, err = c.createAtPlatform(ctx); err != nil {
			return c.releaseFailed(ctx, err)
		}
	}
	return c.finishSetup(ctx, *found)
}

// recordExisting stores a mailbox that existed before tenantry. Another request for the same
// address may have started meanwhile; then the row is left to that request.
func (c *creation) recordExisting(ctx context.Context, found mailbox.Platform) (Result, error) {
	rows, err := c.Mailboxes.ReserveMailboxes(ctx, c.owner, c.row.DomainID, []mailbox.Spec{c.spec}, mailbox.MaxPerDomain, c.Now())
	if err != nil {
		return Result{}, err
	}
	c.row = rows[0]
	if c.row.Stage != mailbox.Reserved {
		return c.result(mailbox.ResultExists), nil
	}
	c.copyPlatform(found)
	c.row.Stage, c.row.Provisioned = mailbox.Ready, false
	return c.result(mailbox.ResultExists), c.save(ctx, c.owner, c.row)
}

// createAtPlatform creates the mailbox. The stage Creating is stored first: from then on a mailbox
// with this address counts as created by tenantry.
func (c *creation) createAtPlatform(requestCtx context.Context) (found *mailbox.Platform, err error) {
	c.row.Stage = mailbox.Creating
	if err := c.save(requestCtx, c.owner, c.row); err != nil {
		return nil, err
	}
	lookups := 0
	err = reconcile.Persist(requestCtx, c.Pause, func(ctx context.Context) error {
		createdMailbox, err := c.platform.CreateMailbox(ctx, c.spec)
		held := errors.Is(err, fault.InvalidMailboxEmail)
		if err == nil {
			found = &createdMailbox
			return nil
		}
		if outcome.ChangedNothing(err) && !held {
			return err
		}
		c.mayExist = c.mayExist || !held
		// This uses the request's context, because the call may have used up its own timeout.
		var lookupErr error
		found, lookupErr = fetchWithTimeout(requestCtx, c.platform, c.spec.Address)
		switch {
		case found != nil:
			return nil
		case held && lookupErr != nil:
			c.mayExist = true
			return lookupErr
		case held && c.mayExist && lookups < maxHiddenLookups:
			lookups++
			return &outcome.Error{Kind: outcome.NotReady, Detail: "the platform does not show the mailbox yet"}
		default:
			return err
		}
	})
	return found, err
}

// releaseFailed deletes the reserved row when tenantry cannot have left a mailbox at the platform.
// That is so when no outcome is unknown, or when the address is not available.
func (c *creation) releaseFailed(ctx context.Context, cause error) (Result, error) {
	c.row.JustReserved = !c.mayExist || errors.Is(cause, fault.InvalidMailboxEmail)
	cause = c.releaseIfFresh(ctx, c.owner, c.row, cause)
	if isRefusal(cause) {
		return c.failed(cause), nil
	}
	return Result{}, cause
}

// isRefusal reports whether the platform refused this one mailbox. A lost consent is an error of
// the whole request.
func isRefusal(err error) bool {
	return outcome.Of(err) == outcome.Refused && !errors.Is(err, fault.AccessDenied)
}

// finishSetup sets the password and enables sign-in and SMTP submission.
func (c *creation) finishSetup(ctx context.Context, found mailbox.Platform) (Result, error) {
	c.copyPlatform(found)
	c.row.Stage, c.row.Provisioned = mailbox.Created, true
	if err := c.save(ctx, c.owner, c.row); err != nil {
		return Result{}, err
	}
	err := reconcile.Persist(ctx, c.Pause, func(ctx context.Context) error {
		return c.platform.OpenSignIn(ctx, c.row.ObjectID, c.row.Address, c.password)
	})
	if err == nil && c.submission {
		err = reconcile.Persist(ctx, c.Pause, func(ctx context.Context) error {
			return c.platform.OpenSubmission(ctx, c.row.Address)
		})
	}
	switch {
	case isRefusal(err):
		return c.failed(err), nil
	case err != nil:
		return Result{}, err
	}
	c.row.AccountEnabled, c.row.PrincipalName = true, c.row.Address
	return c.result(mailbox.ResultCreated), nil // storeResults stores the row after all mailboxes of the request have finished
}

// copyPlatform copies the platform's fields into the row.
func (c *creation) copyPlatform(found mailbox.Platform) {
	c.row.ObjectID, c.row.DisplayName, c.row.Address = found.ObjectID, found.DisplayName, c.spec.Address
	c.row.PrincipalName, c.row.Alias, c.row.AccountEnabled = found.PrincipalName, found.Alias, found.AccountEnabled
}

func (c *creation) result(status string) Result {
	return Result{Status: status, Spec: c.spec, Mailbox: c.row}
}

func (c *creation) failed(cause error) Result {
	return Result{Status: mailbox.ResultFailed, Spec: c.spec, Failure: fault.Of(cause)}
}

// fetchWithTimeout reads a mailbox with the timeout of one call. It returns nil if there is none.
func fetchWithTimeout(ctx context.Context, platform ports.MailTenant, address string) (found *mailbox.Platform, err error) {
	err = reconcile.Call(ctx, func(ctx context.Context) (err error) {
		found, err = fetchMailbox(ctx, platform, address)
		return err
	})
	return found, err
}

// fetchMailbox reads a mailbox. It returns nil if there is none.
func fetchMailbox(ctx context.Context, platform ports.MailTenant, address string) (*mailbox.Platform, error) {
	found, err := platform.Mailbox(ctx, address)
	if errors.Is(err, fault.MailboxNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}
