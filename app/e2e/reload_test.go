// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// inUse is a server on which a tenant is connected.
func inUse(t *testing.T, r *rig, more ...string) (*process, holding) {
	t.Helper()
	env := append(r.env(t.TempDir(), ""), more...)
	_, key := r.account(env, "owner@example.com", "complete", 0)
	p, c := r.serve(env)
	c.ready.APIKey = key
	guid, admin := r.tenant(c)
	newAdministrator(t, admin).connects(c, key)
	return p, holding{caller: caller{c, "", "owner@example.com", key}, guid: guid}
}

// replaced writes a file as one should: beside it, then in its place.
func replaced(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// provenBy says by which certificate the last token was asked for.
func (r *rig) provenBy() (thumbprint string) {
	for _, q := range r.requests() {
		form, err := url.ParseQuery(string(q.body))
		if err != nil || !strings.HasSuffix(q.path, "/oauth2/v2.0/token") || form.Get("client_assertion") == "" {
			continue
		}
		header, _, _ := strings.Cut(form.Get("client_assertion"), ".")
		raw, _ := base64.RawURLEncoding.DecodeString(header)
		var named struct {
			Sum string `json:"x5t#S256"`
		}
		_ = json.Unmarshal(raw, &named)
		thumbprint = named.Sum
	}
	return thumbprint
}

func thumbprint(public []byte) string {
	block, _ := pem.Decode(public)
	sum := sha256.Sum256(block.Bytes)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// TestCertificateIsReplacedWhileServing: the next token is asked for with the
// new certificate. Half a file and no file change nothing.
func TestCertificateIsReplacedWhileServing(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, release))
	file := filepath.Join(t.TempDir(), "certificate.pem")
	r.settings["client_certificate_file"] = file
	certificate := func() (public, both []byte) {
		public, private := testserver.SelfSigned(t)
		client{t: t, ready: sandbox.Ready{ControlURL: r.url + "/_control"}}.control("POST", "/app", object{"certificate": string(public)})
		return public, append(append([]byte{}, public...), private...)
	}
	first, both := certificate()
	replaced(t, file, both)
	p, h := inUse(t, r)
	failures := func(want string) {
		t.Helper()
		metrics := h.do("GET", h.ready.AdminURL+"/metrics", "", nil).raw
		line := `tenantry_credential_reload_failures_total{credential="client_certificate_file",provider="microsoft365"} `
		if !bytes.Contains(metrics, []byte(line+want+"\n")) {
			t.Errorf("not counted as %s", want)
		}
	}
	failures("0")
	h.synced()
	if got := r.provenBy(); got != thumbprint(first) {
		t.Errorf("the first token was asked for by %q", got)
	}
	second, both := certificate()
	replaced(t, file, both)
	h.synced()
	if got := r.provenBy(); got != thumbprint(second) {
		t.Errorf("after the file was replaced a token was asked for by %q", got)
	}
	third, both := certificate()
	if err := os.WriteFile(file, both[:len(both)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	h.synced()
	h.synced()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	h.synced()
	if got := r.provenBy(); got != thumbprint(second) {
		t.Errorf("with a broken file a token was asked for by %q", got)
	}
	replaced(t, file, both)
	h.synced()
	if got := r.provenBy(); got != thumbprint(third) {
		t.Errorf("after the file was mended a token was asked for by %q", got)
	}
	logs := p.logs.String()
	if n := strings.Count(logs, "the one read before stays in use"); n != 2 {
		t.Errorf("%d complaints about two troubles", n)
	}
	if bytes.Contains([]byte(logs), both[:len(both)/2][:200]) || strings.Contains(logs, "PRIVATE KEY") {
		t.Error("the file is in the log")
	}
	failures("2")
}

// TestSecretIsReplacedWhileServing: the platform takes the old secret no more,
// and the new one is used as soon as it is in the file.
func TestSecretIsReplacedWhileServing(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, release))
	_, h := inUse(t, r)
	h.synced()
	h.control("POST", "/app", object{"expire_secret": true})
	raw, err := os.ReadFile(filepath.Join(r.platform, "app.json"))
	if err != nil {
		t.Fatal(err)
	}
	var app struct{ Secret string }
	if err := json.Unmarshal(raw, &app); err != nil || app.Secret == "" {
		t.Fatalf("the simulator's application: %v", err)
	}
	replaced(t, r.settings["client_secret_file"], []byte(app.Secret+"\n"))
	h.synced()
	if err := os.Truncate(r.settings["client_secret_file"], 0); err != nil {
		t.Fatal(err)
	}
	h.synced()
}
