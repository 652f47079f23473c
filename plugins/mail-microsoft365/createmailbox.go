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

// maxAliases is how many aliases are tried. An alias contains a hash of the address, so a collision
// is rare.
const maxAliases = 4

// CreateMailbox implements sdk.MailTenant. After a failed New-Mailbox, a lookup by address decides.
// A shared mailbox with the address counts as created. If a different object holds the address, the
// call is refused. If only the alias is taken, the next alias is tried.
func (c *tenantClient) CreateMailbox(ctx context.Context, m mailbox.Spec) (mailbox.Platform, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	m.Address = strings.ToLower(m.Address)
	p := c.platform.state.retry
	alias := 0
	for n := 0; ; n++ {
		made, err := c.newMailbox(ctx, m, alias)
		if err == nil && made.ObjectID != "" {
			return made, nil
		}
		if hasKind(err, outcome.Throttled) || hasKind(err, outcome.NotReady) || call.IsDenied(err) || ctx.Err() != nil {
			return made, err
		}
		found, inUse, lookErr := c.mailboxByAddress(ctx, m.Address)
		taken := exchange.Is(err, exchange.AddressTaken, exchange.Exists)
		switch {
		case lookErr == nil:
			return found, nil
		case err == nil:
			return made, nil // the object id is not known yet; OpenSignIn waits for the account
		case inUse:
			return mailbox.Platform{}, call.Refuse(fault.InvalidMailboxEmail, "another object of the tenant holds the address", call.CauseOf(err))
		case taken && alias+1 < maxAliases && isAbsent(lookErr) && !exchange.MessageContains(err, m.Address):
			alias++
		case taken && isAbsent(lookErr) && n+1 < maxAliases && p.Pause(ctx, min(n, 1), err):
			// The object that holds the address may have been created a moment ago and not show
			// yet.
		case hasKind(err, outcome.Down) && isAbsent(lookErr) && n+1 < p.MaxAttempts && p.Pause(ctx, n, err):
		default:
			return mailbox.Platform{}, newMailboxError(err)
		}
	}
}

// newMailbox runs New-Mailbox without password and sign-in name. Microsoft does not document
// whether Exchange honours them for a shared mailbox, so OpenSignIn sets both through Graph.
func (c *tenantClient) newMailbox(ctx context.Context, m mailbox.Spec, alias int) (mailbox.Platform, error) {
	rows, err := exchange.Invoke[mailboxRow](ctx, c.exchange, exchange.Command{
		Effect: call.Create, Cmdlet: exchange.NewMailbox,
		Parameters: map[string]any{
			"Shared": true, "Name": objectName(m.Address, alias), "DisplayName": m.DisplayName,
			"Alias": mailboxAlias(m.Address, alias), "PrimarySmtpAddress": m.Address,
		},
	})
	switch {
	case exchange.Is(err, exchange.NotAccepted, exchange.NotFound):
		return mailbox.Platform{}, call.NotReady("the mail server does not accept the domain yet", call.CauseOf(err))
	case err != nil:
		return mailbox.Platform{}, err
	case len(rows) == 0:
		return mailbox.Platform{DisplayName: m.DisplayName, Address: m.Address, Alias: mailboxAlias(m.Address, alias)}, nil
	}
	made := rows[0].toPort()
	made.Address = m.Address
	return made, nil
}

// newMailboxError translates a refusal to create a mailbox that does not exist.
func newMailboxError(err error) error {
	switch {
	case exchange.Is(err, exchange.AddressTaken, exchange.Exists):
		return call.Refuse(fault.InvalidMailboxEmail, "another object of the tenant holds the address", call.CauseOf(err))
	case exchange.Is(err, exchange.InvalidValue, exchange.LimitReached):
		return call.Refuse(fault.InvalidMailboxEmail, "the mail platform does not accept the mailbox", call.CauseOf(err))
	default:
		return err
	}
}

// mailboxAlias returns the n-th alias to try for an address. The result depends on its arguments
// alone.
func mailboxAlias(address string, n int) string {
	if n > 0 {
		address += "#" + strconv.Itoa(n)
	}
	return mailbox.Alias(address)
}

const maxObjectName = 64

// objectName returns the n-th object name to try, unique in the tenant. It is the address if that
// fits into maxObjectName characters and n is 0. Otherwise it is the start of the address and a
// hash.
func objectName(address string, n int) string {
	if n == 0 && len(address) <= maxObjectName {
		return address
	}
	sum := sha256.Sum256([]byte(address + "#" + strconv.Itoa(n)))
	tail := "-" + hex.EncodeToString(sum[:6])
	return address[:min(len(address), maxObjectName-len(tail))] + tail
}
