// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
)

// loadCertificate loads the certificate of the API's listener. It returns nil when no certificate
// is configured. The API is then served over plain HTTP. loadCertificate fails when the certificate
// cannot be loaded.
func loadCertificate(c settings.Config, log *slog.Logger) (*certificateFiles, error) {
	if c.TLSCertificateFile == "" {
		return nil, nil
	}
	files := &certificateFiles{certificate: c.TLSCertificateFile, key: c.TLSKeyFile, log: log}
	if _, err := files.read(); err != nil {
		return nil, cli.WithFix(err, "tls_certificate_file must hold the certificate and its chain, and tls_key_file the key of this certificate, both as PEM")
	}
	return files, nil
}

// certificateFiles holds a certificate and reloads it when its files change. If the new files
// cannot be used, the current certificate stays in use.
type certificateFiles struct {
	certificate, key string // the paths
	log              *slog.Logger

	mu          sync.Mutex
	current     *tls.Certificate
	loaded      [2]fileVersion // the versions of both files from which current was loaded
	loggedError string         // the error that was logged last; the same error is not logged again
}

// tlsConfig returns the TLS configuration of the API's listener. Each handshake uses the current
// certificate.
//
// The cipher suites are Go's defaults. Package httpapi switches HTTP/2 off.
func (f *certificateFiles) tlsConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		current, _ := f.read() // loadCertificate has loaded a certificate, so there is a current one
		return current, nil
	}}
}

// read reloads the certificate if its files changed, and returns the certificate in use. If the
// files cannot be used, read returns an error and the certificate that was loaded last. That
// certificate is nil only if none has been loaded yet.
func (f *certificateFiles) read() (current *tls.Certificate, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	versions, err := f.versions()
	if err == nil && f.current != nil && versions == f.loaded {
		return f.current, nil
	}
	var pair tls.Certificate
	if err == nil {
		// The error of LoadX509KeyPair is replaced, because it could quote the private key.
		if pair, err = tls.LoadX509KeyPair(f.certificate, f.key); err != nil {
			err = errors.New("the files do not hold a certificate and its key as PEM")
		}
	}
	switch {
	case err == nil:
		if f.current != nil {
			f.log.Info("TLS certificate reloaded", "file", f.certificate)
		}
		f.current, f.loaded, f.loggedError = &pair, versions, ""
	case f.current == nil:
		err = fmt.Errorf("TLS: %w", err)
	case f.loggedError != err.Error():
		f.loggedError = err.Error()
		f.log.Error("the changed TLS certificate cannot be used; the earlier one stays in use", "file", f.certificate, "error", err)
	}
	return f.current, err
}

// fileVersion identifies the content of a file. It includes the size, because two writes in quick
// succession can have the same modification time.
type fileVersion struct {
	modTime time.Time
	size    int64
}

// versions returns the current versions of the certificate file and the key file. It fails when
// Stat fails for one of them.
func (f *certificateFiles) versions() (versions [2]fileVersion, err error) {
	for i, name := range []string{f.certificate, f.key} {
		info, err := os.Stat(name)
		if err != nil {
			return versions, err
		}
		versions[i] = fileVersion{info.ModTime(), info.Size()}
	}
	return versions, nil
}
