// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

type mailboxRow struct {
	ObjectID        exchange.Text `json:"ExternalDirectoryObjectId"`
	DisplayName     exchange.Text
	Alias           exchange.Text
	Primary         exchange.Text `json:"PrimarySmtpAddress"`
	Principal       exchange.Text `json:"UserPrincipalName"`
	Kind            exchange.Text `json:"RecipientTypeDetails"`
	AccountDisabled exchange.Bool
	CreatedAt       exchange.Time `json:"WhenMailboxCreated"`
}

var mailboxProperties = []string{
	"ExternalDirectoryObjectId", "DisplayName", "Alias", "PrimarySmtpAddress", "UserPrincipalName",
	"RecipientTypeDetails", "AccountDisabled", "WhenMailboxCreated",
}

// isSharedMailbox reports whether the row has an address and is a shared mailbox. A row without
// RecipientTypeDetails counts as a shared mailbox. The check is needed because the server could
// have ignored the filter.
func (r mailboxRow) isSharedMailbox() bool {
	return r.Primary != "" && (r.Kind == "" || strings.EqualFold(string(r.Kind), exchange.SharedMailbox))
}

func (r mailboxRow) toMailbox() mailbox.Platform {
	return mailbox.Platform{
		ObjectID: string(r.ObjectID), DisplayName: string(r.DisplayName),
		Address: strings.ToLower(string(r.Primary)), PrincipalName: string(r.Principal), Alias: string(r.Alias),
		AccountEnabled: !r.AccountDisabled.Value, CreatedAt: r.CreatedAt.Time,
	}
}

// Mailboxes implements sdk.MailTenant.
func (c *tenantClient) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	rows, err := exchange.Invoke[mailboxRow](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetMailbox, Select: mailboxProperties,
		Parameters: map[string]any{"ResultSize": exchange.Unlimited, "RecipientTypeDetails": []string{exchange.SharedMailbox}},
	})
	var mailboxes []mailbox.Platform
	for _, r := range rows {
		if r.isSharedMailbox() {
			mailboxes = append(mailboxes, r.toMailbox())
		}
	}
	return mailboxes, err
}

// Mailbox implements sdk.MailTenant.
func (c *tenantClient) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	found, _, err := c.mailboxByAddress(ctx, strings.ToLower(address))
	return found, err
}

// mailboxByAddress returns the shared mailbox with this primary address, or a MailboxNotFound
// refusal. inUse is true if a different mailbox has the address.
func (c *tenantClient) mailboxByAddress(ctx context.Context, address string) (found mailbox.Platform, inUse bool, err error) {
	rows, err := exchange.Invoke[mailboxRow](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetMailbox, Select: mailboxProperties,
		Parameters: map[string]any{"Identity": address},
	})
	if err != nil && !exchange.Is(err, exchange.NotFound) {
		return mailbox.Platform{}, false, err
	}
	for _, r := range rows {
		if r.isSharedMailbox() && strings.EqualFold(string(r.Primary), address) {
			return r.toMailbox(), false, nil
		}
	}
	return mailbox.Platform{}, len(rows) > 0, call.Refuse(fault.MailboxNotFound, "the tenant holds no such shared mailbox")
}

// Rename implements sdk.MailTenant.
func (c *tenantClient) Rename(ctx context.Context, address, displayName string) error {
	_, err := exchange.Invoke[struct{}](ctx, c.exchange, exchange.Command{
		Effect: call.Repeatable, Cmdlet: exchange.SetMailbox,
		Parameters: map[string]any{"Identity": strings.ToLower(address), "DisplayName": displayName},
	})
	if exchange.Is(err, exchange.NotFound) {
		return call.Refuse(fault.MailboxNotFound, "the tenant holds no such shared mailbox", call.CauseOf(err))
	}
	return err
}
