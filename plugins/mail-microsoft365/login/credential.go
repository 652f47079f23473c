// SPDX-License-Identifier: Apache-2.0

package login

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"github.com/tenantry/tenantry/core/secret"
)

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// assertionLifetime is the longest lifetime that Microsoft recommends.
	assertionLifetime = 10 * time.Minute
)

// Credential proves that a request comes from the application. A certificate takes precedence over
// a secret.
type Credential struct {
	ClientID    string
	Secret      secret.Text
	Certificate secret.Text // PEM with the certificate and its private key
}

// proof returns the form fields that authenticate the application at a token endpoint.
func (c Credential) proof(endpoint string, now time.Time) (url.Values, error) {
	form := url.Values{"client_id": {c.ClientID}}
	if c.Certificate.Empty() {
		form.Set("client_secret", c.Secret.Reveal())
		return form, nil
	}
	assertion, err := c.assertion(endpoint, now)
	if err != nil {
		return nil, err
	}
	form.Set("client_assertion_type", assertionType)
	form.Set("client_assertion", assertion)
	return form, nil
}

// assertion returns a signed JWT in the form of Microsoft's MSAL library: PS256, with the SHA-256
// thumbprint of the certificate.
func (c Credential) assertion(endpoint string, now time.Time) (string, error) {
	key, thumbprint, err := c.key()
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.PS256, Key: key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("x5t#S256", thumbprint))
	if err != nil {
		return "", fmt.Errorf("make signer: %w", err)
	}
	claims, err := json.Marshal(map[string]any{
		"aud": endpoint, "iss": c.ClientID, "sub": c.ClientID, "jti": uuid.NewString(),
		"nbf": now.Unix(), "iat": now.Unix(), "exp": now.Add(assertionLifetime).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", fmt.Errorf("sign assertion: %w", err)
	}
	return signed.CompactSerialize()
}

// key returns the private key and the thumbprint of the certificate. Its errors do not quote the
// PEM.
func (c Credential) key() (crypto.Signer, string, error) {
	pem := []byte(c.Certificate.Reveal())
	pair, err := tls.X509KeyPair(pem, pem)
	if err != nil {
		return nil, "", errCertificate
	}
	key, ok := pair.PrivateKey.(*rsa.PrivateKey)
	if !ok {
		return nil, "", errCertificate
	}
	sum := sha256.Sum256(pair.Certificate[0])
	return key, base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// Check returns a ServiceUnavailable refusal if the credential is incomplete or the certificate is
// unusable. It sends nothing.
func (c Credential) Check() error {
	switch {
	case c.ClientID == "":
		return errNoClient
	case c.Certificate.Empty() && c.Secret.Empty():
		return errNoCredential
	case c.Certificate.Empty():
		return nil
	default:
		_, _, err := c.key()
		return err
	}
}
