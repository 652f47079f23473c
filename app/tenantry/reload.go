// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/core/secret"
)

// credentialFiles reads credential files anew for each call, so that a
// replaced one is used at once. A file that was good and then cannot be used
// is no outage: what was read before stays in use.
type credentialFiles struct {
	log *slog.Logger

	mu     sync.Mutex
	known  map[string]*credential // by path
	failed metric.Int64Counter
}

type credential struct {
	good      secret.Text
	complaint string // said already
}

// read gives the content of a credential file. Of a setting that names no
// file it is empty.
func (f *credentialFiles) read(ctx context.Context, provider, setting, path string) (secret.Text, error) {
	if path == "" {
		return secret.Text{}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[path] == nil {
		if f.known == nil {
			f.known = map[string]*credential{}
		}
		f.known[path] = &credential{}
	}
	c := f.known[path]
	text, err := whole(path, c.good)
	switch {
	case err == nil:
		if !c.good.Empty() && c.good.Reveal() != text.Reveal() {
			f.log.InfoContext(ctx, "credential reloaded", "provider", provider, "setting", setting, "file", path)
		}
		c.good, c.complaint = text, ""
		return text, nil
	case c.good.Empty():
		return secret.Text{}, err
	}
	// Once for each thing that is wrong, not for each call.
	if c.complaint != err.Error() {
		c.complaint = err.Error()
		f.log.ErrorContext(ctx, "the credential file has changed and cannot be used; the one read before stays in use",
			"provider", provider, "setting", setting, "file", path, "error", err)
		f.count(ctx, 1, provider, setting)
	}
	return c.good, nil
}

// expect begins to count the failures of the files that are set. Who watches a
// counter sees no step from nothing to 1.
func (f *credentialFiles) expect(ctx context.Context, provider string, settings map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for setting, path := range settings {
		if strings.HasSuffix(setting, "_file") && path != "" {
			f.count(ctx, 0, provider, setting)
		}
	}
}

func (f *credentialFiles) count(ctx context.Context, failures int64, provider, setting string) {
	if f.failed == nil {
		var err error
		f.failed, err = otel.Meter("github.com/tenantry/tenantry/app/tenantry").Int64Counter("tenantry.credential.reload.failures",
			metric.WithDescription("Credential files that changed into something that cannot be used, by provider and setting."))
		if err != nil {
			return
		}
	}
	f.failed.Add(ctx, failures, metric.WithAttributes(attribute.String("provider", provider), attribute.String("credential", setting)))
}

// whole reads a file and refuses what is recognizably a part of one. Where
// there was PEM, half of a PEM file is not taken for a secret.
func whole(path string, before secret.Text) (secret.Text, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return secret.Text{}, err
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return secret.Text{}, errors.New("the file is empty")
	}
	const begin = "-----BEGIN"
	if was, _ := pem.Decode([]byte(before.Reveal())); was != nil || strings.HasPrefix(string(raw), begin) {
		// The library's words could quote the file.
		if _, err := tls.X509KeyPair(raw, raw); err != nil {
			return secret.Text{}, errors.New("the file does not hold a certificate and its private key as PEM")
		}
	}
	return secret.New(string(raw)), nil
}
