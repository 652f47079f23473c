// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// graph is Microsoft Graph v1.0, graph.microsoft.com.
func (s *simulator) graph() http.Handler {
	mux := http.NewServeMux()
	domainRead, userRead := []string{domainReadWrite}, []string{userReadWrite}
	roleReads := []string{roleRead, roleReadWrite}
	mux.HandleFunc("GET /v1.0/organization", s.graphCall([]string{organizationRead}, locked(listOrganization)))
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

// admit authenticates a call by its bearer token.
func (s *simulator) admit(r *http.Request) (*graphCall, *graphError) {
	now := s.kit.Now()
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return nil, errNoToken.of("")
	}
	claims, err := s.registration().verify(token)
	if err != nil {
		return nil, errBadToken.of("")
	}
	if claims["aud"] != graphAudience {
		return nil, errAudience.of("")
	}
	if !alive(claims, now) {
		return nil, errExpired.of("")
	}
	tid, _ := claims["tid"].(string)
	f := s.store.find(tid)
	if f == nil {
		return nil, errIdentity.of("")
	}
	c := &graphCall{s: s, r: r, file: f, now: now, tenant: tid}
	granted := false
	f.View(func(t *tenant) {
		granted = t.Grant.Consent == "granted" && !t.Behaviour.Deleted && !t.Behaviour.AppDisabled
		for _, role := range texts(claims["roles"]) {
			if t.Grant.has(role) {
				c.roles = append(c.roles, role)
			}
		}
	})
	if !granted {
		return nil, errIdentity.of("")
	}
	return c, nil
}

// alive checks a token's times.
func alive(claims map[string]any, now time.Time) bool {
	until, _ := claims["exp"].(float64)
	from, _ := claims["nbf"].(float64)
	return now.Unix() < int64(until) && now.Add(5*time.Minute).Unix() >= int64(from)
}

// texts reads a claim that is a list of strings.
func texts(claim any) []string {
	list, _ := claim.([]any)
	var out []string
	for _, v := range list {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// graphAnswer writes an answer with the headers that Graph always sends.
func (s *simulator) graphAnswer(w http.ResponseWriter, r *http.Request, out result) {
	request, client := newGUID(), r.Header.Get("client-request-id")
	if client == "" {
		client = request
	}
	h := w.Header()
	h.Set("request-id", request)
	h.Set("client-request-id", client)
	h.Set("x-ms-ags-diagnostic", `{"ServerInfo":{"DataCenter":"Sandbox","Slice":"E","Ring":"0","ScaleUnit":"000","RoleInstance":"SIM"}}`)
	h.Set("Date", s.kit.Now().Format(http.TimeFormat))
	h.Set("x-ms-resource-unit", strconv.Itoa(resourceUnits(r)))
	status, body := out.status, out.body
	if out.refused != nil {
		status, body = out.refused.status, out.refused.body(s.kit.Now(), request, client)
		if status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", `Bearer realm="", authorization_uri="`+s.authority("common")+
				`/oauth2/authorize", client_id="`+graphAppID+`"`)
		}
	}
	if text, plain := body.(string); plain {
		h.Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
		return
	}
	if body == nil {
		w.WriteHeader(status)
		return
	}
	h.Set("Content-Type", "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false;charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// resourceUnits is what a call costs of the directory's budget.
func resourceUnits(r *http.Request) int {
	cost := 1
	switch {
	case r.Method != http.MethodGet:
		cost = 2
	case strings.HasSuffix(r.URL.Path, "/users") || strings.HasSuffix(r.URL.Path, "/appRoleAssignments"):
		cost = 2
	case strings.HasSuffix(r.URL.Path, "/domainNameReferences"):
		cost = 4
	}
	if r.URL.Query().Has("$select") {
		cost--
	}
	return max(cost, 1)
}
