// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

// Exchange.ManageAsApp, the application's own grant at the mail server: as an
// app role's id, and as tokens name it.
const (
	manageAsApp     = "dc50a0fb-09a3-484d-be87-e023b12c6440"
	manageAsAppName = "Exchange.ManageAsApp"
)

// roleFound is where the directory role of our service principal stands.
type roleFound struct {
	principal string // our service principal's object id, "" while unknown
	state     roleState
}

type roleState int

const (
	roleHeld    roleState = iota + 1
	roleTaken             // assigned just now
	roleRefused           // not held, and we may not assign it
	roleHidden            // we may not look
	roleUnseen            // the directory does not show our service principal yet
)

// ensureRole assigns the role Exchange Administrator to our service principal
// where it is missing and we may.
func (c *client) ensureRole(ctx context.Context) (roleFound, error) {
	principal, err := c.servicePrincipal(ctx)
	switch {
	case is(err, outcome.NotReady):
		return roleFound{"", roleUnseen}, nil
	case err != nil || principal == "":
		return roleFound{"", roleHidden}, err
	}
	rows, err := graph.List[roleAssignment](ctx, c.graph, roleAssignments, graph.Query("$filter", "principalId eq '"+principal+"'"))
	if call.Denied(err) && graph.Status(err) != 0 {
		return roleFound{principal, roleHidden}, nil
	}
	if err != nil {
		return roleFound{}, err
	}
	held := func(a roleAssignment) bool { return a.holds(principal, exchangeAdministrator) }
	if slices.ContainsFunc(rows, held) {
		return roleFound{principal, roleHeld}, nil
	}
	state, err := c.takeRole(ctx, principal)
	return roleFound{principal, state}, err
}

// takeRole assigns the role. Assigning it twice is a conflict, not a second
// assignment, so it may be repeated.
func (c *client) takeRole(ctx context.Context, principal string) (roleState, error) {
	_, err := graph.Write[struct{}](ctx, c.graph, call.Repeatable, http.MethodPost, roleAssignments, map[string]string{
		"@odata.type":      "#microsoft.graph.unifiedRoleAssignment",
		"roleDefinitionId": exchangeAdministrator, "principalId": principal, "directoryScopeId": "/",
	})
	switch {
	case err == nil, conflicts(err):
		return roleTaken, nil
	case call.Denied(err) && graph.Status(err) != 0:
		return roleRefused, nil
	case graph.Status(err) == http.StatusNotFound:
		return roleUnseen, nil // the directory does not show the principal everywhere yet
	default:
		return 0, err
	}
}

type servicePrincipal struct {
	ID string `json:"id"`
}

// servicePrincipal returns the object id of our application in the tenant.
// Where the directory does not show it, or not to us, our token names it; when
// that does not either, the id is "", or NotReady as long as it may show yet.
func (c *client) servicePrincipal(ctx context.Context) (string, error) {
	h := c.platform.house
	if !h.hidden.since(c.id, h.now(), askAgain) {
		path := graph.Plain("/servicePrincipals(appId='" + c.app + "')")
		sp, err := afterLag(ctx, c, func() (servicePrincipal, error) {
			return graph.Get[servicePrincipal](ctx, c.graph, path, graph.Query("$select", "id,appId"))
		})
		switch {
		case err == nil:
			return sp.ID, nil
		case graph.Status(err) == http.StatusNotFound:
			return c.named(ctx, call.NotReady("the directory does not show the service yet", call.CauseOf(err)))
		case graph.Status(err) != http.StatusForbidden:
			return "", err
		}
		h.hidden.set(c.id, h.now())
	}
	return c.named(ctx, nil)
}

// named returns the object id that our token names, else unnamed.
func (c *client) named(ctx context.Context, unnamed error) (string, error) {
	t, err := c.graph.Tokens.Token(ctx)
	if err != nil {
		return "", err
	}
	payload, _ := t.Payload()
	if payload.ObjectID != "" {
		return payload.ObjectID, nil
	}
	return "", unnamed
}

// answer is a yes or no that may stay open.
type answer int

const (
	open answer = iota
	yes
	no
)

type appRoleAssignment struct {
	Role string `json:"appRoleId"`
}

// appRoleGranted tells whether the application's own grant at the mail server
// exists. Where the directory does not let us look, our token tells.
func (c *client) appRoleGranted(ctx context.Context, principal string) (answer, error) {
	if principal == "" {
		return open, nil
	}
	rows, err := graph.List[appRoleAssignment](ctx, c.graph, graph.At("/servicePrincipals/%s/appRoleAssignments", principal), "")
	switch {
	case err == nil && slices.ContainsFunc(rows, func(a appRoleAssignment) bool { return equalFold(a.Role, manageAsApp) }):
		return yes, nil
	case err == nil:
		return no, nil
	case graph.Status(err) == http.StatusNotFound:
		return open, nil
	case !call.Denied(err) || graph.Status(err) == 0:
		return open, err
	}
	t, err := c.exchange.Tokens.Token(ctx)
	if err != nil {
		return open, err
	}
	payload, readable := t.Payload()
	switch {
	case !readable:
		return open, nil
	case slices.Contains(payload.Roles, manageAsAppName):
		return yes, nil
	default:
		return no, nil
	}
}
