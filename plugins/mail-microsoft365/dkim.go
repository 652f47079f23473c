// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

type signingConfig struct {
	Domain    exchange.Text
	Identity  exchange.Text
	Name      exchange.Text
	Enabled   exchange.Bool
	Status    exchange.Text
	Selector1 exchange.Text `json:"Selector1CNAME"`
	Selector2 exchange.Text `json:"Selector2CNAME"`
}

func (s signingConfig) isFor(name string) bool {
	for _, n := range []exchange.Text{s.Domain, s.Identity, s.Name} {
		if strings.EqualFold(string(n), name) {
			return true
		}
	}
	return false
}

// statusNoKeys is the status of a DKIM configuration without keys. If such a configuration shows
// CNAME targets, they are not valid.
const statusNoKeys = "NoDKIMKeys"

// hasKeys reports whether the configuration contains both CNAME targets and they are valid.
func (s signingConfig) hasKeys() bool {
	return s.Selector1 != "" && s.Selector2 != "" && !strings.EqualFold(string(s.Status), statusNoKeys)
}

// toSigning converts the configuration. It returns the zero value if the configuration has no keys.
// The CNAME targets cannot be derived from the domain, because they can contain a letter that the
// platform shows nowhere else.
func (s signingConfig) toSigning(name string) dns.Signing {
	if !s.hasKeys() {
		return dns.Signing{}
	}
	record := func(label string, target exchange.Text) dns.Record {
		return dns.Record{Type: dns.CNAME, Name: label + "._domainkey." + name, Content: hostName(string(target)), TTL: defaultTTL}
	}
	return dns.Signing{
		Enabled:   s.Enabled.Value,
		Selector1: record("selector1", s.Selector1), Selector2: record("selector2", s.Selector2),
	}
}

// Signing implements sdk.MailTenant.
func (c *tenantClient) Signing(ctx context.Context, name string) (dns.Signing, error) {
	config, _, err := c.signingConfig(ctx, name)
	return config.toSigning(name), err
}

func (c *tenantClient) signingConfig(ctx context.Context, name string) (config signingConfig, found bool, err error) {
	rows, err := exchange.Invoke[signingConfig](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetDkimSigningConfig, Parameters: map[string]any{"Identity": name},
	})
	if exchange.Is(err, exchange.NotFound) {
		return signingConfig{}, false, nil
	}
	for _, row := range rows {
		if row.isFor(name) {
			return row, true, nil
		}
	}
	return signingConfig{}, false, err
}

// EnsureSigning implements sdk.MailTenant.
func (c *tenantClient) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	config, found, err := c.signingConfig(ctx, name)
	if err != nil || config.hasKeys() {
		return config.toSigning(name), err
	}
	if found {
		// Enabling a configuration creates its keys, even if Exchange then refuses to enable it
		// because the CNAME records are missing. If the records are already published, signing
		// starts.
		err = c.setSigningEnabled(ctx, name)
	} else {
		_, err = exchange.Invoke[struct{}](ctx, c.exchange, exchange.Command{
			Effect: call.Create, Cmdlet: exchange.NewDkimSigningConfig,
			Parameters: map[string]any{"DomainName": name, "KeySize": exchange.KeySize, "Enabled": false},
		})
	}
	config, _, readErr := c.signingConfig(ctx, name)
	switch {
	case readErr == nil && config.hasKeys():
		return config.toSigning(name), nil
	case exchange.Is(err, exchange.NotFound, exchange.NotAccepted):
		return dns.Signing{}, call.NotReady("the mail server does not accept the domain yet", call.CauseOf(err))
	case err != nil && !exchange.Is(err, exchange.Exists, exchange.InvalidValue):
		return dns.Signing{}, err
	case readErr != nil:
		return dns.Signing{}, readErr
	default:
		return dns.Signing{}, call.NotReady("the mail platform has not made the DKIM keys yet")
	}
}

func (c *tenantClient) setSigningEnabled(ctx context.Context, name string) error {
	_, err := exchange.Invoke[struct{}](ctx, c.exchange, exchange.Command{
		Effect: call.Repeatable, Cmdlet: exchange.SetDkimSigningConfig,
		Parameters: map[string]any{"Identity": name, "Enabled": true},
	})
	return err
}

// EnableSigning implements sdk.MailTenant.
func (c *tenantClient) EnableSigning(ctx context.Context, name string) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	err := c.setSigningEnabled(ctx, name)
	switch {
	case exchange.Is(err, exchange.NotFound):
		return call.Refuse(fault.DKIMNotReady, "the mail platform has made no DKIM records", call.CauseOf(err))
	case exchange.Is(err, exchange.InvalidValue), exchange.MessageContains(err, "cname"):
		return call.Refuse(fault.DKIMNotReady, "the mail platform does not see both CNAME records yet", call.CauseOf(err))
	case hasKind(err, outcome.NotReady):
		return call.Refuse(fault.DKIMNotReady, "the mail server is still being prepared", call.CauseOf(err))
	default:
		return err
	}
}
