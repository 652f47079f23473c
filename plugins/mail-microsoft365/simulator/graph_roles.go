// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"strings"
	"time"
)

func roleAssignmentObject(a roleAssignment) object {
	return object{"id": a.ID, "principalId": a.Principal, "roleDefinitionId": a.Role, "directoryScopeId": "/"}
}

// roleAssignmentsPath is the path of role assignments in the metadata.
const roleAssignmentsPath = "roleManagement/directory/roleAssignments"

func listRoleAssignments(c *graphCall, t *tenant) result {
	clauses, refusal := parseFilter(c.r.URL.Query().Get("$filter"))
	if refusal != nil {
		return errorResult(refusal)
	}
	objects := []object{}
	for _, a := range t.Assignments {
		objects = append(objects, roleAssignmentObject(a))
	}
	matching, refusal := applyFilter(objects, clauses, "principalId", "roleDefinitionId", "directoryScopeId")
	if refusal != nil {
		return errorResult(refusal)
	}
	return c.collection(roleAssignmentsPath, matching)
}

// createRoleAssignment answers POST /roleManagement/directory/roleAssignments. A second assignment
// of a role to the same principal is a conflict. Tokens that are issued after RoleMS contain the
// role.
func createRoleAssignment(c *graphCall, t *tenant) result {
	body, refusal := c.readBody()
	if refusal == nil {
		refusal = rejectUnknown(body, "roleDefinitionId", "principalId", "directoryScopeId")
	}
	if refusal != nil {
		return errorResult(refusal)
	}
	role, _ := body["roleDefinitionId"].(string)
	principal, _ := body["principalId"].(string)
	switch {
	case body["directoryScopeId"] != "/" || directoryRoles[role] == "":
		return errorResult(errValues.with(""))
	case principal != t.Grant.Principal && t.user(principal) == nil:
		return errorResult(errNotFound.with(principal))
	}
	for _, assignment := range t.Assignments {
		if assignment.Principal == principal && assignment.Role == role {
			return errorResult(errConflict.with(""))
		}
	}
	assignment := t.assignRole(principal, role, startLag(c.now, t.Behaviour.RoleMS))
	return c.entity(http.StatusCreated, roleAssignmentsPath, roleAssignmentObject(assignment))
}

// principalObject returns the service principal of the application as Graph shows it.
func (c *graphCall) principalObject(t *tenant) object {
	return object{"id": t.Grant.Principal, "appId": c.s.registration().ClientID, "displayName": "tenantry",
		"accountEnabled": !t.Behaviour.AppDisabled, "servicePrincipalType": "Application"}
}

// listPrincipals answers GET /servicePrincipals. The list contains only the service principal of
// the application.
func listPrincipals(c *graphCall, t *tenant) result {
	clauses, refusal := parseFilter(c.r.URL.Query().Get("$filter"))
	if refusal != nil {
		return errorResult(refusal)
	}
	matching, refusal := applyFilter([]object{c.principalObject(t)}, clauses, "appId", "id", "displayName")
	if refusal != nil {
		return errorResult(refusal)
	}
	return c.collection("servicePrincipals", matching)
}

// getPrincipalByAppID answers GET servicePrincipals(appId='...') and the app roles below it.
// Because it gets every call without a route, it refuses all other paths and methods with
// errSegment.
func getPrincipalByAppID(call *graphCall, t *tenant) result {
	remainder, ok := strings.CutPrefix(call.r.URL.Path, "/v1.0/servicePrincipals(appId='")
	id, subpath, closed := strings.Cut(remainder, "')")
	if !ok || !closed || subpath != "" && subpath != "/appRoleAssignments" || call.r.Method != http.MethodGet {
		return errorResult(errSegment.with(call.r.URL.Path[strings.LastIndex(call.r.URL.Path, "/")+1:]))
	}
	switch {
	case !call.hasRole(applicationRead):
		return errorResult(errDenied.with(""))
	case !strings.EqualFold(id, call.s.registration().ClientID):
		return errorResult(errNotFound.with(id))
	case subpath != "":
		return call.collection("appRoleAssignments", t.appRoleAssignmentObjects())
	}
	return call.entity(http.StatusOK, "servicePrincipals", call.principalObject(t))
}

func getPrincipal(c *graphCall, t *tenant) result {
	if c.r.PathValue("id") != t.Grant.Principal {
		return errorResult(errNotFound.with(c.r.PathValue("id")))
	}
	return c.entity(http.StatusOK, "servicePrincipals", c.principalObject(t))
}

func listAppRoleAssignments(c *graphCall, t *tenant) result {
	if c.r.PathValue("id") != t.Grant.Principal {
		return errorResult(errNotFound.with(c.r.PathValue("id")))
	}
	return c.collection("appRoleAssignments", t.appRoleAssignmentObjects())
}

// appRoleAssignmentObjects returns the granted app roles as Graph shows them.
func (t *tenant) appRoleAssignmentObjects() []object {
	names := map[string]string{graphAppID: "Microsoft Graph", exchangeAppID: "Office 365 Exchange Online"}
	rows := []object{}
	for _, role := range t.Grant.Roles {
		known := appRoles[role]
		rows = append(rows, object{
			"id": deriveText("grant", t.ID, role), "appRoleId": known.id, "principalId": t.Grant.Principal,
			"principalType": "ServicePrincipal", "principalDisplayName": "tenantry",
			"resourceId": guid("resource", t.ID, known.resource), "resourceDisplayName": names[known.resource],
			"createdDateTime": t.Grant.VisibilityLag.Since.Format(time.RFC3339),
		})
	}
	return rows
}
