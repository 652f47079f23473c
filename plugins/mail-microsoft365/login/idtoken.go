// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

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

// person checks an ID token against the sign-in that asked for it.
func (h Host) person(ctx context.Context, s sdk.SignIn, at authority, keys oidc.KeySet, raw string) (Person, error) {
	verifier := oidc.NewVerifier("", keys, &oidc.Config{
		ClientID: h.Credential.ClientID, SupportedSigningAlgs: algorithms(at.Algorithms),
		SkipIssuerCheck: true, SkipExpiryCheck: true, // checked below: there may be two, and with skew
	})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return Person{}, foreign("id_token")
	}
	if !slices.Contains(at.Issuers, token.Issuer) {
		return Person{}, foreign("id_token_iss")
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return Person{}, foreign("id_token_claims")
	}
	if wrong := c.wrong(s, h.Now()); wrong != "" {
		return Person{}, foreign("id_token_" + wrong)
	}
	if c.guest(h.wellKnown(s.Tenant).Issuers) {
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
// tenant's own name there has several spellings.
func (c claims) guest(issuers []string) bool {
	idp := strings.TrimSuffix(c.Provider, "/")
	home := "https://sts.windows.net/" + strings.ToLower(c.Tenant)
	return idp != "" && !slices.Contains(issuers, idp) && !strings.EqualFold(idp, home)
}

// algorithms keeps those of RSA keys. The platform uses RS256.
func algorithms(offered []string) []string {
	strong := []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512}
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
