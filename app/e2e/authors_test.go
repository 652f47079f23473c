// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestThePluginOfThePage builds the plugin that docs/plugins.md shows to
// authors, runs the suite that every plugin passes, and lets it run.
func TestThePluginOfThePage(t *testing.T) {
	t.Parallel()
	binary := conformance.Binary{Path: pagePlugin(t)}
	conformance.Plugin(t, binary)
	t.Run("its outcomes", func(t *testing.T) { pageOutcomes(t, binary) })
	t.Run("plugin add", func(t *testing.T) {
		env := []string{"TENANTRY_PLUGIN_DIR=" + t.TempDir()}
		for _, args := range [][]string{{"plugin", "add", binary.Path}, {"plugin", "verify", "acme"}} {
			shown := operate(t, env, append(args, "--output", "json")...).json(t).objects("plugins")
			if len(shown) != 1 || shown[0].text("name") != "acme" || shown[0].text("version") != "1.0.0" {
				t.Errorf("%v: %v", args, shown)
			}
		}
	})
}

// pagePlugin compiles the first Go block of the page as plugins/mail-acme,
// which exists for the compiler alone.
func pagePlugin(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/plugins.md shows no Go code")
	}
	folder := t.TempDir()
	source, binary, overlay := filepath.Join(folder, "main.go"), filepath.Join(folder, "mail-acme"), filepath.Join(folder, "overlay.json")
	place, err := filepath.Abs("../../plugins/mail-acme/main.go")
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(object{"Replace": object{place: source}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{source: block[1], overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"gofmt", "-d", source}, {"go", "build", "-overlay", overlay, "-o", binary, "../../plugins/mail-acme"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return binary
}

// pageOutcomes has Acme answer with each status that the page speaks of.
func pageOutcomes(t *testing.T, binary conformance.Binary) {
	acme := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-acme" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		status := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/tenants/answer-%d", &status)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `{"Name": "Acme's tenant", "BuiltinDomain": "a.acme.example", "DefaultDomain": "a.example"}`)
	}))
	defer acme.Close()
	platform := func(token string) sdk.MailPlatform {
		return conformance.Platform(binary.Start(t), sdk.Connection{
			Settings: map[string]string{"api_url": acme.URL}, Secrets: map[string]sdk.Secret{"api_token": secret.New(token)},
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p := platform("of-acme")
	for id, want := range map[tenant.GUID]outcome.Kind{
		"answer-200": 0, "answer-403": outcome.Refused, "answer-429": outcome.Throttled, "answer-503": outcome.Down, "answer-500": outcome.Broken,
	} {
		profile, err := p.For(id).Profile(ctx)
		if outcome.Of(err) != want || (err == nil) != (profile.Name == "Acme's tenant") {
			t.Errorf("%s: %v %v", id, profile, err)
		}
	}
	if _, err := platform("another").For("answer-200").Profile(ctx); outcome.Of(err) != outcome.Refused {
		t.Errorf("with another token: %v", err)
	}
	if _, err := p.For("answer-200").Domains(ctx); outcome.Of(err) != outcome.Broken {
		t.Errorf("a method that is not written: %v", err)
	}
	acme.Close()
	if _, err := p.For("answer-200").Profile(ctx); outcome.Of(err) != outcome.Down {
		t.Errorf("nobody listens: %v", err)
	}
}
