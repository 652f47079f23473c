// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// credential is a certificate with its key.
type credential struct {
	key *rsa.PrivateKey
	der []byte
}

func newCredential(t *testing.T) credential {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return credential{key, der}
}

func (c credential) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.der}))
}

// sign makes an assertion; PS256 names the certificate by SHA-256, RS256 by
// SHA-1.
func (c credential) sign(t *testing.T, algorithm jose.SignatureAlgorithm, claims m) string {
	t.Helper()
	long, short := sha256.Sum256(c.der), sha1.Sum(c.der)
	options := (&jose.SignerOptions{}).WithType("JWT")
	if algorithm == jose.PS256 {
		options = options.WithHeader("x5t#S256", base64.RawURLEncoding.EncodeToString(long[:]))
	} else {
		options = options.WithHeader("x5t", base64.RawURLEncoding.EncodeToString(short[:]))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: c.key}, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAssertion(t *testing.T) {
	s := start(t)
	tn := s.newTenant()
	tn.consent()
	registered, stranger := newCredential(t), newCredential(t)
	s.control("POST", "/app", m{"certificate": registered.pem()})
	tokenURL := s.ready.Settings["login_url"] + "/" + tn.id + "/oauth2/v2.0/token"
	client, now := s.ready.Settings["client_id"], time.Now()

	for _, tt := range []struct {
		name      string
		signer    credential
		algorithm jose.SignatureAlgorithm
		change    m
		want      float64 // AADSTS number, 0 for a token
	}{
		{"PS256 with x5t#S256", registered, jose.PS256, nil, 0},
		{"RS256 with x5t", registered, jose.RS256, nil, 0},
		{"certificate unknown", stranger, jose.PS256, nil, 700027},
		{"signature of another key", credential{stranger.key, registered.der}, jose.PS256, nil, 700027},
		{"another algorithm", registered, jose.RS512, nil, 700027},
		{"another issuer", registered, jose.PS256, m{"iss": "someone"}, 700027},
		{"no jti", registered, jose.PS256, m{"jti": nil}, 700027},
		{"audience of another tenant", registered, jose.PS256, m{"aud": s.ready.Settings["login_url"] + "/x/oauth2/v2.0/token"}, 700023},
		{"expired", registered, jose.PS256, m{"exp": now.Add(-time.Hour).Unix()}, 700024},
		{"an hour ahead", registered, jose.PS256, m{"exp": now.Add(time.Hour).Unix()}, 700024},
		{"no expiry", registered, jose.PS256, m{"exp": nil}, 700024},
	} {
		t.Run(tt.name, func(t *testing.T) {
			claims := m{"aud": tokenURL, "iss": client, "sub": client, "jti": "1", "nbf": now.Unix(), "iat": now.Unix(),
				"exp": now.Add(10 * time.Minute).Unix()}
			for name, v := range tt.change {
				claims[name] = v
			}
			a := s.askToken(tn.id, url.Values{"grant_type": {"client_credentials"}, "scope": {graphScope},
				"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
				"client_assertion":      {tt.signer.sign(t, tt.algorithm, claims)}})
			switch {
			case tt.want == 0 && a.status != http.StatusOK:
				t.Errorf("%d %s", a.status, a.raw)
			case tt.want == 0 && claimsOf(t, a.at("access_token").(string))["appidacr"] != "2":
				t.Error("the token does not say that a certificate proved the application")
			case tt.want == 700027:
				golden(t, "aadsts-700027", a)
			case tt.want != 0 && (a.status != http.StatusUnauthorized || a.at("error_codes", 0) != tt.want):
				t.Errorf("%d %s", a.status, a.raw)
			}
		})
	}
}
