// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

const (
	// clientCertificateVariable is the environment variable from which a plugin reads the host's
	// certificate.
	clientCertificateVariable = "PLUGIN_CLIENT_CERT"
	// certificateHost is the name in the certificates of the host and the plugin.
	certificateHost = "localhost"
	// certificateLife is longer than any process runs.
	certificateLife = 10 * 365 * 24 * time.Hour
)

// newHostTLS returns the TLS configuration for one plugin process, and the host's certificate as
// PEM. The plugin announces its own certificate in its handshake line, and go-plugin makes that
// certificate the only root.
//
// newHostTLS replaces AutoMTLS of go-plugin. The keys of AutoMTLS use the curve P-521. BoringSSL,
// the TLS library of most gRPC implementations, does not accept that curve by default. newHostTLS
// uses P-256, because OpenSSL, BoringSSL and Go all accept it.
func newHostTLS() (*tls.Config, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("create the key of the host: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("create the certificate of the host: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: certificateHost},
		DNSNames:     []string{certificateHost},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		// Some libraries accept a self-signed certificate only if it is marked as a CA.
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("create the certificate of the host: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS12,
		ServerName:   certificateHost,
		// No certificate is accepted until the plugin has announced its own certificate in the
		// handshake line.
		RootCAs: x509.NewCertPool(),
	}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
