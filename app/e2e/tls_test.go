// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newCertificate returns a certificate for the loopback address, and its private key.
func newCertificate(t *testing.T, serial int64) (certificate, key []byte) {
	t.Helper()
	privateKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, privateKey.Public(), privateKey)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(privateKey)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// servedSerial returns the serial number of the certificate that a new connection gets.
func servedSerial(t *testing.T, address string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	must(t, err)
	defer func() { _ = conn.Close() }()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("the service negotiated the protocol %q, want http/1.1", got)
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestServeReloadsItsTLSCertificate checks that the service supports only TLS 1.2 and 1.3, and
// reloads a replaced certificate. If a file is broken, the last valid certificate stays in use. The
// metrics show the expiry of the certificate in use, and whether its file is unusable. A stop does
// not wait for idle connections.
func TestServeReloadsItsTLSCertificate(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	files := [2]string{filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")}
	install := func(serial int64) {
		certificate, key := newCertificate(t, serial)
		replaceFile(t, files[1], key)
		replaceFile(t, files[0], certificate)
	}
	install(1)
	env := append(fixture.env(t.TempDir(), ""), "TENANTRY_TLS_CERTIFICATE_FILE="+files[0], "TENANTRY_TLS_KEY_FILE="+files[1],
		"TENANTRY_DRAIN_TIME="+(2*waitTimeout).String()) // longer than the test waits for a stop
	_, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	p, c := fixture.serve(env)
	address, secure := strings.CutPrefix(c.ready.APIURL, "https://")
	if !secure {
		t.Fatalf("the API is served at %s, want https", c.ready.APIURL)
	}
	if got := servedSerial(t, address); got != 1 {
		t.Errorf("the served certificate has the serial number %d, want 1", got)
	}
	for version, isSupported := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		if isSupported != (err == nil) {
			t.Errorf("a connection with %s ends with the error %v, want success: %v", tls.VersionName(version), err, isSupported)
		}
		if err == nil {
			_ = c.Close()
		}
	}
	if got, err := http.Get("http://" + address + "/docs"); err == nil && got.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP is answered %d, want 400", got.StatusCode)
	}
	install(2)
	if got := servedSerial(t, address); got != 2 {
		t.Errorf("after the replacement the served certificate has the serial number %d, want 2", got)
	}
	replaceFile(t, files[0], []byte("-----BEGIN CERTIFICATE-----\nAAAA"))
	for range 3 {
		if got := servedSerial(t, address); got != 2 {
			t.Errorf("with a broken file the served certificate has the serial number %d, want 2", got)
		}
	}
	if logged := strings.Count(p.logs.String(), "the earlier one stays in use"); logged != 1 {
		t.Errorf("the broken file was logged %d times, want once", logged)
	}
	const labels = `{credential="tls_certificate_file",provider="tenantry"}`
	c.checkCredentialMetrics(labels, "1")
	install(3)
	c.checkCredentialMetrics(labels, "0")
	c.leaveIdleTLSConnection(t, key)
	if err := p.stop(); err != nil {
		t.Errorf("the stop with an idle connection failed: %v", err)
	}
}

// leaveIdleTLSConnection sends a request and leaves its connection open.
func (c client) leaveIdleTLSConnection(t *testing.T, key string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	req, err := http.NewRequest("GET", c.ready.APIURL+"/v1/tenants", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	answer, err := (&http.Client{Transport: transport}).Do(req)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 || !bytes.Contains(raw, []byte(`"tenants"`)) {
		t.Errorf("the request is answered %d %s, want a list of tenants (%v)", answer.StatusCode, raw, err)
	}
}

// TestInvalidTLSAndProxySettingsAreRefused checks that serve refuses invalid TLS and proxy settings
// at the start, and explains each.
func TestInvalidTLSAndProxySettingsAreRefused(t *testing.T) {
	t.Parallel()
	certificate, _ := newCertificate(t, 1)
	_, key := newCertificate(t, 2)
	files := [2]string{filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")}
	for i, content := range [][]byte{certificate, key} {
		must(t, os.WriteFile(files[i], content, 0o600))
	}
	for want, env := range map[string][]string{
		"belong together":  {"TENANTRY_TLS_CERTIFICATE_FILE=" + files[0]},
		"set both or none": {"TENANTRY_TLS_KEY_FILE=" + files[1]},
		"do not hold a":    {"TENANTRY_TLS_CERTIFICATE_FILE=" + files[0], "TENANTRY_TLS_KEY_FILE=" + files[1]},
		"no such file":     {"TENANTRY_TLS_CERTIFICATE_FILE=/nowhere/a", "TENANTRY_TLS_KEY_FILE=/nowhere/b"},
		"neither an addr":  {"TENANTRY_TRUSTED_PROXIES=10.0.0.1,proxy.example"},
		`"0.0.0.0/0" cont`: {"TENANTRY_TRUSTED_PROXIES=0.0.0.0/0"},
		`"::/0" contains `: {"TENANTRY_TRUSTED_PROXIES=::/0"},
	} {
		env = append(env, "TENANTRY_DATA_DIR="+t.TempDir(), "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0")
		if result := runTenantry(t, env, "serve"); result.code == 0 || !strings.Contains(result.stderr, want) || strings.Contains(result.stderr, "BEGIN") {
			t.Errorf("%v: exit code %d, want an error with the text %q: %s", env[:1], result.code, want, result.stderr)
		}
	}
}
