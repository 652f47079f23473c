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

// graphHandler returns the handler of Microsoft Graph v1.0, graph.microsoft.com.
func (s *simulator) graphHandler() http.Handler {
	mux := http.NewServeMux()
	domainAccess, userAccess := []string{domainReadWrite}, []string{userReadWrite}
	roleReadAccess := []string{roleRead, roleReadWrite}
	mux.HandleFunc("GET /v1.0/organization", s.graphEndpoint([]string{organizationRead}, withTenant(listOrganization)))
	mux.HandleFunc("GET /v1.0/directory/subscriptions", s.graphEndpoint([]string{organizationRead}, withTenant(listSubscriptions)))
	mux.HandleFunc("GET /v1.0/domains", s.graphEndpoint(domainAccess, withTenant(listDomains)))
	mux.HandleFunc("POST /v1.0/domains", s.graphEndpoint(domainAccess, createDomain))
	mux.HandleFunc("GET /v1.0/domains/{id}", s.graphEndpoint(domainAccess, withTenant(getDomain)))
	mux.HandleFunc("PATCH /v1.0/domains/{id}", s.graphEndpoint(domainAccess, withTenant(updateDomain)))
	mux.HandleFunc("DELETE /v1.0/domains/{id}", s.graphEndpoint(domainAccess, withTenant(deleteDomain)))
	mux.HandleFunc("GET /v1.0/domains/{id}/verificationDnsRecords", s.graphEndpoint(domainAccess, withTenant(listVerificationRecords)))
	mux.HandleFunc("GET /v1.0/domains/{id}/serviceConfigurationRecords", s.graphEndpoint(domainAccess, withTenant(listServiceRecords)))
	mux.HandleFunc("GET /v1.0/domains/{id}/domainNameReferences", s.graphEndpoint(domainAccess, withTenant(listDomainReferences)))
	mux.HandleFunc("POST /v1.0/domains/{id}/verify", s.graphEndpoint(domainAccess, verifyDomain))
	mux.HandleFunc("POST /v1.0/domains/{id}/forceDelete", s.graphEndpoint(domainAccess, withTenant(forceDeleteDomain)))
	mux.HandleFunc("GET /v1.0/users", s.graphEndpoint(userAccess, withTenant(listUsers)))
	mux.HandleFunc("GET /v1.0/users/$count", s.graphEndpoint(userAccess, withTenant(countUsers)))
	mux.HandleFunc("GET /v1.0/users/{id}", s.graphEndpoint(userAccess, withTenant(getUser)))
	mux.HandleFunc("PATCH /v1.0/users/{id}", s.graphEndpoint(
		[]string{userReadWrite, passwordReadWrite, enableAccount}, withTenant(updateUser)))
	mux.HandleFunc("DELETE /v1.0/users/{id}", s.graphEndpoint(userAccess, withTenant(deleteUser)))
	mux.HandleFunc("GET /v1.0/servicePrincipals", s.graphEndpoint([]string{applicationRead}, withTenant(listPrincipals)))
	mux.HandleFunc("GET /v1.0/servicePrincipals/{id}", s.graphEndpoint([]string{applicationRead}, withTenant(getPrincipal)))
	mux.HandleFunc("GET /v1.0/servicePrincipals/{id}/appRoleAssignments",
		s.graphEndpoint([]string{applicationRead}, withTenant(listAppRoleAssignments)))
	mux.HandleFunc("GET /v1.0/roleManagement/directory/roleAssignments", s.graphEndpoint(roleReadAccess, withTenant(listRoleAssignments)))
	mux.HandleFunc("POST /v1.0/roleManagement/directory/roleAssignments",
		s.graphEndpoint([]string{roleReadWrite}, withTenant(createRoleAssignment)))
	mux.HandleFunc("GET /v1.0/policies/identitySecurityDefaultsEnforcementPolicy",
		s.graphEndpoint([]string{policyRead}, withTenant(getSecurityDefaults)))
	// ServeMux has no pattern for a path with (appId='...'), so the handler of all remaining paths
	// answers it.
	mux.HandleFunc("/", s.graphEndpoint(nil, withTenant(getPrincipalByAppID)))
	return mux
}

// graphCall is one authenticated call of Microsoft Graph.
type graphCall struct {
	s    *simulator
	r    *http.Request
	file *simulate.File[tenant]
	now  time.Time
	// roles are the app roles in the token that are still granted.
	roles []string
}

// result is the answer to a call: a body, or an error.
type result struct {
	status  int
	body    any // nil for an empty body
	refusal *graphError
}

func errorResult(e *graphError) result { return result{refusal: e} }

// withTenant returns an operation that calls run with the tenant locked, and saves the tenant. For
// a GET request, run receives the tenant as one of the replicas shows it. A GET counts as a read of
// a list if its path has no {id}.
func withTenant(run func(*graphCall, *tenant) result) func(*graphCall) result {
	return func(call *graphCall) result {
		var answer result
		err := call.file.Do(func(t *tenant) {
			if call.r.Method == http.MethodGet {
				isList := call.r.PathValue("id") == ""
				answer = run(call, t.replicaOf(t.Behaviour.GraphReplicas, &t.History.GraphReads, isList, call.now))
				return
			}
			answer = run(call, t)
			t.recordSnapshot(call.now)
		})
		if err != nil {
			return errorResult(errInternal.with(err.Error()))
		}
		return answer
	}
}

// graphEndpoint returns a handler that authenticates the call, checks that the caller has one of
// the allowed app roles, and calls run. If allowedRoles is nil, no role is required.
func (s *simulator) graphEndpoint(allowedRoles []string, run func(*graphCall) result) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, refusal := s.authenticateGraphCall(r)
		answer := result{refusal: refusal}
		if refusal == nil {
			answer = errorResult(errDenied.with(""))
			if allowedRoles == nil || slices.ContainsFunc(allowedRoles, c.hasRole) {
				answer = run(c)
			}
		}
		s.writeGraphResult(w, r, answer)
	}
}

func (c *graphCall) hasRole(role string) bool { return slices.Contains(c.roles, role) }

// authenticateGraphCall authenticates a call by its bearer token. It fails if the token is not
// valid for Graph, or if the application has no access to the tenant (see errIdentity).
func (s *simulator) authenticateGraphCall(r *http.Request) (*graphCall, *graphError) {
	now := s.kit.Now()
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return nil, errNoToken.with("")
	}
	claims, err := s.registration().verifyToken(token)
	if err != nil {
		return nil, errBadToken.with("")
	}
	if claims["aud"] != graphAudience {
		return nil, errAudience.with("")
	}
	if !tokenIsCurrent(claims, now) {
		return nil, errExpired.with("")
	}
	tid, _ := claims["tid"].(string)
	f := s.store.find(tid)
	if f == nil {
		return nil, errIdentity.with("")
	}
	c := &graphCall{s: s, r: r, file: f, now: now}
	granted := false
	f.View(func(t *tenant) {
		granted = t.Grant.Consent == "granted" && !t.Behaviour.Deleted && !t.Behaviour.AppDisabled && !t.isOfDeletedPrincipal(claims)
		for _, role := range stringList(claims["roles"]) {
			if t.Grant.hasAppRole(role) {
				c.roles = append(c.roles, role)
			}
		}
	})
	if !granted {
		return nil, errIdentity.with("")
	}
	return c, nil
}

// tokenIsCurrent reports whether now is between the nbf and exp claims, or up to five minutes
// before nbf.
func tokenIsCurrent(claims map[string]any, now time.Time) bool {
	until, _ := claims["exp"].(float64)
	from, _ := claims["nbf"].(float64)
	return now.Unix() < int64(until) && now.Add(5*time.Minute).Unix() >= int64(from)
}

// stringList returns the strings of a decoded JSON array, and nil for any other value.
func stringList(claim any) []string {
	values, _ := claim.([]any)
	var texts []string
	for _, v := range values {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

func (s *simulator) writeGraphResult(w http.ResponseWriter, r *http.Request, answer result) {
	requestID, clientRequestID := newGUID(), r.Header.Get("client-request-id")
	if clientRequestID == "" {
		clientRequestID = requestID
	}
	headers := w.Header()
	headers.Set("request-id", requestID)
	headers.Set("client-request-id", clientRequestID)
	headers.Set("x-ms-ags-diagnostic", `{"ServerInfo":{"DataCenter":"Sandbox","Slice":"E","Ring":"0","ScaleUnit":"000","RoleInstance":"SIM"}}`)
	headers.Set("Date", s.kit.Now().Format(http.TimeFormat))
	headers.Set("x-ms-resource-unit", strconv.Itoa(resourceUnits(r)))
	status, body := answer.status, answer.body
	if answer.refusal != nil {
		status, body = answer.refusal.status, answer.refusal.body(s.kit.Now(), requestID, clientRequestID)
		if status == http.StatusUnauthorized {
			headers.Set("WWW-Authenticate", `Bearer realm="", authorization_uri="`+s.authority("common")+
				`/oauth2/authorize", client_id="`+graphAppID+`"`)
		}
	}
	if text, isText := body.(string); isText {
		headers.Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
		return
	}
	if body == nil {
		w.WriteHeader(status)
		return
	}
	headers.Set("Content-Type", "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false;charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// resourceUnits returns the cost of a call in resource units, in which Graph counts its limits.
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

type graphError struct {
	status  int
	code    string
	message string
	details []map[string]string
}

// The errors of Graph.
var (
	errNoToken  = graphError{status: 401, code: "InvalidAuthenticationToken", message: "Access token is empty."}
	errBadToken = graphError{status: 401, code: "InvalidAuthenticationToken", message: "IDX10511: Signature validation failed."}
	errAudience = graphError{status: 401, code: "InvalidAuthenticationToken", message: "Access token validation failure. Invalid audience."}
	errExpired  = graphError{status: 401, code: "InvalidAuthenticationToken", message: "Lifetime validation failed, the token is expired."}
	// errIdentity is the error if the tenant in the token does not exist, is deleted, has disabled
	// the application or has not consented to it, and if an app-only token was issued before the
	// consent was revoked and granted again.
	errIdentity = graphError{status: 401, code: "Authorization_IdentityNotFound", message: "The identity of the calling application could not be established."}
	errDenied   = graphError{status: 403, code: "Authorization_RequestDenied", message: "Insufficient privileges to complete the operation."}
	errNotFound = graphError{status: 404, code: "Request_ResourceNotFound", message: "Resource '%s' does not exist or one of its queried reference-property objects are not present."}
	errSegment  = graphError{status: 400, code: "BadRequest", message: "Resource not found for the segment '%s'."}
	errBody     = graphError{status: 400, code: "BadRequest", message: "Unable to read JSON request payload. Please ensure Content-Type header is set and payload is of valid JSON format."}
	errProperty = graphError{status: 400, code: "Request_BadRequest", message: "Invalid property '%s'."}
	errValues   = graphError{status: 400, code: "Request_BadRequest", message: "One or more properties contains invalid values."}
	errConflict = graphError{status: 400, code: "Request_BadRequest", message: "A conflicting object with one or more of the specified property values is present in the directory."}
	errSameKey  = graphError{status: 409, code: "Request_MultipleObjectsWithSameKeyValue", message: "A conflicting object with one or more of the specified property values is present in the directory.",
		details: []map[string]string{{"code": "ConflictingObjects", "message": "The request conflicts with an object that is present in the directory."}}}
	errFilter              = graphError{status: 400, code: "Request_UnsupportedQuery", message: "Unsupported or invalid query filter clause specified for property '%s'."}
	errPageSize            = graphError{status: 400, code: "Request_BadRequest", message: "Invalid page size specified: '%s'. Must be between 1 and 999 inclusive."}
	errUnverified          = graphError{status: 400, code: "Request_BadRequest", message: "The domain '%s' is not verified. Only verified domains can be updated."}
	errVerified            = graphError{status: 400, code: "Request_BadRequest", message: "Domain is already verified."}
	errNoRecord            = graphError{status: 400, code: "Request_BadRequest", message: "Domain verification failed with the following error: 'The required DNS record of domain %s was not found. Records may take up to 72 hours to be visible.'"}
	errVerifiedElsewhere   = graphError{status: 400, code: "Request_BadRequest", message: "Domain verification failed with the following error: 'The domain %s is already verified in use by another organization.'"}
	errReferenced          = graphError{status: 400, code: "Request_BadRequest", message: "The domain '%s' cannot be deleted: objects still refer to it. List them with domainNameReferences, or use forceDelete."}
	errInitialOrDefault    = graphError{status: 400, code: "Request_BadRequest", message: "The domain '%s' cannot be deleted: it is the initial or the default domain."}
	errNoServiceRecordsYet = graphError{status: 400, code: "Request_BadRequest", message: "The domain '%s' has no service configuration records yet."}
	errPassword            = graphError{status: 400, code: "Request_BadRequest", message: "The specified password does not comply with password complexity requirements. Please provide a different password.",
		details: []map[string]string{{"code": "InvalidValue", "target": "PasswordProfile", "message": "The specified password does not comply with password complexity requirements. Please provide a different password."}}}
	errTooMany     = graphError{status: 429, code: "TooManyRequests", message: "Please retry again later."}
	errInternal    = graphError{status: 500, code: "InternalServerError", message: "An internal server error occurred. %s"}
	errGateway     = graphError{status: 502, code: "BadGateway", message: "Bad gateway."}
	errUnavailable = graphError{status: 503, code: "serviceUnavailable", message: "The service is temporarily unavailable. Please retry."}
	errTimeout     = graphError{status: 504, code: "UnknownError", message: ""}
)

// with returns a copy of the error with "%s" in its message replaced by subject.
func (e graphError) with(subject string) *graphError {
	e.message = strings.TrimSpace(strings.ReplaceAll(e.message, "%s", subject))
	return &e
}

// body returns the error as Graph writes it.
func (e *graphError) body(now time.Time, requestID, clientRequestID string) map[string]any {
	inner := map[string]any{"date": now.Format("2006-01-02T15:04:05"), "request-id": requestID,
		"client-request-id": clientRequestID}
	if e.status == 429 {
		inner["code"], inner["status"], inner["message"] = "429", "429", "Please retry after"
	}
	body := map[string]any{"code": e.code, "message": e.message, "innerError": inner}
	if e.details != nil {
		body["details"] = e.details
	}
	return map[string]any{"error": body}
}
