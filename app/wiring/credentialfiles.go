// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/secret"
)

// CredentialFiles reads credential files. It reads a file again for each call of a provider, so
// that a replaced file takes effect at once. When a file that was valid becomes invalid, its last
// valid content stays in use.
type CredentialFiles struct {
	log *slog.Logger

	mu       sync.Mutex
	files    map[string]*credentialFile // by path
	failures metric.Int64Counter
}

type credentialFile struct {
	lastValid   secret.Text
	loggedError string // the error that was logged last; empty after a valid read
}

// read returns the content of a credential file, or its last valid content. It fails when the
// file is invalid and never was valid. An empty path returns an empty text.
func (f *CredentialFiles) read(ctx context.Context, provider, setting, path string) (secret.Text, error) {
	if path == "" {
		return secret.Text{}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files[path] == nil {
		if f.files == nil {
			f.files = map[string]*credentialFile{}
		}
		f.files[path] = &credentialFile{}
	}
	file := f.files[path]
	text, err := readCredentialFile(path, file.lastValid)
	switch {
	case err == nil:
		if !file.lastValid.Empty() && file.lastValid.Reveal() != text.Reveal() {
			f.log.InfoContext(ctx, "credential reloaded", "provider", provider, "setting", setting, "file", path)
		}
		file.lastValid, file.loggedError = text, ""
		return text, nil
	case file.lastValid.Empty():
		return secret.Text{}, err
	}
	// An error is logged and counted only when it differs from the previous error of the file.
	if file.loggedError != err.Error() {
		file.loggedError = err.Error()
		f.log.ErrorContext(ctx, "the changed credential file cannot be used; its earlier content stays in use",
			"provider", provider, "setting", setting, "file", path, "error", err)
		f.addFailures(ctx, 1, provider, setting)
	}
	return file.lastValid, nil
}

// initFailureCounter sets the failure counter of each configured file to 0, so that Prometheus sees
// the first failure as an increase.
func (f *CredentialFiles) initFailureCounter(ctx context.Context, provider string, settings map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for setting, path := range settings {
		if strings.HasSuffix(setting, "_file") && path != "" {
			f.addFailures(ctx, 0, provider, setting)
		}
	}
}

// addFailures adds n to the failure counter of a setting. The caller holds f.mu.
func (f *CredentialFiles) addFailures(ctx context.Context, n int64, provider, setting string) {
	if f.failures == nil {
		var err error
		f.failures, err = otel.Meter(meterName).Int64Counter("tenantry.credential.reload.failures",
			metric.WithDescription("How often a credential file changed and could not be used, by provider and setting."))
		if err != nil {
			return
		}
	}
	f.failures.Add(ctx, n, metric.WithAttributes(attribute.String("provider", provider), attribute.String("credential", setting)))
}

// readCredentialFile reads a file and rejects content that is recognizably incomplete. When the
// file begins like PEM, or its last valid content was PEM, it must contain a certificate and its
// key. Otherwise the beginning of a PEM file that is still being written could be used as a secret.
func readCredentialFile(path string, lastValid secret.Text) (secret.Text, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return secret.Text{}, err
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return secret.Text{}, errors.New("the file is empty")
	}
	const pemPrefix = "-----BEGIN"
	if lastBlock, _ := pem.Decode([]byte(lastValid.Reveal())); lastBlock != nil || strings.HasPrefix(string(raw), pemPrefix) {
		// The error of crypto/tls is dropped because it could quote the file.
		if _, err := tls.X509KeyPair(raw, raw); err != nil {
			return secret.Text{}, errors.New("the file does not hold a certificate and its private key as PEM")
		}
	}
	return secret.New(string(raw)), nil
}

// credentialExpiries returns the times at which a provider's credentials expire, by setting.
// Credentials without a known expiry are left out.
func credentialExpiries(settings map[string]string) map[string]time.Time {
	expiries := map[string]time.Time{}
	for name, value := range settings {
		switch {
		case strings.HasSuffix(name, "_expires"):
			if day, err := time.Parse(time.DateOnly, value); err == nil {
				expiries[name] = day.AddDate(0, 0, 1)
			}
		case strings.HasSuffix(name, "certificate_file"):
			raw, err := os.ReadFile(value)
			if expiry, _ := CertificateExpiry(raw, raw, time.Now()); err == nil && !expiry.IsZero() {
				expiries[name] = expiry
			}
		}
	}
	return expiries
}

// serverCertificateExpiry returns the time at which the certificate of the service's TLS listener
// expires. ok is false when there is no certificate, or when it cannot be read.
func serverCertificateExpiry(c settings.Config) (expiry time.Time, ok bool) {
	chain, chainErr := os.ReadFile(c.TLSCertificateFile)
	key, keyErr := os.ReadFile(c.TLSKeyFile)
	if chainErr != nil || keyErr != nil {
		return expiry, false
	}
	expiry, _ = CertificateExpiry(chain, key, time.Now())
	return expiry, !expiry.IsZero()
}

// CertificateExpiry returns the time at which a certificate expires. If the certificate cannot be
// used at now, it also returns the problem. chain and key are PEM. The time is zero when the pair
// cannot be read or is not valid yet. An expired certificate has both a time and a problem.
func CertificateExpiry(chain, key []byte, now time.Time) (expiry time.Time, problem string) {
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		if block, _ := pem.Decode(chain); block == nil {
			return time.Time{}, "the file has no PEM block"
		}
		return time.Time{}, cmp.Or(strings.TrimPrefix(err.Error(), "tls: "), "it cannot be read")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	switch {
	case err != nil:
		return time.Time{}, "the certificate cannot be read"
	case now.After(leaf.NotAfter):
		return leaf.NotAfter, "the certificate expired on " + leaf.NotAfter.UTC().Format(time.DateOnly)
	case now.Before(leaf.NotBefore):
		return time.Time{}, "the certificate is not valid before " + leaf.NotBefore.UTC().Format(time.DateOnly)
	}
	return leaf.NotAfter, ""
}
