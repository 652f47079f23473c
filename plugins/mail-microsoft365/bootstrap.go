// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
)

// Bootstrap implements sdk.MailTenant: the role first, where we may take it,
// then a probe with a token that knows of it, then the organization's
// customization. Each step is skipped where it is done, so the whole may be
// repeated at any point.
func (c *client) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	h := c.platform.house
	p, err := c.bootstrap(ctx, c.oldest())
	if err == nil && p.Step == tenant.StepWait {
		h.waiting.set(c.id, h.now())
	}
	return p, err
}

// samePass is how soon who was told to wait asks again.
const samePass = 5 * time.Second

// oldest is how old a token may be here. Grants are written into tokens, so
// only new ones tell what was withdrawn. But who waits asks once a second, and
// new tokens each time would be a loop to the login host, which ends it with
// AADSTS50196 for all of the tenant's calls.
func (c *client) oldest() time.Duration {
	h := c.platform.house
	if h.waiting.since(c.id, h.now(), samePass) {
		return login.Fresh
	}
	return 0
}

func (c *client) bootstrap(ctx context.Context, oldest time.Duration) (tenant.Progress, error) {
	c.graph.Tokens.Renew(oldest)
	role, err := c.ensureRole(ctx)
	if err != nil {
		return tenant.Progress{}, err
	}
	c.exchange.Tokens.Renew(oldest)
	config, err := c.probe(ctx)
	switch {
	case login.NoExchange(err):
		return tenant.Progress{
			Status: tenant.BootstrapFailed, Step: tenant.StepNoExchange,
			Message: "the tenant has no mail server; it needs an Exchange Online subscription",
		}, nil
	case exchange.Status(err) == http.StatusUnauthorized, exchange.Status(err) == http.StatusForbidden:
		return c.missingGrant(ctx, role, exchange.Status(err))
	case err != nil:
		return tenant.Progress{}, err
	case config.Dehydrated.Value:
		return c.hydrate(ctx)
	default:
		return ready, nil
	}
}

var ready = tenant.Progress{Status: tenant.BootstrapReady, Message: "the mail server is prepared"}

func waiting(message string) tenant.Progress {
	return tenant.Progress{Status: tenant.BootstrapPending, Step: tenant.StepWait, Message: message}
}

type organizationConfig struct {
	Name       exchange.Text
	Dehydrated exchange.Bool `json:"IsDehydrated"`
}

// probe is the cheapest command that needs both grants.
func (c *client) probe(ctx context.Context) (organizationConfig, error) {
	rows, err := exchange.Invoke[organizationConfig](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetOrganizationConfig, Select: []string{"Name", "IsDehydrated"},
	})
	if err != nil {
		return organizationConfig{}, err
	}
	if len(rows) != 1 {
		return organizationConfig{}, call.Broken("exchange", "organization_config")
	}
	return rows[0], nil
}

// missingGrant says which of the two grants the probe missed. A 401 misses the
// application's, a 403 the role; either may only need time to spread.
func (c *client) missingGrant(ctx context.Context, role roleFound, status int) (tenant.Progress, error) {
	if status == http.StatusUnauthorized {
		granted, err := c.appRoleGranted(ctx, role.principal)
		if err != nil {
			return tenant.Progress{}, err
		}
		if granted == no {
			return tenant.Progress{
				Status: tenant.BootstrapFailed, Step: tenant.StepReconnect,
				Message: "the mail server's permission is missing; an administrator has to give the consent again",
			}, nil
		}
	}
	if role.state == roleRefused || (role.state == roleHidden && status == http.StatusForbidden) {
		return tenant.Progress{
			Status: tenant.BootstrapPending, Step: tenant.StepGrantRole,
			Message: "an administrator has to assign the directory role Exchange Administrator to the service's enterprise application",
		}, nil
	}
	return waiting("the mail server's grants are spreading; this takes minutes, at times an hour"), nil
}

// askAgain is how long one request for customization is given before another,
// and how long a refusal to read service principals is remembered.
const askAgain = time.Hour

// hydrate asks for the organization's customization once. A second request is
// an error that says nothing, so the state is read again instead.
func (c *client) hydrate(ctx context.Context) (tenant.Progress, error) {
	preparing := waiting("the mail server is being prepared; this takes from a minute to hours")
	h := c.platform.house
	if h.hydrated.since(c.id, h.now(), askAgain) {
		return preparing, nil
	}
	_, err := exchange.Invoke[struct{}](ctx, c.exchange, exchange.Command{
		Effect: call.Create, Cmdlet: exchange.EnableCustomization,
	})
	again := exchange.Status(err) != 0 && errors.Is(err, fault.ProviderError)
	if err != nil && !again && !is(err, outcome.NotReady) {
		return tenant.Progress{}, err
	}
	h.hydrated.set(c.id, h.now())
	config, err := c.probe(ctx)
	if err != nil {
		return tenant.Progress{}, err
	}
	if config.Dehydrated.Value {
		return preparing, nil
	}
	return ready, nil
}
