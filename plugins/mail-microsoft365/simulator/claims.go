// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"
)

// appClaims are the claims of an app-only token: what our service principal
// holds in the tenant at this moment. A role that comes later needs a new
// token.
func (s *simulator) appClaims(t *tenant, in tokenRequest, audience string) map[string]any {
	now := s.kit.Now()
	proof := "1"
	if in.certificate {
		proof = "2"
	}
	claims := map[string]any{
		"aud": audience, "iss": "https://sts.windows.net/" + t.ID + "/", "ver": "1.0",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(t.lifetime()).Unix(),
		"appid": in.app.ClientID, "appidacr": proof, "idtyp": "app",
		"oid": t.Grant.Principal, "sub": t.Grant.Principal, "tid": t.ID, "uti": randomText(16),
		"wids": append(t.rolesOf(t.Grant.Principal, now), ordinaryApplication),
	}
	if roles := rolesFor(t.Grant.Roles, audience); len(roles) > 0 {
		claims["roles"] = roles
	}
	return claims
}

// rolesFor picks the app roles of one resource.
func rolesFor(granted []string, audience string) []string {
	resource := graphAppID
	if audience == exchangeAudience {
		resource = exchangeAppID
	}
	var roles []string
	for _, role := range granted {
		if appRoles[role].resource == resource {
			roles = append(roles, role)
		}
	}
	return roles
}

// userClaims are the claims of an ID token.
func (s *simulator) userClaims(t *tenant, u user, app registration, c code) map[string]any {
	// An ID token is read by somebody else's clock at once, and a simulated
	// clock that was moved would make it one from the future.
	now := time.Now()
	claims := map[string]any{
		"ver": "2.0", "iss": s.authority(t.ID) + "/v2.0", "aud": app.ClientID, "tid": t.ID,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(t.lifetime()).Unix(),
		"sub": digest(app.ClientID, u.ID), "uti": randomText(16),
	}
	if c.Nonce != "" {
		claims["nonce"] = c.Nonce
	}
	if u.Home != "" {
		claims["idp"] = "https://sts.windows.net/" + u.Home + "/"
	}
	scopes := strings.Fields(c.Scope)
	if slices.Contains(scopes, "profile") {
		claims["oid"], claims["name"], claims["preferred_username"] = u.ID, u.DisplayName, u.signInName()
	}
	if app.WidsInIDToken {
		claims["wids"] = append(t.rolesOf(u.ID, s.kit.Now()), ordinaryMember)
	}
	return claims
}

// signInName is what the person typed: a guest's address is the one at home.
func (u user) signInName() string {
	if u.Home != "" {
		return u.Mail
	}
	return u.UPN
}

// lifetime is how long the tenant's tokens live.
func (t *tenant) lifetime() time.Duration {
	return time.Duration(t.Behaviour.TokenSeconds) * time.Second
}
