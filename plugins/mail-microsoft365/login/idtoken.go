// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// skew is how far the platform's clock may be from ours.
const skew = 5 * time.Minute

// Person is who signed in, as a checked ID token says.
type Person struct {
	ObjectID string
	Address  string // for display
	Name     string
	Roles    []string // template ids of directory roles; often absent
}

type claims struct {
	Tenant   string      `json:"tid"`
	Nonce    string      `json:"nonce"`
	ObjectID string      `json:"oid"`
	Provider string      `json:"idp"`
	Username string      `json:"preferred_username"`
	UPN      string      `json:"upn"`
	Email    string      `json:"email"`
	Name     string      `json:"name"`
	Roles    []string    `json:"wids"`
	Expires  numericDate `json:"exp"`
	Begins   numericDate `json:"nbf"`
	Issued   numericDate `json:"iat"`
}

// numericDate is in seconds, which JSON may write with a fraction.
type numericDate float64

func (d numericDate) time() time.Time { return time.Unix(int64(d), 0) }

// keys reads the keys that sign the tenant's ID tokens. They rotate without
// notice, and sign-ins are rare, so they are read anew each time.
func (h Host) keys(ctx context.Context, at authority) (*oidc.StaticKeySet, error) {
	var set jose.JSONWebKeySet
	if err := h.fetch(ctx, at.Keys, "/{tenant}/discovery/v2.0/keys", &set); err != nil {
		return nil, err
	}
	var public []crypto.PublicKey
	for _, k := range set.Keys {
		if k.Valid() && k.IsPublic() && (k.Use == "" || k.Use == "sig") {
			public = append(public, k.Key)
		}
	}
	return &oidc.StaticKeySet{PublicKeys: public}, nil
}

// person checks an ID token against the sign-in that asked for it.
func (h Host) person(ctx context.Context, s sdk.SignIn, at authority, keys oidc.KeySet, raw string) (Person, error) {
	verifier := oidc.NewVerifier(at.Issuer, keys, &oidc.Config{
		ClientID: h.Credential.ClientID, SupportedSigningAlgs: algorithms(at.Algorithms),
		SkipExpiryCheck: true, // checked below, with skew
	})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return Person{}, foreign("id_token")
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return Person{}, foreign("id_token_claims")
	}
	if wrong := c.wrong(s, h.Now()); wrong != "" {
		return Person{}, foreign("id_token_" + wrong)
	}
	if c.guest(at.Issuer) {
		return Person{}, call.Refuse(fault.NotAdministrator, "who signed in is a guest of the tenant", "guest")
	}
	return Person{ObjectID: c.ObjectID, Address: first(c.Username, c.UPN, c.Email), Name: c.Name, Roles: c.Roles}, nil
}

// wrong names the claim that does not fit the sign-in, or "".
func (c claims) wrong(s sdk.SignIn, now time.Time) string {
	id, ok := tenant.ParseGUID(c.Tenant)
	switch {
	case !ok || id != s.Tenant || id == consumers:
		return "tid"
	case c.Nonce == "" || c.Nonce != s.Nonce:
		return "nonce"
	case !now.Before(c.Expires.time().Add(skew)):
		return "exp"
	case now.Add(skew).Before(c.Begins.time()):
		return "nbf"
	case now.Add(skew).Before(c.Issued.time()):
		return "iat"
	default:
		return ""
	}
}

// guest tells people whose home is another tenant: idp then names it. The
// tenant's own name there has two spellings.
func (c claims) guest(issuer string) bool {
	idp := strings.TrimSuffix(c.Provider, "/")
	home := "https://sts.windows.net/" + strings.ToLower(c.Tenant)
	return idp != "" && idp != strings.TrimSuffix(issuer, "/") && !strings.EqualFold(idp, home)
}

// algorithms keeps those that sign with a private key. The platform uses RS256.
func algorithms(offered []string) []string {
	strong := []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512}
	kept := slices.DeleteFunc(slices.Clone(offered), func(a string) bool { return !slices.Contains(strong, a) })
	if len(kept) == 0 {
		return []string{oidc.RS256}
	}
	return kept
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
