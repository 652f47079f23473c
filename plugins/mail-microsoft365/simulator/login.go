// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"embed"
	"encoding/json"
	"html/template"
	"net/http"

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

// authority returns the base URL of the login host for a tenant.
func (s *simulator) authority(tenant string) string { return s.kit.URL + loginHost + "/" + tenant }

// isSharedAuthority reports whether the tenant element of a path stands for any tenant.
func isSharedAuthority(name string) bool {
	return name == "organizations" || name == "common" || name == "consumers"
}

// tenantInPath returns the tenant in the path. It returns an error when the name has an invalid
// form or no tenant has it.
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

// openIDConfiguration answers the OpenID Connect metadata. For a shared authority the issuer
// contains the literal text {tenantid}.
func (s *simulator) openIDConfiguration(w http.ResponseWriter, r *http.Request) {
	name, issuerOf := r.PathValue("tenant"), "{tenantid}"
	if !isSharedAuthority(name) {
		f, refusal := s.tenantInPath(r)
		if refusal != nil {
			s.writeTokenError(w, r, refusal)
			return
		}
		f.View(func(t *tenant) { issuerOf = t.ID })
		name = issuerOf
	}
	base := s.authority(name)
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer":                                s.authority(issuerOf) + "/v2.0",
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

// jwks answers the public keys that verify tokens.
func (s *simulator) jwks(w http.ResponseWriter, r *http.Request) {
	issuer := s.authority("{tenantid}") + "/v2.0"
	if name := r.PathValue("tenant"); !isSharedAuthority(name) {
		issuer = s.authority(name) + "/v2.0"
	}
	keys := []map[string]any{}
	for _, k := range s.registration().Keys {
		jwk, err := k.jwk(issuer)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		keys = append(keys, jwk)
	}
	writeJSON(w, http.StatusOK, map[string]any{"keys": keys})
}

// writeJSON writes a JSON answer of the login host.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store, no-cache")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

//go:embed pages/sign.html
var pageFiles embed.FS

var signPage = template.Must(template.ParseFS(pageFiles, "pages/sign.html"))

// page is the content of one HTML page: a form, or only an error message. No page has a script.
type page struct {
	Status      int
	Title       string
	Problem     string
	Application string
	Permissions []string
	Action      string // where the form posts to, "" for a page without a form
	Hidden      []hiddenField
	AskUser     bool
	Username    string
	Buttons     []button
}

// hiddenField is a hidden input of a form.
type hiddenField struct{ Name, Value string }

// button is a submit button. A quiet button is the secondary choice.
type button struct {
	Name, Value, Text string
	Quiet             bool
}

// renderPage writes a page.
func (s *simulator) renderPage(w http.ResponseWriter, p page) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	// form-action is not set: browsers also apply it to the redirect after the post.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(p.Status)
	if err := signPage.Execute(w, p); err != nil {
		s.logf("page: %v", err)
	}
}

// renderError writes a page with an error that must not be sent to the redirect URI.
func (s *simulator) renderError(w http.ResponseWriter, e *aadsts) {
	s.renderPage(w, page{Status: e.status, Title: "Sorry, but we’re having trouble signing you in",
		Problem: e.description(newGUID(), newGUID(), s.kit.Now())})
}
