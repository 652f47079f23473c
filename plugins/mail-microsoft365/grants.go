// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

// Exchange.ManageAsApp is the app role that every cmdlet requires. manageAsAppID is the id of the
// role, and manageAsAppName is its name in tokens.
const (
	manageAsAppID   = "dc50a0fb-09a3-484d-be87-e023b12c6440"
	manageAsAppName = "Exchange.ManageAsApp"
)

// roleStatus says whether the application's service principal has the role Exchange Administrator.
type roleStatus struct {
	principal string // object id of the service principal, "" if unknown
	state     roleState
}

type roleState int

const (
	roleAssigned        roleState = iota + 1 // before or by this call. A conflict counts as assigned.
	roleRefused                              // the principal does not have the role, and the tenant does not allow tenantry to assign it
	roleUnreadable                           // the tenant does not let tenantry read the service principal or its role assignments
	principalNotVisible                      // the directory does not show the service principal yet
)

// ensureRole assigns the role Exchange Administrator to the application's service principal, if the
// principal does not have it. If the tenant refuses the assignment, the result has the state
// roleRefused and the error is nil.
func (c *tenantClient) ensureRole(ctx context.Context) (roleStatus, error) {
	principal, err := c.servicePrincipal(ctx)
	switch {
	case hasKind(err, outcome.NotReady):
		return roleStatus{"", principalNotVisible}, nil
	case err != nil || principal == "":
		return roleStatus{"", roleUnreadable}, err
	}
	rows, err := graph.List[roleAssignment](ctx, c.graph, roleAssignments, graph.Query("$filter", "principalId eq '"+principal+"'"))
	if call.IsDenied(err) && graph.Status(err) != 0 {
		return roleStatus{principal, roleUnreadable}, nil
	}
	if err != nil {
		return roleStatus{}, err
	}
	hasRole := func(a roleAssignment) bool { return a.grants(principal, exchangeAdministrator) }
	if slices.ContainsFunc(rows, hasRole) {
		return roleStatus{principal, roleAssigned}, nil
	}
	state, err := c.assignRole(ctx, principal)
	return roleStatus{principal, state}, err
}

// assignRole assigns the role. The request can be repeated, because Graph answers a second
// assignment with a conflict.
func (c *tenantClient) assignRole(ctx context.Context, principal string) (roleState, error) {
	_, err := graph.Write[struct{}](ctx, c.graph, call.Repeatable, http.MethodPost, roleAssignments, map[string]string{
		"@odata.type":      "#microsoft.graph.unifiedRoleAssignment",
		"roleDefinitionId": exchangeAdministrator, "principalId": principal, "directoryScopeId": "/",
	})
	switch {
	case err == nil, isConflict(err):
		return roleAssigned, nil
	case call.IsDenied(err) && graph.Status(err) != 0:
		return roleRefused, nil
	case graph.Status(err) == http.StatusNotFound:
		return principalNotVisible, nil // a replica of the directory does not have the principal yet
	default:
		return 0, err
	}
}

type servicePrincipal struct {
	ID string `json:"id"`
}

// servicePrincipal returns the object id of the application's service principal in the tenant. If
// the tenant does not let tenantry read the directory, or the directory does not show the service
// principal, it returns the id in the access token. If the token contains no id, servicePrincipal
// returns:
//
//   - "" if the tenant does not let tenantry read the directory
//   - NotReady if the directory does not show the service principal yet
func (c *tenantClient) servicePrincipal(ctx context.Context) (string, error) {
	state := c.platform.state
	if !state.principalsForbiddenAt.wasRecordedWithin(c.id, state.now(), retryInterval) {
		path := graph.StaticPath("/servicePrincipals(appId='" + c.platform.settings.credential.ClientID + "')")
		sp, err := retryNotFound(ctx, c, func() (servicePrincipal, error) {
			return graph.Get[servicePrincipal](ctx, c.graph, path, graph.Query("$select", "id,appId"))
		})
		switch {
		case err == nil:
			return sp.ID, nil
		case graph.Status(err) == http.StatusNotFound:
			return c.principalFromToken(ctx, call.NotReady("the directory does not show the service yet", call.CauseOf(err)))
		case graph.Status(err) != http.StatusForbidden:
			return "", err
		}
		state.principalsForbiddenAt.record(c.id, state.now())
	}
	return c.principalFromToken(ctx, nil)
}

// principalFromToken returns the object id in the access token. If the token contains no object id,
// it returns errNoID.
func (c *tenantClient) principalFromToken(ctx context.Context, errNoID error) (string, error) {
	t, err := c.graph.Tokens.Token(ctx)
	if err != nil {
		return "", err
	}
	payload, _ := t.Payload()
	if payload.ObjectID != "" {
		return payload.ObjectID, nil
	}
	return "", errNoID
}

type appRoleAssignment struct {
	Role string `json:"appRoleId"`
}

// appRoleMissing reports whether the application is known to lack the app role
// Exchange.ManageAsApp. If the tenant does not let tenantry read the app role assignments, it
// searches for the role in the access token for Exchange.
func (c *tenantClient) appRoleMissing(ctx context.Context, principal string) (bool, error) {
	if principal == "" {
		return false, nil
	}
	rows, err := graph.List[appRoleAssignment](ctx, c.graph, graph.PathWith("/servicePrincipals/%s/appRoleAssignments", principal), "")
	switch {
	case err == nil:
		hasRole := func(a appRoleAssignment) bool { return strings.EqualFold(a.Role, manageAsAppID) }
		return !slices.ContainsFunc(rows, hasRole), nil
	case graph.Status(err) == http.StatusNotFound:
		return false, nil
	case !call.IsDenied(err) || graph.Status(err) == 0:
		return false, err
	}
	t, err := c.exchange.Tokens.Token(ctx)
	if err != nil {
		return false, err
	}
	payload, readable := t.Payload()
	return readable && !slices.Contains(payload.Roles, manageAsAppName), nil
}
