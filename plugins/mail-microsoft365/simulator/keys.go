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
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// signingKey signs tokens; it is published with a certificate of its own.
type signingKey struct {
	Private     []byte `json:"private"`     // PKCS #1
	Certificate []byte `json:"certificate"` // DER
}

func newSigningKey() (signingKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return signingKey{}, fmt.Errorf("signing key: %w", err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "accounts.simulated.invalid"},
		NotBefore:    time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return signingKey{}, fmt.Errorf("signing certificate: %w", err)
	}
	return signingKey{Private: x509.MarshalPKCS1PrivateKey(key), Certificate: der}, nil
}

// thumbprint is the x5t of the key, which Microsoft also uses as its kid.
func (k signingKey) thumbprint() string {
	sum := sha1.Sum(k.Certificate)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// sign makes a compact RS256 token of claims.
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

// public is the key's entry in the JWKS.
func (k signingKey) public(issuer string) (map[string]any, error) {
	cert, err := x509.ParseCertificate(k.Certificate)
	if err != nil {
		return nil, err
	}
	key, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("signing certificate: a key of type %T", cert.PublicKey)
	}
	return map[string]any{
		"kty": "RSA", "use": "sig", "kid": k.thumbprint(), "x5t": k.thumbprint(),
		"n":      base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
		"e":      base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
		"x5c":    []string{base64.StdEncoding.EncodeToString(k.Certificate)},
		"issuer": issuer,
	}, nil
}

// verify returns the claims of a token that one of the keys signed.
func (r registration) verify(token string) (map[string]any, error) {
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
	return nil, fmt.Errorf("no key of ours signed it")
}
