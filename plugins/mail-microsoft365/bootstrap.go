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

// Bootstrap implements sdk.MailTenant. It assigns the role Exchange Administrator if the tenant
// allows this, and reads Exchange's configuration. If the organization is not enabled for
// customization yet, Bootstrap requests this. It skips an assignment or a request that is already
// done, so it can be repeated at any time. A token contains the grants at the time of its issue, so
// Bootstrap replaces old tokens.
func (c *tenantClient) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	c.graph.Tokens.RenewOld()
	role, err := c.ensureRole(ctx)
	if err != nil {
		return tenant.Progress{}, err
	}
	c.exchange.Tokens.RenewOld()
	config, err := c.probe(ctx)
	switch {
	case login.IsNoExchange(err):
		return tenant.Progress{
			Status: tenant.BootstrapFailed, Step: tenant.StepNoExchange,
			Message: "the tenant has no mail server; it needs an Exchange Online subscription",
		}, nil
	case exchange.Status(err) == http.StatusUnauthorized, exchange.Status(err) == http.StatusForbidden:
		return c.missingGrant(ctx, role, exchange.Status(err))
	case err != nil:
		return tenant.Progress{}, err
	case config.Dehydrated.Value:
		return c.requestCustomization(ctx)
	default:
		return readyProgress, nil
	}
}

var readyProgress = tenant.Progress{Status: tenant.BootstrapReady, Message: "the mail server is prepared"}

func pendingProgress(message string) tenant.Progress {
	return tenant.Progress{Status: tenant.BootstrapPending, Step: tenant.StepWait, Message: message}
}

type organizationConfig struct {
	Name       exchange.Text
	Dehydrated exchange.Bool `json:"IsDehydrated"`
}

// probe reads the organization's configuration. Get-OrganizationConfig requires both the app role
// and the directory role.
func (c *tenantClient) probe(ctx context.Context) (organizationConfig, error) {
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

// missingGrant returns the progress of a bootstrap whose probe was refused. Status 401 means that
// the app role is missing. Status 403 means that the directory role is missing. The grant may also
// exist without being effective yet.
func (c *tenantClient) missingGrant(ctx context.Context, role roleStatus, status int) (tenant.Progress, error) {
	if status == http.StatusUnauthorized {
		missing, err := c.appRoleMissing(ctx, role.principal)
		if err != nil {
			return tenant.Progress{}, err
		}
		if missing {
			return tenant.Progress{
				Status: tenant.BootstrapFailed, Step: tenant.StepReconnect,
				Message: "the mail server's permission is missing; an administrator has to give the consent again",
			}, nil
		}
	}
	if role.state == roleRefused || (role.state == roleUnreadable && status == http.StatusForbidden) {
		return tenant.Progress{
			Status: tenant.BootstrapPending, Step: tenant.StepGrantRole,
			Message: "an administrator has to assign the directory role Exchange Administrator to the service's enterprise application",
		}, nil
	}
	return pendingProgress("the mail server's grants are taking effect; this takes minutes, sometimes an hour"), nil
}

// retryInterval is the minimum time between two customization requests for a tenant. If the tenant
// refuses to let tenantry read service principals, it is also the minimum time until the next
// attempt to read them.
const retryInterval = time.Hour

// requestCustomization requests the organization's customization and reads the state again.
// Exchange refuses a second request, so requestCustomization ignores NotReady and a ProviderError
// of Exchange. After a success or an ignored error, it sends no further request for retryInterval.
func (c *tenantClient) requestCustomization(ctx context.Context) (tenant.Progress, error) {
	pending := pendingProgress("the mail server is being prepared; this takes from a minute to hours")
	state := c.platform.state
	if state.customizationRequestedAt.wasRecordedWithin(c.id, state.now(), retryInterval) {
		return pending, nil
	}
	_, err := exchange.Invoke[struct{}](ctx, c.exchange, exchange.Command{
		Effect: call.Create, Cmdlet: exchange.EnableCustomization,
	})
	unspecific := exchange.Status(err) != 0 && errors.Is(err, fault.ProviderError)
	if err != nil && !unspecific && !hasKind(err, outcome.NotReady) {
		return tenant.Progress{}, err
	}
	state.customizationRequestedAt.record(c.id, state.now())
	config, err := c.probe(ctx)
	if err != nil {
		return tenant.Progress{}, err
	}
	if config.Dehydrated.Value {
		return pending, nil
	}
	return readyProgress, nil
}
