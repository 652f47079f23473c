// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func writeScript(t *testing.T, commands string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+commands+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// endOfOutput is a command that makes startScript abort the start of the script. Until then the
// script runs, so that all of its output is read. The output of a script that has exited is lost if
// a busy machine does not read the output within pipeDrainTime.
const endOfOutput = "\necho 'end of output' >&2; exec sleep 600"

// startScript starts a shell script as a plugin. It returns the lines that the script prints to
// standard error, and the error of the start.
func startScript(t *testing.T, script string) (string, error) {
	t.Helper()
	lines, abort := make(chan string, 1000), make(chan struct{})
	onLine := func(line []byte) {
		if string(line) == "end of output" {
			close(abort)
			return
		}
		lines <- string(line)
	}
	p, err := Start(Launch{Exe: writeScript(t, script), Name: "plugin", OnLine: onLine, Timeout: testTimeout, Abort: abort})
	if err == nil {
		p.Kill()
	}
	close(lines)
	var printed []string
	for line := range lines {
		printed = append(printed, line)
	}
	return strings.Join(printed, "\n"), err
}

// TestHostCertificateHasThePropertiesThatLibrariesRequire checks the properties for which TLS
// libraries have different requirements: the curve, the usages, the name and the basic constraints.
func TestHostCertificateHasThePropertiesThatLibrariesRequire(t *testing.T) {
	printed, err := startScript(t, `printf '%s\n' "$PLUGIN_CLIENT_CERT" >&2`+endOfOutput)
	if err == nil {
		t.Fatal("the start of a script without a handshake succeeded, want an error")
	}
	block, _ := pem.Decode([]byte(printed + "\n"))
	if block == nil {
		t.Fatalf("PLUGIN_CLIENT_CERT is %q, want PEM", printed)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := certificate.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() || certificate.SignatureAlgorithm != x509.ECDSAWithSHA256 {
		t.Errorf("the key is %T on %v, signed with %s; want P-256 and SHA-256", certificate.PublicKey, key, certificate.SignatureAlgorithm)
	}
	if !certificate.IsCA || !certificate.BasicConstraintsValid || certificate.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		t.Errorf("CA %t, basic constraints %t, key usage %b; want a CA with basic constraints that may sign", certificate.IsCA, certificate.BasicConstraintsValid, certificate.KeyUsage)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	now := time.Now()
	for _, verificationTime := range []time.Time{now, now.AddDate(9, 0, 0)} { // the certificate is valid for about ten years
		_, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: verificationTime, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			t.Errorf("the certificate of a client at %s: got %v, want it valid", verificationTime, err)
		}
	}
}

// serveHealth serves a health check that always succeeds, and returns the path of its socket.
func serveHealth(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	checks := health.NewServer()
	checks.SetServingStatus(plugin.GRPCServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	server := grpc.NewServer(options...)
	grpc_health_v1.RegisterHealthServer(server, checks)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return path
}

// TestPluginWithoutAnnouncedCertificateIsRefused checks that the host connects only with TLS, and
// only to a server with the certificate of the handshake line.
func TestPluginWithoutAnnouncedCertificateIsRefused(t *testing.T) {
	// newCertificate returns a certificate for the plugin, and its field of the handshake line.
	// newHostTLS returns a suitable certificate.
	newCertificate := func() (*tls.Config, string) {
		config, certificate, err := newHostTLS()
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(certificate)
		return config, "|" + base64.RawStdEncoding.EncodeToString(block.Bytes)
	}
	serverTLS, ownCertificate := newCertificate()
	_, otherCertificate := newCertificate()
	plain, encrypted := serveHealth(t), serveHealth(t, grpc.Creds(credentials.NewTLS(serverTLS)))
	for _, tc := range []struct {
		name, socket, announced string
		accepted                bool
	}{
		{"TLS with the announced certificate", encrypted, ownCertificate, true},
		{"TLS with a certificate that differs from the announced one", encrypted, otherCertificate, false},
		{"TLS with a certificate that is not announced", encrypted, "", false},
		{"no TLS", plain, "", false},
		{"no TLS, with an announced certificate", plain, ownCertificate, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := startScript(t, "echo '1|1|unix|"+tc.socket+"|grpc"+tc.announced+"'\nexec cat >&2")
			if accepted := err == nil; accepted != tc.accepted {
				t.Fatalf("the start returns %v, want it accepted: %t", err, tc.accepted)
			}
		})
	}
}
