// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// maxAliases is the maximum number of aliases and object names that are tried. An alias contains a
// hash of the address, so a collision is rare.
const maxAliases = 4

// CreateMailbox implements sdk.MailTenant. It repeats the creation only if Exchange throttled it or
// was out of service, or if no connection could be made. After other failures the caller decides
// whether to repeat the call. If Exchange reports that the address is in use, and the lookup finds
// no shared mailbox with this address, CreateMailbox refuses. The exception is a refusal after an
// earlier attempt during which Exchange was out of service. That attempt may have created the
// mailbox, so the outcome is Unknown.
func (c *tenantClient) CreateMailbox(ctx context.Context, m mailbox.Spec) (mailbox.Platform, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	m.Address = strings.ToLower(m.Address)
	unavailable := false // Exchange was out of service during an earlier attempt
	return call.Retry(ctx, c.platform.state.retry, call.Repeatable, func() (mailbox.Platform, error) {
		created, err := c.createOrFind(ctx, m)
		if unavailable && isTaken(err) {
			return created, &outcome.Error{
				Kind: outcome.Unknown, Cause: call.CauseOf(err), Detail: "the mailbox may have been created and does not show yet",
			}
		}
		unavailable = unavailable || hasKind(err, outcome.Down) && !isUnsent(err)
		return created, newMailboxError(err)
	})
}

// createOrFind runs New-Mailbox. If New-Mailbox fails or returns no object id, createOrFind
// searches for the address. It does not search if Exchange throttled or denied the request, was not
// ready or was not reached, or if ctx has ended. If it finds a shared mailbox with this primary
// address, the mailbox counts as created. If it finds any other mailbox, createOrFind refuses. If
// only the alias or the object name is in use, createOrFind tries the next ones.
func (c *tenantClient) createOrFind(ctx context.Context, m mailbox.Spec) (mailbox.Platform, error) {
	for n := 0; ; n++ {
		created, err := c.newMailbox(ctx, m, n)
		switch {
		case err == nil && created.ObjectID != "":
			return created, nil
		case hasKind(err, outcome.Throttled), hasKind(err, outcome.NotReady), isUnsent(err), call.IsDenied(err), ctx.Err() != nil:
			return created, err
		}
		found, inUse, lookupErr := c.mailboxByAddress(ctx, m.Address)
		switch {
		case lookupErr == nil:
			return found, nil
		case err == nil:
			return created, nil // OpenSignIn uses the address, because the object id is not known yet
		case inUse:
			return created, call.Refuse(fault.InvalidMailboxEmail, "another object of the tenant holds the address", call.CauseOf(err))
		case !isAbsent(lookupErr):
			return created, call.Permanent(err) // the lookup failed, so the creation must not be repeated
		case !isTaken(err) || n+1 == maxAliases || exchange.MessageContains(err, m.Address):
			return created, err
		}
	}
}

func isUnsent(err error) bool { return call.CauseOf(err) == call.CauseUnreachable }

// isTaken reports whether Exchange says that the address, the alias or the object name is in use.
func isTaken(err error) bool { return exchange.Is(err, exchange.AddressTaken, exchange.Exists) }

// newMailbox runs New-Mailbox with the n-th object name and alias. It sends no password or sign-in
// name. Microsoft does not document whether Exchange uses these two for a shared mailbox, so
// OpenSignIn sets them through Graph.
func (c *tenantClient) newMailbox(ctx context.Context, m mailbox.Spec, n int) (mailbox.Platform, error) {
	client := c.exchange
	client.Retry.MaxAttempts = 1 // CreateMailbox repeats the call
	rows, err := exchange.Invoke[mailboxRow](ctx, client, exchange.Command{
		Effect: call.Create, Cmdlet: exchange.NewMailbox,
		Parameters: map[string]any{
			"Shared": true, "Name": objectName(m.Address, n), "DisplayName": m.DisplayName,
			"Alias": mailboxAlias(m.Address, n), "PrimarySmtpAddress": m.Address,
		},
	})
	switch {
	case exchange.Is(err, exchange.NotAccepted, exchange.NotFound):
		return mailbox.Platform{}, call.NotReady("the mail server does not accept the domain yet", call.CauseOf(err))
	case err != nil:
		return mailbox.Platform{}, err
	case len(rows) == 0:
		return mailbox.Platform{DisplayName: m.DisplayName, Address: m.Address, Alias: mailboxAlias(m.Address, n)}, nil
	}
	created := rows[0].toMailbox()
	created.Address = m.Address
	return created, nil
}

// newMailboxError converts a refusal because of a name in use, a value or a limit to
// InvalidMailboxEmail. It returns other errors unchanged.
func newMailboxError(err error) error {
	switch {
	case isTaken(err):
		return call.Refuse(fault.InvalidMailboxEmail, "another object of the tenant holds the address", call.CauseOf(err))
	case exchange.Is(err, exchange.InvalidValue, exchange.LimitReached):
		return call.Refuse(fault.InvalidMailboxEmail, "the mail platform does not accept the mailbox", call.CauseOf(err))
	default:
		return err
	}
}

// mailboxAlias returns the n-th alias to try for an address. n counts from 0. The same arguments
// always return the same alias.
func mailboxAlias(address string, n int) string {
	if n > 0 {
		address += "#" + strconv.Itoa(n)
	}
	return mailbox.Alias(address)
}

const maxObjectName = 64

// objectName returns the n-th object name to try. An object name is unique in the tenant. It is the
// address if that fits into maxObjectName characters and n is 0. Otherwise it is the start of the
// address and a hash.
func objectName(address string, n int) string {
	if n == 0 && len(address) <= maxObjectName {
		return address
	}
	sum := sha256.Sum256([]byte(address + "#" + strconv.Itoa(n)))
	tail := "-" + hex.EncodeToString(sum[:6])
	return address[:min(len(address), maxObjectName-len(tail))] + tail
}
