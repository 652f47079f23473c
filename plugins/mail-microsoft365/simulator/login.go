// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// loginHandler returns the handler of the login host, login.microsoftonline.com.
func (s *simulator) loginHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration", s.openIDConfiguration)
	mux.HandleFunc("GET /{tenant}/discovery/v2.0/keys", s.jwks)
	mux.HandleFunc("/{tenant}/v2.0/adminconsent", s.adminConsent)
	mux.HandleFunc("/{tenant}/adminconsent", s.adminConsent)
	mux.HandleFunc("/{tenant}/oauth2/v2.0/authorize", s.authorize)
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", s.tokenEndpoint)
	return mux
}

// authority returns the base URL of the login host for a tenant or a shared authority.
func (s *simulator) authority(tenant string) string { return s.kit.URL + loginHost + "/" + tenant }

// isSharedAuthority reports whether the tenant element of a path is an authority for several
// tenants, such as "organizations".
func isSharedAuthority(name string) bool {
	return name == "organizations" || name == "common" || name == "consumers"
}

// tenantInPath returns the tenant in the path. It returns errTenantInvalid if the name is neither a
// GUID nor a domain, and errTenantNotFound if no tenant has this name.
func (s *simulator) tenantInPath(r *http.Request) (*simulate.File[tenant], *aadsts) {
	name := r.PathValue("tenant")
	f := s.store.find(name)
	if f != nil {
		return f, nil
	}
	if !guidPattern.MatchString(name) && !domainPattern.MatchString(name) {
		return nil, errTenantInvalid.with(name)
	}
	return nil, errTenantNotFound.with(name)
}

// openIDConfiguration answers with the OpenID Connect metadata. As at Microsoft, the issuer of a
// shared authority contains the text {tenantid}.
func (s *simulator) openIDConfiguration(w http.ResponseWriter, r *http.Request) {
	name, issuerTenant := r.PathValue("tenant"), "{tenantid}"
	if !isSharedAuthority(name) {
		f, refusal := s.tenantInPath(r)
		if refusal != nil {
			s.writeTokenError(w, r, refusal)
			return
		}
		f.View(func(t *tenant) { issuerTenant = t.ID })
		name = issuerTenant
	}
	base := s.authority(name)
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer":                                s.authority(issuerTenant) + "/v2.0",
		"authorization_endpoint":                base + "/oauth2/v2.0/authorize",
		"token_endpoint":                        base + "/oauth2/v2.0/token",
		"jwks_uri":                              base + "/discovery/v2.0/keys",
		"response_modes_supported":              []string{"query", "fragment", "form_post"},
		"response_types_supported":              []string{"code", "id_token", "code id_token", "id_token token"},
		"subject_types_supported":               []string{"pairwise"},
		"scopes_supported":                      []string{"openid", "profile", "email", "offline_access"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_post", "private_key_jwt", "client_secret_basic"},
		"claims_supported": []string{"sub", "iss", "aud", "exp", "iat", "nonce", "preferred_username", "name",
			"tid", "ver", "oid"},
	})
}

func (s *simulator) jwks(w http.ResponseWriter, r *http.Request) {
	issuer := s.authority("{tenantid}") + "/v2.0"
	if name := r.PathValue("tenant"); !isSharedAuthority(name) {
		issuer = s.authority(name) + "/v2.0"
	}
	signingKeys, err := s.signingKeys()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	publicKeys := []map[string]any{}
	for _, k := range signingKeys {
		jwk, err := k.jwk(issuer)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		publicKeys = append(publicKeys, jwk)
	}
	writeJSON(w, http.StatusOK, map[string]any{"keys": publicKeys})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store, no-cache")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

//go:embed pages/sign.html
var pageFiles embed.FS

var signPage = template.Must(template.ParseFS(pageFiles, "pages/sign.html"))

// page is the content of one HTML page: a form, an error message, or both. No page has a script.
type page struct {
	Status      int
	Title       string
	Problem     string
	Application string
	Permissions []string
	Action      string // the URL to which the form is posted, "" for a page without a form
	Hidden      []hiddenField
	AskUser     bool
	Username    string
	Buttons     []button
}

type hiddenField struct{ Name, Value string }

// button is a submit button. Quiet is true for a button that looks less important.
type button struct {
	Name, Value, Text string
	Quiet             bool
}

func (s *simulator) renderPage(w http.ResponseWriter, p page) {
	headers := w.Header()
	headers.Set("Content-Type", "text/html; charset=utf-8")
	headers.Set("Cache-Control", "no-store")
	headers.Set("Referrer-Policy", "no-referrer")
	headers.Set("X-Content-Type-Options", "nosniff")
	// form-action is not set, because browsers also apply it to the redirect that answers the form.
	headers.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(p.Status)
	if err := signPage.Execute(w, p); err != nil {
		s.logf("page: %v", err)
	}
}

// renderForm writes a page whose form asks for a user name. If username is empty, the form suggests
// an administrator. The page shows refusal if it is not nil.
func (s *simulator) renderForm(w http.ResponseWriter, r *http.Request, p page, username string, refusal *aadsts) {
	p.Status, p.Action, p.AskUser, p.Username = http.StatusOK, formAction(r), true, username
	if username == "" {
		p.Username = s.suggestedAdmin(r)
	}
	if refusal != nil {
		p.Status, p.Problem = refusal.status, refusal.description(newGUID(), newGUID(), s.kit.Now())
	}
	s.renderPage(w, p)
}

// renderError writes a page with an error that must not be sent to the redirect URI.
func (s *simulator) renderError(w http.ResponseWriter, e *aadsts) {
	s.renderPage(w, page{Status: e.status, Title: "Sorry, but we’re having trouble signing you in",
		Problem: e.description(newGUID(), newGUID(), s.kit.Now())})
}

// guidPattern and domainPattern match the two forms of a tenant's name in a request.
var (
	guidPattern   = regexp.MustCompile(`^(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	domainPattern = regexp.MustCompile(`^(?i)([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$`)
)

type aadsts struct {
	number int
	code   string // the OAuth error
	status int
	text   string
}

// The errors of the login host.
var (
	errScope          = aadsts{70011, "invalid_scope", 400, "The provided request must include a 'scope' input parameter. The provided value for the input parameter 'scope' is not valid. The scope %s is not valid."}
	errNotConsented   = aadsts{65001, "invalid_grant", 400, "The user or administrator has not consented to use the application with ID '%s'. Send an interactive authorization request for this user and resource."}
	errDeclined       = aadsts{65004, "consent_required", 400, "The resource owner or authorization server denied the request."}
	errTenantNotFound = aadsts{90002, "invalid_request", 400, "Tenant '%s' not found. Check to make sure you have the correct tenant ID and are signing into the correct cloud."}
	errTenantInvalid  = aadsts{900023, "invalid_request", 400, "Specified tenant identifier '%s' is neither a valid DNS name, nor a valid external domain."}
	errTenantGone     = aadsts{5000224, "invalid_request", 400, "We are sorry, this resource is not available. If you are seeing this message in error, please contact support. Tenant '%s'."}
	errNoPrincipal    = aadsts{700016, "unauthorized_client", 400, "Application with identifier '%s' was not found in the directory. This can happen if the application has not been installed by the administrator of the tenant or consented to by any user in the tenant."}
	errSecret         = aadsts{7000215, "invalid_client", 401, "Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, not the client secret ID, for a secret added to app '%s'."}
	errSecretExpired  = aadsts{7000222, "invalid_client", 401, "The provided client secret keys for app '%s' are expired."}
	errAssertion      = aadsts{700027, "invalid_client", 401, "The certificate with identifier used to sign the client assertion is not registered on application, or its signature is not valid. Application '%s'."}
	errAssertionTime  = aadsts{700024, "invalid_client", 401, "Client assertion is not within its valid time range. Application '%s'."}
	errAssertionAud   = aadsts{700023, "invalid_client", 401, "Client assertion audience claim does not match Realm issuer. Application '%s'."}
	errAppDisabled    = aadsts{7000112, "unauthorized_client", 400, "Application '%s' is disabled."}
	errNoResource     = aadsts{500011, "invalid_resource", 400, "The resource principal named %s was not found in the tenant. This can happen if the application has not been installed by the administrator of the tenant or consented to by any user in the tenant."}
	errNotSubscribed  = aadsts{650052, "invalid_resource", 400, "The app is trying to access a service '%s' that your organization lacks a service principal for. Contact your IT Admin to review the configuration of your service subscriptions."}
	errConsentBusy    = aadsts{650051, "temporarily_unavailable", 503, "Using the application '%s' is not possible at the moment: the service principal is being created by another request. Try again in 30 seconds."}
	errConditional    = aadsts{53003, "access_denied", 400, "Access has been blocked by Conditional Access policies. The access policy does not allow token issuance. Application '%s'."}
	errRedirect       = aadsts{50011, "invalid_request", 400, "The redirect URI '%s' specified in the request does not match the redirect URIs configured for the application."}
	errTransient      = aadsts{90033, "temporarily_unavailable", 503, "A transient error has occurred. Please try again. %s"}
	errTransientInput = aadsts{90013, "invalid_request", 503, "Invalid input received from the user. Please try again. %s"}
	errLoop           = aadsts{50196, "invalid_request", 400, "The server terminated an operation because it encountered a client request loop. Please contact your app vendor. %s"}
	errThrottled      = aadsts{90055, "temporarily_unavailable", 429, "Tenant throttling due to too many requests. %s"}
	errCodeUsed       = aadsts{54005, "invalid_grant", 400, "OAuth2 Authorization code was already redeemed, please retry with a new valid code or use an existing refresh token. %s"}
	errCodeExpired    = aadsts{70008, "invalid_grant", 400, "The provided authorization code or refresh token has expired due to inactivity. Send a new interactive authorization request for this user and resource. %s"}
	errCodeUnknown    = aadsts{70000, "invalid_grant", 400, "The provided value for the 'code' parameter is not valid. %s"}
	errVerifier       = aadsts{501481, "invalid_grant", 400, "The Code_Verifier does not match the code_challenge supplied in the authorization request. %s"}
	errCodeRedirect   = aadsts{500112, "invalid_client", 401, "The reply address '%s' does not match the reply address provided when requesting Authorization code."}
	errGrantType      = aadsts{70003, "unsupported_grant_type", 400, "The app requested an unsupported grant type '%s'."}
	errResponseType   = aadsts{700054, "unsupported_response_type", 400, "response_type '%s' is not enabled for the application."}
	errNoTenantNamed  = aadsts{50059, "invalid_request", 400, "No tenant-identifying information found in either the request or implied by any provided credentials. %s"}
	errLoginRequired  = aadsts{50058, "login_required", 400, "A silent sign-in request was sent but no user is signed in. %s"}
	errUnknownUser    = aadsts{50020, "invalid_request", 400, "User account '%s' does not exist in the tenant and cannot access the application. The account needs to be added as an external user in the tenant first."}
	errUserDisabled   = aadsts{50057, "invalid_request", 400, "The user account '%s' is disabled."}
	errNeedsAdmin     = aadsts{90094, "access_denied", 403, "An administrator of the organization must consent to the permissions that the application asks for. The account '%s' is not one."}
)

// with returns a copy of the error with "%s" in its text replaced by subject.
func (e aadsts) with(subject string) *aadsts {
	e.text = strings.TrimSpace(strings.ReplaceAll(e.text, "%s", subject))
	return &e
}

func (e *aadsts) description(trace, correlation string, at time.Time) string {
	return fmt.Sprintf("AADSTS%d: %s Trace ID: %s Correlation ID: %s Timestamp: %s",
		e.number, e.text, trace, correlation, at.Format("2006-01-02 15:04:05Z"))
}

func (s *simulator) writeTokenError(w http.ResponseWriter, r *http.Request, refusal *aadsts) {
	now, trace, correlation := s.kit.Now(), newGUID(), r.Header.Get("client-request-id")
	if correlation == "" {
		correlation = newGUID()
	}
	w.Header().Set("x-ms-request-id", trace)
	if refusal.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="login"`)
	}
	writeJSON(w, refusal.status, map[string]any{
		"error":             refusal.code,
		"error_description": refusal.description(trace, correlation, now),
		"error_codes":       []int{refusal.number},
		"timestamp":         now.Format("2006-01-02 15:04:05Z"),
		"trace_id":          trace,
		"correlation_id":    correlation,
		"error_uri":         s.authority("error") + "?code=" + strconv.Itoa(refusal.number),
	})
}
