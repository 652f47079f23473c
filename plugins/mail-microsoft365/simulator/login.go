// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// login is the identity host, login.microsoftonline.com.
func (s *simulator) login() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration", s.discovery)
	mux.HandleFunc("GET /{tenant}/discovery/v2.0/keys", s.jwks)
	mux.HandleFunc("/{tenant}/v2.0/adminconsent", s.adminConsent)
	mux.HandleFunc("/{tenant}/adminconsent", s.adminConsent)
	mux.HandleFunc("/{tenant}/oauth2/v2.0/authorize", s.authorize)
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", s.token)
	return mux
}

// authority is the login host's base URL for a tenant.
func (s *simulator) authority(tenant string) string { return s.kit.URL + loginHost + "/" + tenant }

// shared reports whether a path names no tenant of its own.
func shared(name string) bool {
	return name == "organizations" || name == "common" || name == "consumers"
}

// tenantOf finds the tenant that the path names.
func (s *simulator) tenantOf(r *http.Request) (*simulate.File[tenant], *aadsts) {
	name := r.PathValue("tenant")
	f := s.store.find(name)
	if f != nil {
		return f, nil
	}
	if !guidForm.MatchString(name) && !domainForm.MatchString(name) {
		return nil, errTenantInvalid.of(name)
	}
	return nil, errTenantNotFound.of(name)
}

// discovery answers the OpenID Connect metadata. For a path that names no
// tenant the issuer is a template with literal braces.
func (s *simulator) discovery(w http.ResponseWriter, r *http.Request) {
	name, issuerOf := r.PathValue("tenant"), "{tenantid}"
	if !shared(name) {
		f, refused := s.tenantOf(r)
		if refused != nil {
			s.refuseToken(w, r, refused)
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

// jwks answers the keys that sign tokens.
func (s *simulator) jwks(w http.ResponseWriter, r *http.Request) {
	issuer := s.authority("{tenantid}") + "/v2.0"
	if name := r.PathValue("tenant"); !shared(name) {
		issuer = s.authority(name) + "/v2.0"
	}
	keys := []map[string]any{}
	for _, k := range s.registration().Keys {
		public, err := k.public(issuer)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		keys = append(keys, public)
	}
	writeJSON(w, http.StatusOK, map[string]any{"keys": keys})
}

// writeJSON answers in the login host's form.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store, no-cache")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
