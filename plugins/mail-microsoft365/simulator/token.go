// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/url"
	"strings"
)

// tokenRequest is one call of the token endpoint.
type tokenRequest struct {
	app    registration
	form   url.Values
	tenant string // as the path names it
	// certificate tells that the application proved itself by one.
	certificate bool
}

// token answers POST /{tenant}/oauth2/v2.0/token.
func (s *simulator) token(w http.ResponseWriter, r *http.Request) {
	answer, refused := s.issue(r)
	if refused != nil {
		s.refuseToken(w, r, refused)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func (s *simulator) issue(r *http.Request) (map[string]any, *aadsts) {
	if err := r.ParseForm(); err != nil {
		return nil, errGrantType.of("")
	}
	in := tokenRequest{app: s.registration(), form: r.PostForm, tenant: r.PathValue("tenant")}
	if refused := s.authenticate(&in, r); refused != nil {
		return nil, refused
	}
	switch in.form.Get("grant_type") {
	case "client_credentials":
		return s.clientCredentials(in, r)
	case "authorization_code":
		return s.redeem(in, r)
	}
	return nil, errGrantType.of(in.form.Get("grant_type"))
}

// authenticate checks that the call comes from our application: by a secret
// in the form or as HTTP Basic, or by an assertion that a certificate signed.
func (s *simulator) authenticate(in *tokenRequest, r *http.Request) *aadsts {
	id, secret := in.form.Get("client_id"), in.form.Get("client_secret")
	if user, password, ok := r.BasicAuth(); ok {
		id, secret = unescaped(user), unescaped(password)
	}
	if !strings.EqualFold(id, in.app.ClientID) {
		return errNoPrincipal.of(id)
	}
	if assertion := in.form.Get("client_assertion"); assertion != "" {
		in.certificate = true
		return s.checkAssertion(*in, assertion)
	}
	switch secret {
	case in.app.Secret:
		return nil
	case in.app.ExpiredSecret:
		return errSecretExpired.of(id)
	}
	return errSecret.of(id)
}

// unescaped undoes the form encoding that RFC 6749 asks for in HTTP Basic.
func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// The resources that tokens are issued for.
const (
	graphAudience    = "https://graph.microsoft.com"
	exchangeAudience = "https://outlook.office365.com"
)

// clientCredentials issues an app-only token. It is issued even where no app
// role was granted: the API refuses then, not this endpoint.
func (s *simulator) clientCredentials(in tokenRequest, r *http.Request) (map[string]any, *aadsts) {
	scope := in.form.Get("scope")
	audience, ok := strings.CutSuffix(scope, "/.default")
	if !ok || audience != graphAudience && audience != exchangeAudience {
		return nil, errScope.of(scope)
	}
	if shared(in.tenant) {
		return nil, errNoTenantNamed.of("")
	}
	f, refused := s.tenantOf(r)
	if refused != nil {
		return nil, refused
	}
	var claims map[string]any
	var seconds int
	f.View(func(t *tenant) {
		if refused = s.mayIssue(t, in.app, audience); refused == nil {
			claims = s.appClaims(t, in, audience)
			seconds = t.Behaviour.TokenSeconds
		}
	})
	if refused != nil {
		return nil, refused
	}
	token, err := in.app.Keys[len(in.app.Keys)-1].sign(claims)
	if err != nil {
		return nil, errTransient.of("")
	}
	return map[string]any{"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds,
		"access_token": token}, nil
}

// mayIssue says why a tenant gives our application no token.
func (s *simulator) mayIssue(t *tenant, app registration, audience string) *aadsts {
	switch {
	case t.Behaviour.Deleted:
		return errTenantGone.of(t.ID)
	case t.Grant.Consent != "granted" || !t.Grant.Visible.over(s.kit.Now()):
		return errNoPrincipal.of(app.ClientID)
	case t.Behaviour.AppDisabled:
		return errAppDisabled.of(app.ClientID)
	case audience == exchangeAudience && t.Behaviour.NoExchange:
		return errNoResource.of(audience)
	case t.Behaviour.ConditionalAccess:
		return errConditional.of(app.ClientID)
	}
	return nil
}
