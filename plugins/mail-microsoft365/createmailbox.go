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

// aliases is how many aliases are tried. Ours hold a hash of the address, so
// one that is taken is rare already.
const aliases = 4

// CreateMailbox implements sdk.MailTenant. Whatever New-Mailbox says, a look by
// address decides: found is made, taken by another object is refused, and an
// alias that something else holds is replaced.
func (c *client) CreateMailbox(ctx context.Context, m mailbox.Spec) (mailbox.Platform, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	m.Address = strings.ToLower(m.Address)
	p := c.platform.house.patience
	alias := 0
	for n := 0; ; n++ {
		made, err := c.newMailbox(ctx, m, alias)
		if err == nil && made.ObjectID != "" {
			return made, nil
		}
		if is(err, outcome.Throttled) || is(err, outcome.NotReady) || call.Denied(err) || ctx.Err() != nil {
			return made, err
		}
		found, held, lookErr := c.atAddress(ctx, m.Address)
		taken := exchange.Is(err, exchange.AddressTaken, exchange.Exists)
		switch {
		case lookErr == nil:
			return found, nil
		case err == nil:
			return made, nil // the directory's id is not known yet; sign-in waits for it
		case held:
			return mailbox.Platform{}, call.Refuse(fault.InvalidMailboxEmail, "another object of the tenant holds the address", call.CauseOf(err))
		case taken && alias+1 < aliases && absent(lookErr) && !exchange.Says(err, m.Address):
			alias++
		case taken && absent(lookErr) && n+1 < aliases && p.Pause(ctx, min(n, 1), err):
			// The object that holds the address may be one that was made a
			// moment ago and does not show yet.
		case is(err, outcome.Down) && absent(lookErr) && n+1 < p.Tries && p.Pause(ctx, n, err):
		default:
			return mailbox.Platform{}, refusedMailbox(err)
		}
	}
}

// newMailbox sends neither password nor sign-in name: whether the platform
// honours them for a shared mailbox is not documented, Graph sets both.
func (c *client) newMailbox(ctx context.Context, m mailbox.Spec, alias int) (mailbox.Platform, error) {
	rows, err := exchange.Invoke[mailboxRow](ctx, c.exchange, exchange.Command{
		Effect: call.Create, Cmdlet: exchange.NewMailbox,
		Parameters: map[string]any{
			"Shared": true, "Name": objectName(m.Address, alias), "DisplayName": m.DisplayName,
			"Alias": aliasOf(m.Address, alias), "PrimarySmtpAddress": m.Address,
		},
	})
	switch {
	case exchange.Is(err, exchange.NotAccepted, exchange.NotFound):
		return mailbox.Platform{}, call.NotReady("the mail server does not accept the domain yet", call.CauseOf(err))
	case err != nil:
		return mailbox.Platform{}, err
	case len(rows) == 0:
		return mailbox.Platform{DisplayName: m.DisplayName, Address: m.Address, Alias: aliasOf(m.Address, alias)}, nil
	}
	made := rows[0].platform()
	made.Address = m.Address
	return made, nil
}

// refusedMailbox reads a refusal to make what is not there.
func refusedMailbox(err error) error {
	switch {
	case exchange.Is(err, exchange.AddressTaken, exchange.Exists):
		return call.Refuse(fault.InvalidMailboxEmail, "another object of the tenant holds the address", call.CauseOf(err))
	case exchange.Is(err, exchange.Invalid, exchange.Limit):
		return call.Refuse(fault.InvalidMailboxEmail, "the mail platform does not take the mailbox", call.CauseOf(err))
	default:
		return err
	}
}

// aliasOf gives the n-th alias to try for an address, always the same.
func aliasOf(address string, n int) string {
	if n > 0 {
		address += "#" + strconv.Itoa(n)
	}
	return mailbox.Alias(address)
}

const maxName = 64

// objectName is the object's name, unique in the tenant: the address, or where
// that is too long or taken, one that is as unique.
func objectName(address string, n int) string {
	if n == 0 && len(address) <= maxName {
		return address
	}
	sum := sha256.Sum256([]byte(address + "#" + strconv.Itoa(n)))
	tail := "-" + hex.EncodeToString(sum[:6])
	return address[:min(len(address), maxName-len(tail))] + tail
}
