// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

type transportConfig struct {
	SMTPAuthDisabled exchange.Bool `json:"SmtpClientAuthenticationDisabled"`
}

// SMTPAuth implements sdk.MailTenant. If the setting has no value, the platform's default applies:
// authenticated SMTP is disabled.
func (c *tenantClient) SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	rows, err := exchange.Invoke[transportConfig](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetTransportConfig, Select: []string{"SmtpClientAuthenticationDisabled"},
	})
	switch {
	case err != nil:
		return tenant.SMTPAuthUnknown, err
	case len(rows) != 1:
		return tenant.SMTPAuthUnknown, call.Broken("exchange", "transport_config")
	case rows[0].SMTPAuthDisabled.Set && !rows[0].SMTPAuthDisabled.Value:
		return tenant.SMTPAuthEnabled, nil
	default:
		return tenant.SMTPAuthDisabled, nil
	}
}

// EnableSMTPAuth implements sdk.MailTenant. It can take minutes to an hour until the setting takes
// effect. EnableSMTPAuth returns NotReady if the command was accepted but the setting is still
// disabled. If the command was refused, it returns nil only if the setting is already enabled.
func (c *tenantClient) EnableSMTPAuth(ctx context.Context) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	_, err := exchange.Invoke[struct{}](ctx, c.exchange, exchange.Command{
		Effect: call.Repeatable, Cmdlet: exchange.SetTransportConfig,
		Parameters: map[string]any{"SmtpClientAuthenticationDisabled": false},
	})
	refused := exchange.Is(err, exchange.Unknown, exchange.InvalidValue, exchange.BadParameter, exchange.LimitReached)
	if err != nil && !refused {
		return err
	}
	p := c.platform.state.retry
	for n := 0; ; n++ {
		state, readErr := c.SMTPAuth(ctx)
		switch {
		case readErr != nil && err != nil:
			return err
		case readErr != nil || state == tenant.SMTPAuthEnabled:
			return readErr
		case err != nil:
			return call.Refuse(fault.SMTPAuthNotEnabled, "the mail platform keeps authenticated SMTP off for the tenant", call.CauseOf(err))
		case n+1 >= p.MaxAttempts, !p.Pause(ctx, n, nil):
			return call.NotReady("authenticated SMTP is switched on and takes effect soon")
		}
	}
}

// OpenSubmission implements sdk.MailTenant. It enables authenticated SMTP for one mailbox.
func (c *tenantClient) OpenSubmission(ctx context.Context, address string) error {
	_, err := exchange.Invoke[struct{}](ctx, c.exchange, exchange.Command{
		Effect: call.Repeatable, Cmdlet: exchange.SetCASMailbox,
		Parameters: map[string]any{"Identity": strings.ToLower(address), "SmtpClientAuthenticationDisabled": false},
	})
	if exchange.Is(err, exchange.NotFound) {
		return call.NotReady("the mail server does not show the mailbox yet", call.CauseOf(err))
	}
	return err
}
