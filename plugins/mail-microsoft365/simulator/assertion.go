// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// assertionLife is how far ahead an assertion may expire, with the
	// clock difference that is forgiven.
	assertionLife = 10 * time.Minute
	assertionSkew = 5 * time.Minute
)

// checkAssertion verifies a client assertion: PS256 with x5t#S256, or RS256
// with x5t, by a certificate that is registered.
func (s *simulator) checkAssertion(in tokenRequest, assertion string) *aadsts {
	if in.form.Get("client_assertion_type") != assertionType {
		return errAssertion.of(in.app.ClientID)
	}
	parsed, err := jwt.ParseSigned(assertion, []jose.SignatureAlgorithm{jose.PS256, jose.RS256})
	if err != nil || len(parsed.Headers) != 1 {
		return errAssertion.of(in.app.ClientID)
	}
	cert := in.app.certificate(parsed.Headers[0].ExtraHeaders)
	var claims jwt.Claims
	if cert == nil || parsed.Claims(cert.PublicKey, &claims) != nil {
		return errAssertion.of(in.app.ClientID)
	}
	if claims.Issuer != in.app.ClientID || claims.Subject != in.app.ClientID || claims.ID == "" {
		return errAssertion.of(in.app.ClientID)
	}
	if !claims.Audience.Contains(s.authority(in.tenant) + "/oauth2/v2.0/token") {
		return errAssertionAud.of(in.app.ClientID)
	}
	now := s.kit.Now()
	if claims.Expiry == nil || claims.Expiry.Time().Sub(now) > assertionLife+assertionSkew ||
		claims.ValidateWithLeeway(jwt.Expected{Time: now}, assertionSkew) != nil {
		return errAssertionTime.of(in.app.ClientID)
	}
	return nil
}

// certificate finds the registered certificate that an assertion's header
// names by its thumbprint, or nil.
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
		long, short := sha256.Sum256(cert.Raw), sha1.Sum(cert.Raw)
		if header["x5t#S256"] == base64.RawURLEncoding.EncodeToString(long[:]) ||
			header["x5t"] == base64.RawURLEncoding.EncodeToString(short[:]) {
			return cert
		}
	}
	return nil
}
