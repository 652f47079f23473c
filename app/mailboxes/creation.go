// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// shyLooks is how often an address that another object seems to hold is looked
// up again when that object may be our own mailbox, not shown yet.
const shyLooks = 5

// creation brings one mailbox from its intent to its use. What is done is
// stored step by step, so another request can go on from there.
type creation struct {
	*Service
	owner    access.AccountID
	at       ports.MailTenant
	spec     mailbox.Spec
	row      mailbox.Mailbox
	password secret.Text
	// submission is false where the platform no longer offers SMTP AUTH.
	submission bool
	// doubt is set once something of ours may be at the platform.
	doubt bool
}

// run returns a result when the mailbox is there, or definitely will not be;
// an error leaves it for the same request again.
func (c *creation) run(ctx context.Context) (Result, error) {
	if c.row.Stage == mailbox.Ready {
		return c.result(mailbox.ResultExists), nil
	}
	c.doubt = !c.row.Fresh
	var found *mailbox.Platform
	err := settling.Persist(ctx, c.Pause, func(ctx context.Context) (err error) {
		found, err = look(ctx, c.at, c.spec.Address)
		return err
	})
	if err != nil {
		return c.unmade(ctx, err)
	}
	switch mailbox.NextStep(c.row.Stage, found != nil) {
	case mailbox.Keep:
		return c.keep(ctx, *found)
	case mailbox.Make:
		if found, err = c.make(ctx); err != nil {
			return c.unmade(ctx, err)
		}
	}
	return c.complete(ctx, *found)
}

// keep takes a mailbox into the books that was there before us. Another
// request for the same address may have begun meanwhile: then it is theirs.
func (c *creation) keep(ctx context.Context, found mailbox.Platform) (Result, error) {
	rows, err := c.Mailboxes.ReserveMailboxes(ctx, c.owner, c.row.DomainID, []mailbox.Spec{c.spec}, mailbox.MaxPerDomain, c.Now())
	if err != nil {
		return Result{}, err
	}
	c.row = rows[0]
	if c.row.Stage != mailbox.Reserved {
		return c.result(mailbox.ResultExists), nil
	}
	c.adopt(found)
	c.row.Stage, c.row.Provisioned = mailbox.Ready, false
	return c.result(mailbox.ResultExists), c.save(ctx, c.owner, c.row)
}

// make asks the platform for the mailbox. The stage is stored before: what
// carries the address from then on is ours to complete.
func (c *creation) make(work context.Context) (found *mailbox.Platform, err error) {
	c.row.Stage = mailbox.Creating
	if err := c.save(work, c.owner, c.row); err != nil {
		return nil, err
	}
	failpoint.Hit("mailboxes.before-create")
	looks := 0
	err = settling.Persist(work, c.Pause, func(ctx context.Context) error {
		made, err := c.at.CreateMailbox(ctx, c.spec)
		failpoint.Hit("mailboxes.after-create")
		held := errors.Is(err, fault.InvalidMailboxEmail)
		if err == nil {
			found = &made
			return nil
		}
		if outcome.Settled(err) && !held {
			return err
		}
		c.doubt = c.doubt || !held
		// In the time that is left for the work: the call itself may have
		// used up its own.
		var lost error
		found, lost = lookUp(work, c.at, c.spec.Address)
		switch {
		case found != nil:
			return nil
		case held && lost != nil:
			c.doubt = true
			return lost
		case held && c.doubt && looks < shyLooks:
			looks++
			return &outcome.Error{Kind: outcome.NotReady, Detail: "the platform does not show the mailbox yet"}
		default:
			return err
		}
	})
	return found, err
}

// unmade gives the place back when nothing of ours can be at the platform:
// nothing was left in doubt, or the address is not to be had.
func (c *creation) unmade(ctx context.Context, why error) (Result, error) {
	c.row.Fresh = !c.doubt || errors.Is(why, fault.InvalidMailboxEmail)
	why = c.giveBack(ctx, c.owner, c.row, why)
	if failure(why) {
		return c.failed(why), nil
	}
	return Result{}, why
}

// failure reports whether the platform refused this one mailbox. A lost
// consent is trouble of the whole request.
func failure(err error) bool {
	return outcome.Of(err) == outcome.Refused && !errors.Is(err, fault.AccessDenied)
}

// complete gives the mailbox its password, its sign-in and its submission.
func (c *creation) complete(ctx context.Context, found mailbox.Platform) (Result, error) {
	c.adopt(found)
	c.row.Stage, c.row.Provisioned = mailbox.Created, true
	if err := c.save(ctx, c.owner, c.row); err != nil {
		return Result{}, err
	}
	failpoint.Hit("mailboxes.before-sign-in")
	err := settling.Persist(ctx, c.Pause, func(ctx context.Context) error {
		return c.at.OpenSignIn(ctx, c.row.ObjectID, c.row.Address, c.password)
	})
	failpoint.Hit("mailboxes.after-sign-in")
	if err == nil && c.submission {
		err = settling.Persist(ctx, c.Pause, func(ctx context.Context) error {
			return c.at.OpenSubmission(ctx, c.row.Address)
		})
		failpoint.Hit("mailboxes.after-submission")
	}
	switch {
	case failure(err):
		return c.failed(err), nil
	case err != nil:
		return Result{}, err
	}
	c.row.AccountEnabled, c.row.PrincipalName = true, c.row.Address
	return c.result(mailbox.ResultCreated), nil // stored once all of them have ended
}

func (c *creation) adopt(found mailbox.Platform) {
	c.row.ObjectID, c.row.DisplayName, c.row.Address = found.ObjectID, found.DisplayName, c.spec.Address
	c.row.PrincipalName, c.row.Alias, c.row.AccountEnabled = found.PrincipalName, found.Alias, found.AccountEnabled
}

func (c *creation) result(status string) Result {
	return Result{Status: status, Spec: c.spec, Mailbox: c.row}
}

func (c *creation) failed(why error) Result {
	return Result{Status: mailbox.ResultFailed, Spec: c.spec, Failure: fault.Of(why)}
}

// lookUp looks with the deadline of one call; nil means not found.
func lookUp(ctx context.Context, at ports.MailTenant, address string) (found *mailbox.Platform, err error) {
	err = settling.Call(ctx, func(ctx context.Context) (err error) {
		found, err = look(ctx, at, address)
		return err
	})
	return found, err
}

func look(ctx context.Context, at ports.MailTenant, address string) (*mailbox.Platform, error) {
	found, err := at.Mailbox(ctx, address)
	if errors.Is(err, fault.MailboxNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}
