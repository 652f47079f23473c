// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestServeWithoutSettings: a server needs none to start. What needs the mail
// platform says that it is not there, all else works.
func TestServeWithoutSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, release))
	r.settings, r.given = nil, nil
	env := r.env(t.TempDir(), "")
	id, key := r.account(env, "ann@example.com", "complete", 0)
	p, server := r.serve(env)
	c := caller{client: server, id: id, email: "ann@example.com", key: key}
	c.listsTenants()
	got := c.expect("GET", "/v1/tenants/connect-url", nil, 503, "service_unavailable")
	if got.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	c.expect("GET", "/v1/tenants/"+id, nil, 404, "tenant_not_found")
	for path, status := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/nothing": 404} {
		if got := c.do("GET", c.ready.AdminURL+path, "", nil); got.status != status {
			t.Errorf("admin %s: %d", path, got.status)
		}
	}
	for _, call := range []string{"POST /accounts", "POST /tenants", "POST /clock", "POST /faults", "GET /calls?provider=microsoft365", "GET /_control/calls"} {
		method, path, _ := strings.Cut(call, " ")
		for _, base := range []string{c.ready.APIURL, c.ready.AdminURL} {
			if got := c.do(method, base+path, key, nil); got.status != http.StatusNotFound {
				t.Errorf("%s%s answers %d", base, path, got.status)
			}
		}
	}
	if err := p.stop(); err != nil || p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("stop: %v, exit code %d", err, p.cmd.ProcessState.ExitCode())
	}
}

// TestPublicServer: behind TLS the cookie is a __Host- one, and addresses come
// from the setting, never from the Host header.
func TestPublicServer(t *testing.T) {
	t.Parallel()
	const public = "https://tenantry.example"
	r := newRig(t, binary(t, release))
	env := append(r.env(t.TempDir(), ""), "TENANTRY_PUBLIC_URL="+public+"/")
	_, key := r.account(env, "ann@example.com", "complete", 0)
	_, server := r.serve(env)
	_, admin := r.tenant(server)
	server.control("POST", "/app", object{"redirect_uris": []string{public + "/connect/microsoft365/callback", public + "/connect/microsoft365/signin"}})
	c, v := caller{client: server, key: key}, newVisitor(t)
	link := c.raw("GET", "/v1/tenants/connect-url", "", map[string]string{"Host": "attacker.example"}).text("connect_url")
	if !strings.Contains(link, "tenantry.example") || strings.Contains(link, "attacker") {
		t.Errorf("link %s", link)
	}
	callback := v.consents(link, admin, "accept")
	if !strings.HasPrefix(callback, public+"/connect/microsoft365/callback?") {
		t.Fatalf("sent to %s", callback)
	}
	p := v.open(strings.Replace(callback, public, server.ready.APIURL, 1))
	guarded(t, p)
	cookies := (&http.Response{Header: p.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d: cookies %v", p.status, cookies)
	}
	if k := cookies[0]; k.Name != "__Host-tenantry-connect" || !k.Secure || !k.HttpOnly || k.Path != "/" || k.Domain != "" || k.SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie %v", k)
	}
}
