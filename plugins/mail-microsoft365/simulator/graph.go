// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// graph is Microsoft Graph v1.0, graph.microsoft.com.
func (s *simulator) graph() http.Handler {
	mux := http.NewServeMux()
	domainRead, userRead := []string{domainReadWrite}, []string{userReadWrite}
	roleReads := []string{roleRead, roleReadWrite}
	mux.HandleFunc("GET /v1.0/organization", s.graphCall([]string{organizationRead}, locked(listOrganization)))
	mux.HandleFunc("GET /v1.0/directory/subscriptions", s.graphCall([]string{organizationRead}, locked(listSubscriptions)))
	mux.HandleFunc("GET /v1.0/domains", s.graphCall(domainRead, locked(listDomains)))
	mux.HandleFunc("POST /v1.0/domains", s.graphCall(domainRead, createDomain))
	mux.HandleFunc("GET /v1.0/domains/{id}", s.graphCall(domainRead, locked(getDomain)))
	mux.HandleFunc("PATCH /v1.0/domains/{id}", s.graphCall(domainRead, locked(updateDomain)))
	mux.HandleFunc("DELETE /v1.0/domains/{id}", s.graphCall(domainRead, locked(deleteDomain)))
	mux.HandleFunc("GET /v1.0/domains/{id}/verificationDnsRecords", s.graphCall(domainRead, locked(verificationRecords)))
	mux.HandleFunc("GET /v1.0/domains/{id}/serviceConfigurationRecords", s.graphCall(domainRead, locked(serviceRecords)))
	mux.HandleFunc("GET /v1.0/domains/{id}/domainNameReferences", s.graphCall(domainRead, locked(domainReferences)))
	mux.HandleFunc("POST /v1.0/domains/{id}/verify", s.graphCall(domainRead, verifyDomain))
	mux.HandleFunc("POST /v1.0/domains/{id}/forceDelete", s.graphCall(domainRead, locked(forceDeleteDomain)))
	mux.HandleFunc("GET /v1.0/users", s.graphCall(userRead, locked(listUsers)))
	mux.HandleFunc("GET /v1.0/users/$count", s.graphCall(userRead, locked(countUsers)))
	mux.HandleFunc("GET /v1.0/users/{id}", s.graphCall(userRead, locked(getUser)))
	mux.HandleFunc("PATCH /v1.0/users/{id}", s.graphCall(
		[]string{userReadWrite, passwordReadWrite, enableAccount}, locked(updateUser)))
	mux.HandleFunc("DELETE /v1.0/users/{id}", s.graphCall(userRead, locked(deleteUser)))
	mux.HandleFunc("GET /v1.0/servicePrincipals", s.graphCall([]string{applicationRead}, locked(listPrincipals)))
	mux.HandleFunc("GET /v1.0/servicePrincipals/{id}", s.graphCall([]string{applicationRead}, locked(getPrincipal)))
	mux.HandleFunc("GET /v1.0/servicePrincipals/{id}/appRoleAssignments",
		s.graphCall([]string{applicationRead}, locked(listAppRoles)))
	mux.HandleFunc("GET /v1.0/roleManagement/directory/roleAssignments", s.graphCall(roleReads, locked(listRoles)))
	mux.HandleFunc("POST /v1.0/roleManagement/directory/roleAssignments",
		s.graphCall([]string{roleReadWrite}, locked(createRole)))
	mux.HandleFunc("GET /v1.0/policies/identitySecurityDefaultsEnforcementPolicy",
		s.graphCall([]string{policyRead}, locked(securityDefaults)))
	mux.HandleFunc("/", s.graphCall(nil, locked(byAlternateKey)))
	return mux
}

// graphCall is one call of Microsoft Graph that may be made.
type graphCall struct {
	s    *simulator
	r    *http.Request
	file *simulate.File[tenant]
	now  time.Time
	// roles are the app roles in the token that are still granted.
	roles []string
	// tenant is the id of the tenant.
	tenant string
}

// result is what a call answers.
type result struct {
	status  int
	body    any // nil for none
	refused *graphError
}

func refuse(e *graphError) result { return result{refused: e} }

// locked is an operation that needs nothing but the tenant.
func locked(fn func(*graphCall, *tenant) result) func(*graphCall) result {
	return func(c *graphCall) result {
		var out result
		if err := c.file.Do(func(t *tenant) { out = fn(c, t) }); err != nil {
			return refuse(errInternal.of(err.Error()))
		}
		return out
	}
}

// graphCall checks the token and that one of the app roles is granted, then
// runs fn.
func (s *simulator) graphCall(needs []string, fn func(*graphCall) result) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, refused := s.admit(r)
		out := result{refused: refused}
		if refused == nil {
			out = refuse(errDenied.of(""))
			if needs == nil || slices.ContainsFunc(needs, c.may) {
				out = fn(c)
			}
		}
		s.graphAnswer(w, r, out)
	}
}

// may reports whether the caller holds an app role.
func (c *graphCall) may(role string) bool { return slices.Contains(c.roles, role) }
