// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/wiring"
)

// toldAbout runs the main job and a call that the platform does not answer,
// and gives the spans, metrics and log lines that came of it.
func toldAbout(t *testing.T, env ...string) (customer map[string]string, spans, metrics, logs []byte) {
	t.Helper()
	o, r := newReceiver(t), newRig(t, binary(t, release))
	const token = "not-a-token-of-anybody"
	env = append(append(r.env(t.TempDir(), ""), o.env()...), env...)
	env = append(env, "TENANTRY_PROVIDERS_CLOUDFLARE_API_URL="+testserver.Cloudflare(t, "told.test"))
	id, key := r.account(env, "owner@example.com", "complete", 0)
	r.command(env, "dns-connection", "add", "--account", id, "--provider", "cloudflare", "--credential-file", fileWith(t, token, 0o600))
	p, c := r.serve(env)
	c.ready.APIKey = key
	guid, admin := r.tenant(c)
	newAdministrator(t, admin).connects(c, key)
	h := holding{caller: caller{c, "", "owner@example.com", key}, guid: guid}
	h.synced()
	if err := r.zones.Add("told.test", "manual"); err != nil {
		t.Fatal(err)
	}
	h.post(h.path("/domains"), object{"domain": "told.test"})
	h.publish("told.test")
	h.post(h.domain("told.test", "/verify"), nil)
	h.get("/v1/domains/" + h.get(h.path("/domains")).objects("domains")[0].text("id") + "/dns/plan")
	h.post(h.path("/mailboxes"), boxes("told.test", "ada", "max"))
	c.control("POST", "/faults", object{"provider": wiring.MailPlatform, "kind": "status", "status": 500, "times": 100})
	h.expect("POST", h.path("/sync"), nil, http.StatusBadGateway, "provider_error")
	metrics = c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw
	if err := p.stop(); err != nil { // which sends the last spans
		t.Fatal(err)
	}
	_, raw := o.all(t)
	for place, told := range map[string][]byte{"spans": bytes.Join(raw, nil), "metrics": metrics, "logs": []byte(p.logs.String())} {
		if bytes.Contains(told, []byte(token)) {
			t.Errorf("the credential of a DNS provider is in the %s", place)
		}
	}
	return map[string]string{"domain": "told.test", "address": "ada@told.test", "tenant": guid}, bytes.Join(raw, nil), metrics, []byte(p.logs.String())
}

// TestCustomerDataInSpansBySetting: only spans carry it, and only where the
// operator wants that. TestOneTrace shows that none does by default.
func TestCustomerDataInSpansBySetting(t *testing.T) {
	t.Parallel()
	customer, spans, metrics, logs := toldAbout(t, "TENANTRY_TRACE_CUSTOMER_DATA=true")
	for name, value := range customer {
		if !bytes.Contains(spans, []byte(value)) {
			t.Errorf("no span carries the %s", name)
		}
	}
	for place, data := range map[string][]byte{"metrics": metrics, "logs": logs} {
		if found := leaks(data, customer); len(found) > 0 {
			t.Errorf("customer data in %s: %v", place, found)
		}
	}
}

// TestTroubleIsTold: a call that brought no answer is a line with what an SRE
// looks for, a span with an error and a point by its outcome; customers are
// named in none of them.
func TestTroubleIsTold(t *testing.T) {
	t.Parallel()
	customer, spans, metrics, logs := toldAbout(t)
	for place, data := range map[string][]byte{"spans": spans, "metrics": metrics, "logs": logs} {
		if found := leaks(data, customer); len(found) > 0 {
			t.Errorf("customer data in %s: %v", place, found)
		}
	}
	line := regexp.MustCompile(`"level":"WARN","msg":"provider call brought no answer","provider":"microsoft365","operation":"\w+","outcome":"\w+",` +
		`"cause":"\w+","duration_ms":[0-9.e-]+,"request_id":"[^"]+","trace_id":"[0-9a-f]{32}"`)
	if !line.Match(logs) {
		t.Errorf("no line of a failed call in: %s", logs)
	}
	for _, series := range []string{
		`tenantry_provider_call_duration_seconds_count{operation="create_mailbox",outcome="done",provider="microsoft365"} 2`,
		`http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="502",http_route="/v1/tenants/{tenant_id}/sync"} 1`,
		`tenantry_circuits{domain="tenant",provider="microsoft365",state="closed"} `,
		`tenantry_provider_call_duration_seconds_count{operation="zone",outcome="done",provider="cloudflare"} `,
		`tenantry_circuits{domain="credential",provider="cloudflare",state="closed"} 1`,
		`tenantry_circuits{domain="credential",provider="powerdns",state="open"} 0`,
		`tenantry_plugin_state{plugin="microsoft365",state="running"} 1`, `tenantry_plugin_restarts_total{plugin="microsoft365"} 0`,
		`tenantry_database_up 1`, `db_client_operation_duration_seconds_count{db_operation_name="SELECT",db_system_name="sqlite"} `,
		`tenantry_build_info{commit="`, `go_goroutines `, `process_resident_memory_bytes `, `go_sql_connections_in_use{db_system="sqlite"} `,
	} {
		if !bytes.Contains(metrics, []byte("\n"+series)) {
			t.Errorf("the metrics lack %s", series)
		}
	}
	if !bytes.Contains(spans, []byte("cloudflare zone")) {
		t.Error("no span of a DNS provider's call")
	}
	if broken := regexp.MustCompile(`outcome="(broken|down|unknown)",provider="microsoft365"} [1-9]`); !broken.Match(metrics) {
		t.Error("no point of a failed call")
	}
	if bytes.Contains(metrics, []byte("otel_scope")) || bytes.Contains(metrics, []byte("plugin-dir")) {
		t.Error("labels that make series without an end")
	}
}

// TestReadyInWords: a broken vendor is shown and leaves the service ready, a
// database that is gone does not.
func TestReadyInWords(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, release))
	env := r.env(t.TempDir(), "")
	_, key := r.account(env, "owner@example.com", "complete", 0)
	_, c := r.serve(append(env, "TENANTRY_CIRCUIT_OPEN=5m"))
	c.ready.APIKey = key
	guid, admin := r.tenant(c)
	newAdministrator(t, admin).connects(c, key)
	look := func() (int, string) {
		got := c.do("GET", c.ready.AdminURL+"/readyz?verbose", "", nil)
		return got.status, string(got.raw)
	}
	if status, words := look(); status != 200 || words != strings.Join([]string{
		"[+] stop: ok", "[+] database: ok", "[+] plugin cloudflare: ok", "[+] plugin emailbison: ok", "[+] plugin instantly: ok",
		"[+] plugin microsoft365: ok", "[+] plugin plusvibe: ok", "[+] plugin powerdns: ok", "[+] plugin rfc2136: ok",
		"[+] plugin salesblink: ok", "[+] plugin smartlead: ok", "[+] circuits of microsoft365: ok", "readyz: ready\n",
	}, "\n") {
		t.Errorf("%d: %s", status, words)
	}
	c.control("POST", "/faults", object{"provider": wiring.MailPlatform, "kind": "status", "status": 500, "times": 1000})
	for range 4 {
		c.api("POST", "/v1/tenants/"+guid+"/sync", nil)
	}
	status, words := look()
	if status != 200 || !strings.Contains(words, "[!] circuits of microsoft365: open for the login host: ") || !strings.HasSuffix(words, "readyz: ready\n") {
		t.Errorf("%d: %s", status, words)
	}
	if got := c.do("GET", c.ready.AdminURL+"/readyz", "", nil); got.status != 200 || string(got.raw) != "ok\n" {
		t.Errorf("%d: %s", got.status, got.raw)
	}
	for _, call := range []string{"POST /readyz", "DELETE /metrics"} {
		method, path, _ := strings.Cut(call, " ")
		if got := c.do(method, c.ready.AdminURL+path, "", nil); got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", call, got.status)
		}
	}
}
