// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"strings"
	"time"
)

func (c *graphCall) principalObject(t *tenant) object {
	return object{"id": t.Grant.Principal, "appId": c.s.registration().ClientID, "displayName": "tenantry",
		"accountEnabled": !t.Behaviour.AppDisabled, "servicePrincipalType": "Application"}
}

// listPrincipals knows our own service principal only.
func listPrincipals(c *graphCall, t *tenant) result {
	clauses, refused := parseFilter(c.r.URL.Query().Get("$filter"))
	if refused != nil {
		return refuse(refused)
	}
	kept, refused := filtered([]object{c.principalObject(t)}, clauses, "appId", "id", "displayName")
	if refused != nil {
		return refuse(refused)
	}
	return c.many("servicePrincipals", kept)
}

// byAlternateKey answers servicePrincipals(appId='...') and the app roles below
// it, which no pattern of the router can name, and refuses every other path.
func byAlternateKey(c *graphCall, t *tenant) result {
	rest, ok := strings.CutPrefix(c.r.URL.Path, "/v1.0/servicePrincipals(appId='")
	id, below, closed := strings.Cut(rest, "')")
	if !ok || !closed || below != "" && below != "/appRoleAssignments" || c.r.Method != http.MethodGet {
		return refuse(errSegment.of(c.r.URL.Path[strings.LastIndex(c.r.URL.Path, "/")+1:]))
	}
	switch {
	case !c.may(applicationRead):
		return refuse(errDenied.of(""))
	case !strings.EqualFold(id, c.s.registration().ClientID):
		return refuse(errNotFound.of(id))
	case below != "":
		return c.many("appRoleAssignments", t.appRoleObjects())
	}
	return c.one(http.StatusOK, "servicePrincipals", c.principalObject(t))
}

func getPrincipal(c *graphCall, t *tenant) result {
	if c.r.PathValue("id") != t.Grant.Principal {
		return refuse(errNotFound.of(c.r.PathValue("id")))
	}
	return c.one(http.StatusOK, "servicePrincipals", c.principalObject(t))
}

func listAppRoles(c *graphCall, t *tenant) result {
	if c.r.PathValue("id") != t.Grant.Principal {
		return refuse(errNotFound.of(c.r.PathValue("id")))
	}
	return c.many("appRoleAssignments", t.appRoleObjects())
}

// appRoleObjects are the rows by which a gap in the consent can be told.
func (t *tenant) appRoleObjects() []object {
	names := map[string]string{graphAppID: "Microsoft Graph", exchangeAppID: "Office 365 Exchange Online"}
	rows := []object{}
	for _, role := range t.Grant.Roles {
		known := appRoles[role]
		rows = append(rows, object{
			"id": digest("grant", t.ID, role), "appRoleId": known.id, "principalId": t.Grant.Principal,
			"principalType": "ServicePrincipal", "principalDisplayName": "tenantry",
			"resourceId": guid("resource", t.ID, known.resource), "resourceDisplayName": names[known.resource],
			"createdDateTime": t.Grant.Visible.Since.Format(time.RFC3339),
		})
	}
	return rows
}
