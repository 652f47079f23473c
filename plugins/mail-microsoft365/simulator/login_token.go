// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

type tokenRequest struct {
	app         registration
	form        url.Values
	tenant      string // the tenant element of the path
	certificate bool   // the application authenticated with a certificate
}

func (s *simulator) tokenEndpoint(w http.ResponseWriter, r *http.Request) {
	answer, refusal := s.issueToken(r)
	if refusal != nil {
		s.writeTokenError(w, r, refusal)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

// issueToken authenticates the application and returns the answer for the grant type.
func (s *simulator) issueToken(r *http.Request) (map[string]any, *aadsts) {
	if err := r.ParseForm(); err != nil {
		return nil, errGrantType.with("")
	}
	req := tokenRequest{app: s.registration(), form: r.PostForm, tenant: r.PathValue("tenant")}
	if refusal := s.authenticateClient(&req, r); refusal != nil {
		return nil, refusal
	}
	switch req.form.Get("grant_type") {
	case "client_credentials":
		return s.clientCredentials(req, r)
	case "authorization_code":
		return s.redeemCode(req, r)
	}
	return nil, errGrantType.with(req.form.Get("grant_type"))
}

// authenticateClient checks the credential of the application: a secret in the form or in HTTP
// Basic, or an assertion that is signed with a registered certificate.
func (s *simulator) authenticateClient(req *tokenRequest, r *http.Request) *aadsts {
	id, secret := req.form.Get("client_id"), req.form.Get("client_secret")
	if user, password, ok := r.BasicAuth(); ok {
		id, secret = unescapeForm(user), unescapeForm(password)
	}
	if !strings.EqualFold(id, req.app.ClientID) {
		return errNoPrincipal.with(id)
	}
	if assertion := req.form.Get("client_assertion"); assertion != "" {
		req.certificate = true
		return s.checkAssertion(*req, assertion)
	}
	switch secret {
	case req.app.Secret:
		return nil
	case req.app.ExpiredSecret:
		return errSecretExpired.with(id)
	}
	return errSecret.with(id)
}

// unescapeForm decodes the form encoding that RFC 6749, section 2.3.1, requires in HTTP Basic.
func unescapeForm(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// The resources for which tokens are issued.
const (
	graphAudience    = "https://graph.microsoft.com"
	exchangeAudience = "https://outlook.office365.com"
)

// clientCredentials issues an app-only token, even if the application has no app role of the API.
// The API then refuses the calls.
func (s *simulator) clientCredentials(req tokenRequest, r *http.Request) (map[string]any, *aadsts) {
	scope := req.form.Get("scope")
	audience, ok := strings.CutSuffix(scope, "/.default")
	if !ok || audience != graphAudience && audience != exchangeAudience {
		return nil, errScope.with(scope)
	}
	if isSharedAuthority(req.tenant) {
		return nil, errNoTenantNamed.with("")
	}
	f, refusal := s.tenantInPath(r)
	if refusal != nil {
		return nil, refusal
	}
	var claims map[string]any
	var seconds int
	f.View(func(t *tenant) {
		if refusal = s.tokenError(t, req.app, audience); refusal == nil {
			claims = s.appTokenClaims(t, req, audience)
			seconds = t.Behaviour.TokenSeconds
		}
	})
	if refusal != nil {
		return nil, refusal
	}
	key, err := s.signer()
	if err != nil {
		return nil, errTransient.with("")
	}
	token, err := key.sign(claims)
	if err != nil {
		return nil, errTransient.with("")
	}
	return map[string]any{"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds,
		"access_token": token}, nil
}

// tokenError returns the error with which the tenant refuses to issue a token for the application,
// or nil.
func (s *simulator) tokenError(t *tenant, app registration, audience string) *aadsts {
	switch {
	case t.Behaviour.Deleted:
		return errTenantGone.with(t.ID)
	case t.Grant.Consent != "granted" || !t.Grant.VisibilityLag.hasPassed(s.kit.Now()):
		return errNoPrincipal.with(app.ClientID)
	case t.Behaviour.AppDisabled:
		return errAppDisabled.with(app.ClientID)
	case audience == exchangeAudience && t.Behaviour.NoExchange:
		return errNoResource.with(audience)
	case t.Behaviour.ConditionalAccess:
		return errConditional.with(app.ClientID)
	}
	return nil
}

// The form of a client assertion, and the limits of its lifetime.
const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// An assertion may expire at most assertionLife in the future. assertionSkew is the tolerated
	// clock difference.
	assertionLife = 10 * time.Minute
	assertionSkew = 5 * time.Minute
)

// checkAssertion verifies a client assertion that is signed with a registered certificate, by PS256
// or RS256.
func (s *simulator) checkAssertion(req tokenRequest, assertion string) *aadsts {
	if req.form.Get("client_assertion_type") != assertionType {
		return errAssertion.with(req.app.ClientID)
	}
	parsed, err := jwt.ParseSigned(assertion, []jose.SignatureAlgorithm{jose.PS256, jose.RS256})
	if err != nil || len(parsed.Headers) != 1 {
		return errAssertion.with(req.app.ClientID)
	}
	cert := req.app.certificate(parsed.Headers[0].ExtraHeaders)
	var claims jwt.Claims
	if cert == nil || parsed.Claims(cert.PublicKey, &claims) != nil {
		return errAssertion.with(req.app.ClientID)
	}
	if claims.Issuer != req.app.ClientID || claims.Subject != req.app.ClientID || claims.ID == "" {
		return errAssertion.with(req.app.ClientID)
	}
	if !claims.Audience.Contains(s.authority(req.tenant) + "/oauth2/v2.0/token") {
		return errAssertionAud.with(req.app.ClientID)
	}
	now := s.kit.Now()
	if claims.Expiry == nil || claims.Expiry.Time().Sub(now) > assertionLife+assertionSkew ||
		claims.ValidateWithLeeway(jwt.Expected{Time: now}, assertionSkew) != nil {
		return errAssertionTime.with(req.app.ClientID)
	}
	return nil
}

// certificate returns the registered certificate whose thumbprint, x5t#S256 or x5t, is in the
// header of an assertion, or nil.
func (r registration) certificate(header map[jose.HeaderKey]any) *x509.Certificate {
	for _, text := range r.Certificates {
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		x5tS256, x5t := sha256.Sum256(cert.Raw), sha1.Sum(cert.Raw)
		if header["x5t#S256"] == base64.RawURLEncoding.EncodeToString(x5tS256[:]) ||
			header["x5t"] == base64.RawURLEncoding.EncodeToString(x5t[:]) {
			return cert
		}
	}
	return nil
}

// redeemCode redeems an authorization code for an ID token and an access token.
func (s *simulator) redeemCode(req tokenRequest, r *http.Request) (map[string]any, *aadsts) {
	f, refusal := s.tenantInPath(r)
	if refusal != nil {
		return nil, refusal
	}
	var idClaims, accessClaims map[string]any
	var scope string
	var seconds int
	err := f.Do(func(t *tenant) {
		issued := t.Codes[req.form.Get("code")]
		u := t.user(issued.User)
		if refusal = s.checkCode(t, issued, req); refusal == nil && u == nil {
			refusal = errCodeUnknown.with("")
		}
		if refusal != nil {
			return
		}
		issued.Redeemed = true
		t.Codes[req.form.Get("code")] = issued
		idClaims, scope, seconds = s.idTokenClaims(t, *u, req.app, issued), issued.Scope, t.Behaviour.TokenSeconds
		accessClaims = s.delegatedTokenClaims(t, *u, req.app, scope)
	})
	if refusal != nil {
		return nil, refusal
	}
	key, keyErr := s.signer()
	if err != nil || keyErr != nil {
		return nil, errTransient.with("")
	}
	idToken, idErr := key.sign(idClaims)
	accessToken, accessErr := key.sign(accessClaims)
	if idErr != nil || accessErr != nil {
		return nil, errTransient.with("")
	}
	return map[string]any{"token_type": "Bearer", "scope": scope, "expires_in": seconds,
		"ext_expires_in": seconds, "access_token": accessToken, "id_token": idToken}, nil
}

// checkCode returns the error for a code that cannot be redeemed, or nil. issued is the zero value
// if the code is unknown.
func (s *simulator) checkCode(t *tenant, issued authorizationCode, req tokenRequest) *aadsts {
	switch {
	case issued.IssuedAt.IsZero():
		return errCodeUnknown.with("")
	case issued.Redeemed:
		return errCodeUsed.with("")
	case s.kit.Now().Sub(issued.IssuedAt) > codeLifetime:
		return errCodeExpired.with("")
	case issued.Redirect != req.form.Get("redirect_uri"):
		return errCodeRedirect.with(req.form.Get("redirect_uri"))
	case !issued.verifierMatches(req.form.Get("code_verifier")):
		return errVerifier.with("")
	case t.Grant.Consent != "granted":
		return errNotConsented.with(req.app.ClientID)
	}
	return nil
}

// verifierMatches checks the PKCE verifier against the challenge of the code (RFC 7636).
func (c authorizationCode) verifierMatches(verifier string) bool {
	challenge := verifier
	if c.Method == "S256" {
		sum := sha256.Sum256([]byte(verifier))
		challenge = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return subtle.ConstantTimeCompare([]byte(challenge), []byte(c.Challenge)) == 1
}

// delegatedTokenClaims returns the claims of the access token that is issued with an ID token.
func (s *simulator) delegatedTokenClaims(t *tenant, u user, app registration, scope string) map[string]any {
	now := s.kit.Now()
	scopes := slices.DeleteFunc(strings.Fields(scope), func(v string) bool { return v == "offline_access" })
	return map[string]any{
		"aud": graphAudience, "iss": "https://sts.windows.net/" + t.ID + "/", "ver": "1.0",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(t.tokenLifetime()).Unix(),
		"appid": app.ClientID, "idtyp": "user", "oid": u.ID, "sub": deriveText("graph", u.ID),
		"tid": t.ID, "scp": strings.Join(scopes, " "), "uti": randomText(16),
	}
}
