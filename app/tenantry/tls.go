// SPDX-License-Identifier: Apache-2.0

package main

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

// tlsConfig returns the TLS configuration of the API's listener, or nil when a proxy does TLS.
// The cipher suites are Go's own choice. HTTP/2 is not offered: what a stop
// promises (stop.go) is promised for the requests of HTTP/1.1.
func tlsConfig(c settings.Config, log *slog.Logger) (*tls.Config, error) {
	if c.TLSCertificateFile == "" {
		return nil, nil
	}
	files := &certificateFiles{certificate: c.TLSCertificateFile, key: c.TLSKeyFile, log: log}
	if _, err := files.get(nil); err != nil {
		return nil, cli.WithFix(err, "tls_certificate_file holds the certificate and its chain, tls_key_file the key of exactly that certificate, both as PEM")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: files.get}, nil
}

// certificateFiles is a certificate that is read again when its files have
// changed. What cannot be used is no outage: the one before stays in use.
type certificateFiles struct {
	certificate, key string
	log              *slog.Logger

	mu        sync.Mutex
	read      [2]seal // the files when they were read
	current   *tls.Certificate
	complaint string // said already
}

// get is asked in each handshake.
func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seals, err := f.seals()
	if err == nil && f.current != nil && seals == f.read {
		return f.current, nil
	}
	var pair tls.Certificate
	if err == nil {
		// The library's words could quote the files.
		if pair, err = tls.LoadX509KeyPair(f.certificate, f.key); err != nil {
			err = errors.New("the files do not hold a certificate and its key as PEM")
		}
	}
	switch {
	case err == nil:
		if f.current != nil {
			f.log.Info("TLS certificate reloaded", "file", f.certificate)
		}
		f.current, f.read, f.complaint = &pair, seals, ""
	case f.current == nil:
		return nil, fmt.Errorf("TLS: %w", err)
	case f.complaint != err.Error():
		f.complaint = err.Error()
		f.log.Error("the TLS certificate has changed and cannot be used; the one read before stays in use", "file", f.certificate, "error", err)
	}
	return f.current, nil
}

// seal is what tells one content of a file from the next. Two that follow each
// other quickly may have the same time.
type seal struct {
	changed time.Time
	size    int64
}

func (f *certificateFiles) seals() (seals [2]seal, err error) {
	for i, name := range []string{f.certificate, f.key} {
		info, err := os.Stat(name)
		if err != nil {
			return seals, err
		}
		seals[i] = seal{info.ModTime(), info.Size()}
	}
	return seals, nil
}
