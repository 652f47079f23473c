// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// Template ids of directory roles. They are the same in every tenant.
const (
	globalAdministrator   = "62e90394-69f5-4237-9190-012177145e10"
	exchangeAdministrator = "29232cdf-9323-42fd-ade2-1d097af3e4de"
)

// consentTimeout is the longest time that waitForConsent waits until a new consent takes effect at
// the token endpoint and at Graph.
const consentTimeout = 2 * time.Minute

// ConsentURL implements sdk.MailPlatform.
func (p *platform) ConsentURL(_ context.Context, state, redirect string) (string, error) {
	return p.login().ConsentURL(p.settings.graphScope, state, redirect), nil
}

// Granted implements sdk.MailPlatform. It returns the tenant that the consent callback claims.
func (p *platform) Granted(_ context.Context, query string) (tenant.GUID, error) {
	return login.ParseConsentCallback(query)
}

// SignInURL implements sdk.MailPlatform.
func (p *platform) SignInURL(ctx context.Context, s sdk.SignIn) (string, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	return p.login().SignInURL(ctx, s)
}

// Administrator implements sdk.MailPlatform. It checks the sign-in first, then the tenant's
// consent, then the role Global Administrator. It searches for the role in the ID token and, if the
// token does not list it, in the directory.
func (p *platform) Administrator(ctx context.Context, s sdk.SignIn, code secret.Text) (tenant.Administrator, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	person, err := p.login().RedeemCode(ctx, s, code)
	if err != nil {
		return tenant.Administrator{}, err
	}
	c := p.client(s.Tenant)
	// Tokens that were issued before this consent do not contain its permissions.
	c.graph.Tokens.Renew(0)
	c.exchange.Tokens.Renew(0)
	if err := c.waitForConsent(ctx); err != nil {
		return tenant.Administrator{}, err
	}
	if !slices.Contains(person.Roles, globalAdministrator) {
		if err := c.checkGlobalAdministrator(ctx, person.ObjectID); err != nil {
			return tenant.Administrator{}, err
		}
	}
	return tenant.Administrator{Tenant: s.Tenant, Address: person.Address, Name: person.Name}, nil
}

// waitForConsent waits until the application can read the tenant's organization record. A token
// alone proves nothing, because the login host also issues tokens without any permission.
// waitForConsent fails with ConsentDeclined if the tenant denies access for a permanent reason. It
// fails with the same refusal if the tenant still denies access shortly before consentTimeout or
// the deadline of the call.
func (c *tenantClient) waitForConsent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, consentTimeout)
	defer cancel()
	for n := 0; ; n++ {
		_, err := c.organization(ctx)
		if err == nil || !call.IsDenied(err) {
			return err
		}
		if !login.MayBePropagating(err) || !c.platform.state.retry.Pause(ctx, min(n, 1), err) {
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

// grants reports whether the assignment assigns the role to the principal in the whole directory.
// It checks all fields, because the server could have ignored the filter of the request.
func (a roleAssignment) grants(principal, role string) bool {
	return strings.EqualFold(a.Principal, principal) && strings.EqualFold(a.Role, role) && a.Scope == "/"
}

var roleAssignments = graph.StaticPath("/roleManagement/directory/roleAssignments")

// checkGlobalAdministrator returns nil if the person with this object id is a Global Administrator
// of the tenant. It returns a NotAdministrator refusal if the person is not, if the object id is
// not a GUID, or if the tenant does not let tenantry read the role.
func (c *tenantClient) checkGlobalAdministrator(ctx context.Context, objectID string) error {
	id, ok := tenant.ParseGUID(objectID)
	if !ok {
		return call.Refuse(fault.NotAdministrator, "the sign-in does not say who signed in", "no_oid")
	}
	rows, err := graph.List[roleAssignment](ctx, c.graph, roleAssignments, graph.Query("$filter",
		"principalId eq '"+string(id)+"' and roleDefinitionId eq '"+globalAdministrator+"'"))
	if call.IsDenied(err) {
		return call.Refuse(fault.NotAdministrator, "the tenant does not let the service see the role", call.CauseOf(err))
	}
	if err != nil {
		return err
	}
	hasRole := func(a roleAssignment) bool { return a.grants(string(id), globalAdministrator) }
	if !slices.ContainsFunc(rows, hasRole) {
		return call.Refuse(fault.NotAdministrator, "the person who signed in is not a global administrator of the tenant")
	}
	return nil
}
