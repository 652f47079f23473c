// SPDX-License-Identifier: Apache-2.0

package login

import (
	"cmp"
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

// clockSkew is the largest accepted difference between Microsoft's clock and the local clock.
const clockSkew = 5 * time.Minute

// Person is the signed-in person, from a verified ID token.
type Person struct {
	ObjectID string
	Address  string // only for display
	Name     string
	Roles    []string // template ids of the person's directory roles, nil in most tokens
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

// numericDate is a time in seconds since 1970, possibly with a fraction (RFC 7519).
type numericDate float64

func (d numericDate) time() time.Time { return time.Unix(int64(d), 0) }

// person verifies an ID token for the sign-in s and returns the person in the token. It fails with
// ConnectLinkInvalid if the token is not valid or does not belong to the sign-in, and with
// NotAdministrator if the person is a guest.
func (h Host) person(ctx context.Context, s sdk.SignIn, tenantAuthority authority, keys oidc.KeySet, raw string) (Person, error) {
	verifier := oidc.NewVerifier("", keys, &oidc.Config{
		ClientID: h.Credential.ClientID, SupportedSigningAlgs: algorithms(tenantAuthority.Algorithms),
		SkipIssuerCheck: true, SkipExpiryCheck: true, // both are checked below, because several issuers are valid and clockSkew applies
	})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return Person{}, invalidLink("id_token")
	}
	if !slices.Contains(tenantAuthority.Issuers, token.Issuer) {
		return Person{}, invalidLink("id_token_iss")
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return Person{}, invalidLink("id_token_claims")
	}
	if claim := c.mismatch(s, h.Now()); claim != "" {
		return Person{}, invalidLink("id_token_" + claim)
	}
	if c.isGuest(h.wellKnownAuthority(s.Tenant).Issuers) {
		return Person{}, call.Refuse(fault.NotAdministrator, "the person who signed in is a guest of the tenant", "guest")
	}
	return Person{ObjectID: c.ObjectID, Address: cmp.Or(c.Username, c.UPN, c.Email), Name: c.Name, Roles: c.Roles}, nil
}

// mismatch returns the name of the first claim that does not match the sign-in or the current time,
// or "".
func (c claims) mismatch(s sdk.SignIn, now time.Time) string {
	id, ok := tenant.ParseGUID(c.Tenant)
	switch {
	case !ok || id != s.Tenant || id == consumers:
		return "tid"
	case c.Nonce == "" || c.Nonce != s.Nonce:
		return "nonce"
	case !now.Before(c.Expires.time().Add(clockSkew)):
		return "exp"
	case now.Add(clockSkew).Before(c.Begins.time()):
		return "nbf"
	case now.Add(clockSkew).Before(c.Issued.time()):
		return "iat"
	default:
		return ""
	}
}

// isGuest reports whether the person belongs to a different tenant. The claim idp of a guest
// contains the guest's own tenant. For a person of this tenant, idp is absent or contains one of
// the issuers of this tenant.
func (c claims) isGuest(issuers []string) bool {
	idp := strings.TrimSuffix(c.Provider, "/")
	home := "https://sts.windows.net/" + strings.ToLower(c.Tenant)
	return idp != "" && !slices.Contains(issuers, idp) && !strings.EqualFold(idp, home)
}

// algorithms returns the offered algorithms that use RSA keys, or RS256 if there are none.
// Microsoft uses RS256.
func algorithms(offered []string) []string {
	rsaAlgorithms := []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512}
	result := slices.DeleteFunc(slices.Clone(offered), func(a string) bool { return !slices.Contains(rsaAlgorithms, a) })
	if len(result) == 0 {
		return []string{oidc.RS256}
	}
	return result
}
