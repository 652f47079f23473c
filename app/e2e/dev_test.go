// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/app/cli"
)

// TestReadyLine: everything that a program needs is in the line, and in the
// file for shells, which its owner alone may read.
func TestReadyLine(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	_, r := startDev(t, binary(t, release), data, nil)
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var shown object
	if err := json.Unmarshal(line, &shown); err != nil {
		t.Fatal(err)
	}
	has(t, "ready line", shown, "api_url api_key account_id user_email admin_url control_url dns_addr zones tenants sending")
	sees(t, shown, object{"user_email": "owner@example.com"})
	for _, name := range []string{"instantly", "plusvibe", "smartlead", "salesblink", "emailbison"} {
		customer, _ := r.Sending[name].(map[string]any)
		if key, _ := customer["api_key"].(string); key == "" {
			t.Errorf("nobody is a customer of %s: %v", name, r.Sending)
		}
	}
	if len(r.Zones) != 12 || r.Zones[0] != "example-one.test" || r.Zones[11] != "example-twelve.test" || len(r.Tenants) == 0 {
		t.Errorf("zones %v, tenants %v", r.Zones, r.Tenants)
	}
	has(t, "tenant", shown.objects("tenants")[0], "tenant_id admin name")
	for _, address := range []string{r.APIURL, r.AdminURL, r.ControlURL} {
		if u, err := url.Parse(address); err != nil || u.Hostname() != "127.0.0.1" || u.Port() == "8080" {
			t.Errorf("%s is not a free port of this machine", address)
		}
	}
	for _, name := range []string{"env", "api-key.json"} {
		found := false
		err := filepath.WalkDir(data, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.Name() != name {
				return err
			}
			info, err := d.Info()
			if found = true; err == nil && info.Mode().Perm() != 0o600 {
				t.Errorf("%s is readable by others: %v", name, info.Mode())
			}
			return err
		})
		if err != nil || !found {
			t.Errorf("%s: found %v, %v", name, found, err)
		}
	}
}

// TestDevGoesOn: started again on its folder, even after SIGKILL, the sandbox
// has what it had, at the service and at the platform.
func TestDevGoesOn(t *testing.T) {
	t.Parallel()
	b, data := binary(t, release), t.TempDir()
	p, first := startDev(t, b, data, nil)
	c := ownerAt(t, first)
	h := holding{c, first.Tenants[0].TenantID, first.Tenants[0].Admin}
	h.behave(quick())
	h.connect()
	h.synced()
	h.post(h.path("/domains"), object{"domain": first.Zones[0]})
	h.publish(first.Zones[0])
	h.post(h.domain(first.Zones[0], "/verify"), nil)
	before := remembered(h)

	p.kill()
	p, second := startDev(t, b, data, nil)
	if second.APIKey != first.APIKey || second.AccountID != first.AccountID || !slices.Equal(second.Zones, first.Zones) {
		t.Errorf("key, account or zones changed")
	}
	if slices.ContainsFunc(second.Tenants, func(s sandbox.Tenant) bool { return s.TenantID == h.guid }) || len(second.Tenants) != len(first.Tenants) {
		t.Errorf("the tenants that wait: %v", second.Tenants)
	}
	h.ready, h.key = second, second.APIKey
	after := remembered(h)
	for name := range before {
		if !strings.HasPrefix(after[name], before[name]) {
			t.Errorf("%s was\n%s\nand is\n%s", name, before[name], after[name])
		}
	}
	h.synced()
	sees(t, h.post(h.path("/mailboxes"), boxes(first.Zones[0], "ada")).object, object{"created_count": 1})

	rotated := h.post("/api-key/rotate?user_email="+h.email, nil).text("api_key")
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	_, third := startDev(t, b, data, nil)
	if third.APIKey == first.APIKey || third.APIKey == rotated || third.AccountID != first.AccountID {
		t.Error("after a rotation the key is not a new one of the same account")
	}
	h.ready, h.key = third, third.APIKey
	h.listsTenants(h.guid)
	h.key = rotated
	h.listsTenants(h.guid)
	h.key = first.APIKey
	h.expect("GET", "/v1/tenants", nil, http.StatusUnauthorized, "invalid_api_key")
}

// remembered is what must be the same after a restart. The journal may only
// have grown.
func remembered(h holding) map[string]string {
	h.t.Helper()
	zone := "/zones/example-one.test/records"
	return map[string]string{
		"tenant":   string(h.get(h.path("")).raw),
		"domains":  string(h.get(h.path("/domains")).raw),
		"platform": string(h.control("GET", "/tenants/"+h.guid, nil).raw),
		"zone":     string(h.control("GET", zone, nil).raw),
		"journal":  strings.TrimRight(string(h.control("GET", "/calls?provider=microsoft365", nil).raw), "]\n"),
	}
}

func TestNoSeed(t *testing.T) {
	t.Parallel()
	_, r := startDev(t, binary(t, release), t.TempDir(), nil, "--no-seed")
	if r.Zones == nil || r.Tenants == nil || len(r.Zones)+len(r.Tenants) != 0 || r.APIKey == "" || r.AccountID == "" {
		t.Errorf("zones %v, tenants %v", r.Zones, r.Tenants)
	}
	ownerAt(t, r).listsTenants()
}

// TestClockSurvives: a clock that was moved stays so, as stored times would
// else lie in the future.
func TestClockSurvives(t *testing.T) {
	t.Parallel()
	b, data := binary(t, release), t.TempDir()
	p, r := startDev(t, b, data, nil, "--no-seed")
	c := ownerAt(t, r)
	c.control("POST", "/clock", object{"advance": "240h"})
	before := c.get("/v1/tenants/connect-url").text("expires_at")
	p.kill()
	_, c.ready = startDev(t, b, data, nil, "--no-seed")
	if after := c.get("/v1/tenants/connect-url").text("expires_at"); after < before {
		t.Errorf("links expired at %s and expire at %s", before, after)
	}
}

func TestDevListensOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--listen", "0.0.0.0:0"}, {"--listen", ":0"}, {"--listen", "192.0.2.1:80"}, {"--listen", "nonsense"}, {"--limits", "on"}, {"extra"},
	} {
		operate(t, nil, append([]string{"dev", "--data", t.TempDir()}, args...)...).fails(t, cli.ExitUsage)
	}
}
