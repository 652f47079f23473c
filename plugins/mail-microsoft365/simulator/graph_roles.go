// SPDX-License-Identifier: Apache-2.0

package simulator

import "net/http"

func roleObject(a roleAssignment) object {
	return object{"id": a.ID, "principalId": a.Principal, "roleDefinitionId": a.Role, "directoryScopeId": "/"}
}

const rolesPath = "roleManagement/directory/roleAssignments"

func listRoles(c *graphCall, t *tenant) result {
	clauses, refused := parseFilter(c.r.URL.Query().Get("$filter"))
	if refused != nil {
		return refuse(refused)
	}
	all := []object{}
	for _, a := range t.Assignments {
		all = append(all, roleObject(a))
	}
	kept, refused := filtered(all, clauses, "principalId", "roleDefinitionId", "directoryScopeId")
	if refused != nil {
		return refuse(refused)
	}
	return c.many(rolesPath, kept)
}

// createRole answers POST roleAssignments. It is not idempotent: a repeat is a
// conflict. The role reaches tokens that are issued after role_ms.
func createRole(c *graphCall, t *tenant) result {
	in, refused := c.read()
	if refused == nil {
		refused = only(in, "roleDefinitionId", "principalId", "directoryScopeId")
	}
	if refused != nil {
		return refuse(refused)
	}
	role, _ := in["roleDefinitionId"].(string)
	principal, _ := in["principalId"].(string)
	switch {
	case in["directoryScopeId"] != "/" || directoryRoles[role] == "":
		return refuse(errValues.of(""))
	case principal != t.Grant.Principal && t.user(principal) == nil:
		return refuse(errNotFound.of(principal))
	}
	for _, a := range t.Assignments {
		if a.Principal == principal && a.Role == role {
			return refuse(errConflict.of(""))
		}
	}
	a := t.assign(principal, role, after(c.now, t.Behaviour.RoleMS))
	return c.one(http.StatusCreated, rolesPath, roleObject(a))
}
