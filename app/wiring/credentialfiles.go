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

	"github.com/tenantry/tenantry/core/secret"
)

// CredentialFiles reads credential files. It reads a file again for each call of a provider and for
// each scrape of the metrics, so that a replaced file takes effect at once. When a file that was
// valid becomes invalid, its last valid content stays in use.
type CredentialFiles struct {
	log *slog.Logger

	mu    sync.Mutex
	files map[credentialSetting]*credentialFile
}

// credentialSetting is a setting that names a credential file of a provider.
type credentialSetting struct{ provider, name string }

type credentialFile struct {
	path      string
	lastValid secret.Text
	readError string // the error of the last read; empty after a valid read
}

// read returns the content of a credential file, or its last valid content. It fails when the
// file is invalid and never was valid. An empty path returns an empty text.
func (f *CredentialFiles) read(ctx context.Context, provider, setting, path string) (secret.Text, error) {
	if path == "" {
		return secret.Text{}, nil
	}
	key := credentialSetting{provider, setting}
	f.add(key, path)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reread(ctx, key)
}

// add registers the file of a setting. states returns the states of all registered files, also of
// those that no call has read yet.
func (f *CredentialFiles) add(setting credentialSetting, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		f.files = map[credentialSetting]*credentialFile{}
	}
	if f.files[setting] == nil {
		f.files[setting] = &credentialFile{path: path}
	}
}

// reread does the work of read for a file of f.files. The caller holds f.mu.
func (f *CredentialFiles) reread(ctx context.Context, setting credentialSetting) (secret.Text, error) {
	file := f.files[setting]
	previousError := file.readError
	text, err := readCredentialFile(file.path, file.lastValid)
	if err == nil {
		if !file.lastValid.Empty() && file.lastValid.Reveal() != text.Reveal() {
			f.log.InfoContext(ctx, "credential reloaded", "provider", setting.provider, "setting", setting.name, "file", file.path)
		}
		file.lastValid, file.readError = text, ""
		return text, nil
	}
	file.readError = err.Error()
	if file.lastValid.Empty() {
		return secret.Text{}, err
	}
	// An error is logged only when it differs from the previous error of the file.
	if file.readError != previousError {
		f.log.ErrorContext(ctx, "the changed credential file cannot be used; its earlier content stays in use",
			"provider", setting.provider, "setting", setting.name, "file", file.path, "error", err)
	}
	return file.lastValid, nil
}

// credentialState is the state of a credential file.
type credentialState struct {
	inUse  secret.Text // the last valid content; empty if the file never was valid
	usable bool        // false if the file is invalid now
}

// states reads each registered file and returns its state.
func (f *CredentialFiles) states(ctx context.Context) map[credentialSetting]credentialState {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := map[credentialSetting]credentialState{}
	for setting, file := range f.files {
		_, _ = f.reread(ctx, setting) // the error is in file.readError
		states[setting] = credentialState{inUse: file.lastValid, usable: file.readError == ""}
	}
	return states
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

// expiryDates returns, by setting, the times at which credentials expire. It reads them from the
// settings whose names end in `_expires`. A credential is valid until the end of the day that is
// set (UTC).
func expiryDates(settings map[string]string) map[string]time.Time {
	expiries := map[string]time.Time{}
	for name, value := range settings {
		if day, err := time.Parse(time.DateOnly, value); err == nil && strings.HasSuffix(name, "_expires") {
			expiries[name] = day.AddDate(0, 0, 1)
		}
	}
	return expiries
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
