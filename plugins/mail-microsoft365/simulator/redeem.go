// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// redeem answers grant_type=authorization_code.
func (s *simulator) redeem(in tokenRequest, r *http.Request) (map[string]any, *aadsts) {
	f, refused := s.tenantOf(r)
	if refused != nil {
		return nil, refused
	}
	var idClaims, accessClaims map[string]any
	var scope string
	var seconds int
	err := f.Do(func(t *tenant) {
		c, ok := t.Codes[in.form.Get("code")]
		u := t.user(c.User)
		if refused = s.checkCode(t, c, in); refused == nil && (!ok || u == nil) {
			refused = errCodeUnknown.of("")
		}
		if refused != nil {
			return
		}
		c.Redeemed = true
		t.Codes[in.form.Get("code")] = c
		idClaims, scope, seconds = s.userClaims(t, *u, in.app, c), c.Scope, t.Behaviour.TokenSeconds
		accessClaims = s.delegatedClaims(t, *u, in.app, scope)
	})
	if refused != nil {
		return nil, refused
	}
	key := in.app.Keys[len(in.app.Keys)-1]
	idToken, idErr := key.sign(idClaims)
	accessToken, accessErr := key.sign(accessClaims)
	if err != nil || idErr != nil || accessErr != nil {
		return nil, errTransient.of("")
	}
	return map[string]any{"token_type": "Bearer", "scope": scope, "expires_in": seconds,
		"ext_expires_in": seconds, "access_token": accessToken, "id_token": idToken}, nil
}

// checkCode says why a code is not redeemed. The zero code is an unknown one.
func (s *simulator) checkCode(t *tenant, c code, in tokenRequest) *aadsts {
	switch {
	case c.Issued.IsZero():
		return errCodeUnknown.of("")
	case c.Redeemed:
		return errCodeUsed.of("")
	case s.kit.Now().Sub(c.Issued) > codeLife:
		return errCodeExpired.of("")
	case c.Redirect != in.form.Get("redirect_uri"):
		return errCodeRedirect.of(in.form.Get("redirect_uri"))
	case !c.proves(in.form.Get("code_verifier")):
		return errVerifier.of("")
	case t.Grant.Consent != "granted":
		return errNotConsented.of(in.app.ClientID)
	}
	return nil
}

// proves checks the PKCE verifier against the challenge of the code.
func (c code) proves(verifier string) bool {
	made := verifier
	if c.Method == "S256" {
		sum := sha256.Sum256([]byte(verifier))
		made = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return subtle.ConstantTimeCompare([]byte(made), []byte(c.Challenge)) == 1
}

// delegatedClaims are those of the access token that comes with an ID token:
// it reads the user's own profile and nothing more.
func (s *simulator) delegatedClaims(t *tenant, u user, app registration, scope string) map[string]any {
	now := s.kit.Now()
	scopes := slices.DeleteFunc(strings.Fields(scope), func(v string) bool { return v == "offline_access" })
	return map[string]any{
		"aud": graphAudience, "iss": "https://sts.windows.net/" + t.ID + "/", "ver": "1.0",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(t.lifetime()).Unix(),
		"appid": app.ClientID, "idtyp": "user", "oid": u.ID, "sub": digest("graph", u.ID),
		"tid": t.ID, "scp": strings.Join(scopes, " "), "uti": randomText(16),
	}
}
