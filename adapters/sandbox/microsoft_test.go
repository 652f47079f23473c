// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// bundledPlugin creates a plugin directory with one of the real plugins.
func bundledPlugin(t *testing.T, kind, name string) string {
	t.Helper()
	dir := t.TempDir()
	programPath := testserver.Program(t, "release/plugins/"+kind+"-"+name)
	must(t, os.Symlink(programPath, filepath.Join(dir, kind+"-"+name)))
	program, err := os.ReadFile(programPath)
	must(t, err)
	sum := sha256.Sum256(program)
	catalog := fmt.Sprintf(`{"plugins":[{"name":%q,"kind":%q,"file":"%[2]s-%[1]s","sha256":%[3]q,"version":"1"}]}`, name, kind, hex.EncodeToString(sum[:]))
	must(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(catalog), 0o600))
	return dir
}

// realConsent is the fake service with the consent URLs of the simulator of Microsoft 365.
type realConsent struct {
	*service
	environment *sandbox.Environment
}

func (c realConsent) ConsentURL(_ context.Context, state, redirect string) (string, error) {
	settings := c.environment.Settings()["microsoft365"]
	return settings["login_url"] + "/organizations/v2.0/adminconsent?" + url.Values{
		"client_id": {settings["client_id"]}, "scope": {"https://graph.microsoft.com/.default"}, "state": {state}, "redirect_uri": {redirect},
	}.Encode(), nil
}

func TestControlOfTheMicrosoftSimulator(t *testing.T) {
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: bundledPlugin(t, "mail", "microsoft365"), MailPlatform: "microsoft365", Seed: true})
	service := newService(t)
	services := service.services(env)
	services.Consent = realConsent{service, env}
	ready, err := env.Open(t.Context(), services)
	must(t, err)
	if len(ready.Tenants) != 3 || !strings.HasPrefix(ready.Tenants[0].Admin, "admin") || env.Secrets()["microsoft365"]["client_secret"].Empty() {
		t.Fatalf("the tenants are %+v, want 3 with administrators; or the client secret is empty", ready.Tenants)
	}
	tenantID := ready.Tenants[0].TenantID
	for _, tc := range []struct {
		call, body string
		wantStatus int
		wantText   string
	}{
		{"GET /tenants/" + tenantID, ``, http.StatusOK, `"consent":"none"`},
		{"POST /tenants/" + tenantID + "/behaviour", `{"consent_ms":0,"role_ms":0}`, http.StatusOK, `{}`},
		{"POST /tenants/" + tenantID + "/behaviour", `{"moon_ms":0}`, http.StatusBadRequest, `error`},
		{"POST /managed", `{"tenant_id":"` + tenantID + `","account_id":"` + ready.AccountID + `"}`, http.StatusOK, `{}`},
		{"GET /tenants/" + tenantID, ``, http.StatusOK, `"consent":"granted"`},
		{"GET /calls?provider=microsoft365", ``, http.StatusOK, `adminconsent`},
		{"DELETE /calls", ``, http.StatusOK, `{}`},
		{"GET /calls?provider=microsoft365", ``, http.StatusOK, `[]`},
		{"POST /tenants/" + tenantID + "/revoke", `{}`, http.StatusOK, `{}`},
		{"GET /tenants/" + tenantID, ``, http.StatusOK, `"consent":"revoked"`},
		{"POST /faults", `{"provider":"microsoft365","kind":"status","status":503,"times":1}`, http.StatusOK, `{}`},
		{"POST /faults", `{"provider":"microsoft365","kind":"boom","times":1}`, http.StatusBadRequest, `error`},
		{"DELETE /faults", ``, http.StatusOK, `{}`},
		{"POST /clock", `{"advance":"1h"}`, http.StatusOK, `{}`},
		{"POST /tenants", `{"bootstrap":"denied","smtp_auth":"refused"}`, http.StatusOK, `"tenant_id"`},
		{"POST /tenants", ``, http.StatusOK, `"admin"`},
		{"DELETE /tenants/" + tenantID, ``, http.StatusBadRequest, `error`},
		{"GET /tenants/" + tenantID + "/revoke", ``, http.StatusBadRequest, `error`},
		{"GET /tenants/" + tenantID + "/moon", ``, http.StatusNotFound, `error`},
		{"GET /tenants/nobody", ``, http.StatusNotFound, `error`},
		{"POST /tenants/" + tenantID + "/revoke", `{} {}`, http.StatusBadRequest, `error`},
		{"POST /tenants", `null`, http.StatusBadRequest, `error`},
		{"POST /tenants/" + tenantID + "/revoke", `{}}`, http.StatusBadRequest, `error`},
		{"GET /messages", ``, http.StatusBadRequest, `error`},
		{"POST /messages", `{"mailbox":"a@b.c","count":1}`, http.StatusNotFound, `error`},
		{"POST /messages", `{"mailbox":"` + ready.Tenants[0].Admin + `","count":26}`, http.StatusOK, `{}`},
		{"POST /messages", `{"mailbox":"` + ready.Tenants[0].Admin + `","count":1,"at":"2026-11-02T09:00:00Z"}`, http.StatusOK, `{}`},
		{"POST /messages", `{"mailbox":"` + ready.Tenants[0].Admin + `","count":0}`, http.StatusBadRequest, `error`},
		{"POST /tenants/" + tenantID + "/behaviour", `{"rule_ms":1800000,"trace_ms":300000}`, http.StatusOK, `{}`},
		{"GET /tenants/" + tenantID, ``, http.StatusOK, `"rules":[]`},
	} {
		method, path, _ := strings.Cut(tc.call, " ")
		if status, body := sendRequest(t, method, ready.ControlURL+path, tc.body); status != tc.wantStatus || !strings.Contains(body, tc.wantText) {
			t.Fatalf("%s: got %d %s, want %d %s", tc.call, status, body, tc.wantStatus, tc.wantText)
		}
	}
}
