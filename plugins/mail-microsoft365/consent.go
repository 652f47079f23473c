// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// Directory roles by template id, the same in every tenant.
const (
	globalAdministrator   = "62e90394-69f5-4237-9190-012177145e10"
	exchangeAdministrator = "29232cdf-9323-42fd-ade2-1d097af3e4de"
)

// consentWindow is how long a new consent may take to reach the token endpoint
// and Graph.
const consentWindow = 2 * time.Minute

// ConsentURL implements sdk.MailPlatform.
func (p *platform) ConsentURL(_ context.Context, state, redirect string) (string, error) {
	return p.login().ConsentURL(p.settings.graphScope, state, redirect), nil
}

// Granted implements sdk.MailPlatform.
func (p *platform) Granted(_ context.Context, query string) (tenant.GUID, error) {
	return login.Granted(query)
}

// SignInURL implements sdk.MailPlatform.
func (p *platform) SignInURL(ctx context.Context, s sdk.SignIn) (string, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	return p.login().SignInURL(ctx, s)
}

// Administrator implements sdk.MailPlatform: who signed in is proven first,
// then that the tenant gave its consent, then the role.
func (p *platform) Administrator(ctx context.Context, s sdk.SignIn, code secret.Text) (tenant.Administrator, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	who, err := p.login().SignedIn(ctx, s, code)
	if err != nil {
		return tenant.Administrator{}, err
	}
	c := p.client(s.Tenant)
	// Tokens from before this consent know nothing of it.
	c.graph.Tokens.Renew(0)
	c.exchange.Tokens.Renew(0)
	if err := c.consented(ctx); err != nil {
		return tenant.Administrator{}, err
	}
	if !slices.Contains(who.Roles, globalAdministrator) {
		if err := c.administers(ctx, who.ObjectID); err != nil {
			return tenant.Administrator{}, err
		}
	}
	return tenant.Administrator{Tenant: s.Tenant, Address: who.Address, Name: who.Name}, nil
}

// consented waits until the application can read the tenant's own record: a
// token alone is issued without a single permission too.
func (c *client) consented(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, consentWindow)
	defer cancel()
	for n := 0; ; n++ {
		_, err := c.organization(ctx)
		if err == nil || !call.Denied(err) {
			return err
		}
		if !login.Spreading(err) || !c.platform.house.patience.Pause(ctx, min(n, 1), err) {
			return call.Refuse(fault.ConsentDeclined, "the tenant shows no consent for the service", call.CauseOf(err))
		}
		c.graph.Tokens.Renew(0)
	}
}

type roleAssignment struct {
	Principal string `json:"principalId"`
	Role      string `json:"roleDefinitionId"`
	Scope     string `json:"directoryScopeId"`
}

// holds reports whether an assignment gives the role to the principal in the
// whole directory. The server's filter is not trusted to have been applied.
func (a roleAssignment) holds(principal, role string) bool {
	return equalFold(a.Principal, principal) && equalFold(a.Role, role) && a.Scope == "/"
}

var roleAssignments = graph.Plain("/roleManagement/directory/roleAssignments")

// administers checks that a person is Global Administrator now.
func (c *client) administers(ctx context.Context, person string) error {
	id, ok := tenant.ParseGUID(person)
	if !ok {
		return call.Refuse(fault.NotAdministrator, "the sign-in does not say who signed in", "no_oid")
	}
	rows, err := graph.List[roleAssignment](ctx, c.graph, roleAssignments, graph.Query("$filter",
		"principalId eq '"+string(id)+"' and roleDefinitionId eq '"+globalAdministrator+"'"))
	if call.Denied(err) {
		return call.Refuse(fault.NotAdministrator, "the tenant does not let the service see the role", call.CauseOf(err))
	}
	if err != nil {
		return err
	}
	held := func(a roleAssignment) bool { return a.holds(string(id), globalAdministrator) }
	if !slices.ContainsFunc(rows, held) {
		return call.Refuse(fault.NotAdministrator, "who signed in is not a global administrator of the tenant")
	}
	return nil
}
