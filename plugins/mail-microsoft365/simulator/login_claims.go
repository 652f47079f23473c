// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// appTokenClaims returns the claims of an app-only token: the app roles and the directory roles of
// the service principal at the time of issue.
func (s *simulator) appTokenClaims(t *tenant, req tokenRequest, audience string) map[string]any {
	now := s.kit.Now()
	authMethod := "1"
	if req.certificate {
		authMethod = "2"
	}
	claims := map[string]any{
		"aud": audience, "iss": "https://sts.windows.net/" + t.ID + "/", "ver": "1.0",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(t.tokenLifetime()).Unix(),
		"appid": req.app.ClientID, "appidacr": authMethod, "idtyp": "app",
		"oid": t.Grant.Principal, "sub": t.Grant.Principal, "tid": t.ID, "uti": randomText(16),
		"wids": append(t.directoryRolesOf(t.Grant.Principal, now), ordinaryApplication),
	}
	if roles := rolesOfResource(t.Grant.Roles, audience); len(roles) > 0 {
		claims["roles"] = roles
	}
	return claims
}

// isOfDeletedPrincipal reports whether an app-only token was issued to an earlier service principal
// of the application.
func (t *tenant) isOfDeletedPrincipal(claims map[string]any) bool {
	return claims["idtyp"] == "app" && claims["oid"] != t.Grant.Principal
}

// rolesOfResource returns those of the granted app roles that belong to the API with this audience.
func rolesOfResource(granted []string, audience string) []string {
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

func (s *simulator) idTokenClaims(t *tenant, u user, app registration, c authorizationCode) map[string]any {
	// The client checks an ID token against the real clock. If the simulated clock was moved
	// forward, a token with simulated times would not be valid yet.
	now := time.Now()
	claims := map[string]any{
		"ver": "2.0", "iss": s.authority(t.ID) + "/v2.0", "aud": app.ClientID, "tid": t.ID,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(t.tokenLifetime()).Unix(),
		"sub": deriveText(app.ClientID, u.ID), "uti": randomText(16),
	}
	if c.Nonce != "" {
		claims["nonce"] = c.Nonce
	}
	if u.HomeTenant != "" {
		claims["idp"] = "https://sts.windows.net/" + u.HomeTenant + "/"
	}
	scopes := strings.Fields(c.Scope)
	if slices.Contains(scopes, "profile") {
		claims["oid"], claims["name"], claims["preferred_username"] = u.ID, u.DisplayName, u.signInName()
	}
	if app.WidsInIDToken {
		claims["wids"] = append(t.directoryRolesOf(u.ID, s.kit.Now()), ordinaryMember)
	}
	return claims
}

// signInName returns the name that the person types to sign in. For a guest it is the address in
// the guest's home organization.
func (u user) signInName() string {
	if u.HomeTenant != "" {
		return u.Mail
	}
	return u.UPN
}

func (t *tenant) tokenLifetime() time.Duration {
	return time.Duration(t.Behaviour.TokenSeconds) * time.Second
}

// signingKey is an RSA key that signs tokens, with a self-signed certificate that contains the
// public key.
type signingKey struct {
	Private     []byte `json:"private"`     // PKCS #1
	Certificate []byte `json:"certificate"` // DER
}

func newSigningKey() (signingKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return signingKey{}, fmt.Errorf("signing key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "accounts.simulated.invalid"},
		NotBefore:    time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return signingKey{}, fmt.Errorf("signing certificate: %w", err)
	}
	return signingKey{Private: x509.MarshalPKCS1PrivateKey(key), Certificate: der}, nil
}

// thumbprint returns the x5t value of the key. Microsoft also uses it as the kid.
func (k signingKey) thumbprint() string {
	sum := sha1.Sum(k.Certificate)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// sign returns the claims as a compact JWT, signed with RS256.
func (k signingKey) sign(claims map[string]any) (string, error) {
	key, err := x509.ParsePKCS1PrivateKey(k.Private)
	if err != nil {
		return "", fmt.Errorf("signing key: %w", err)
	}
	options := (&jose.SignerOptions{}).WithType("JWT").
		WithHeader("kid", k.thumbprint()).WithHeader("x5t", k.thumbprint())
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, options)
	if err != nil {
		return "", fmt.Errorf("signer: %w", err)
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

func (k signingKey) jwk(issuer string) (map[string]any, error) {
	cert, err := x509.ParseCertificate(k.Certificate)
	if err != nil {
		return nil, err
	}
	key, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("signing certificate: the key has the type %T, not RSA", cert.PublicKey)
	}
	return map[string]any{
		"kty": "RSA", "use": "sig", "kid": k.thumbprint(), "x5t": k.thumbprint(),
		"n":      base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
		"e":      base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
		"x5c":    []string{base64.StdEncoding.EncodeToString(k.Certificate)},
		"issuer": issuer,
	}, nil
}

// verifyToken returns the claims of a token. It fails if the token is malformed, or if no key of
// the registration has signed it. It does not check the times of the token.
func (r registration) verifyToken(token string) (map[string]any, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return nil, err
	}
	for _, k := range r.Keys {
		cert, err := x509.ParseCertificate(k.Certificate)
		if err != nil {
			return nil, err
		}
		claims := map[string]any{}
		if parsed.Claims(crypto.PublicKey(cert.PublicKey), &claims) == nil {
			return claims, nil
		}
	}
	return nil, fmt.Errorf("no key of the registration signed the token")
}
