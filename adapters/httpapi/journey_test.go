// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The whole job through the API: every success is validated on the way.
func TestFromTenantToMailboxes(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	base := "/v1/tenants/" + string(w.a.tenant)
	get := func(path string) reply { return a.expect(call{method: "GET", path: path, key: w.a.key}, 200, "") }
	write := func(method, path, body string) reply {
		return a.expect(call{method: method, path: path, body: body, key: w.a.key}, 200, "")
	}

	if link := get("/v1/tenants/connect-url").body["connect_url"]; !strings.HasPrefix(fmt.Sprint(link), "http") {
		t.Errorf("connect_url is %v", link)
	}
	if synced := write("POST", base+"/sync", ""); synced.body["status"] != "completed" {
		t.Errorf("sync: %s", synced.raw)
	}
	if list := get("/v1/tenants"); list.body["count"] != 1.0 {
		t.Errorf("tenants: %s", list.raw)
	}
	added := write("POST", base+"/domains", `{"domain":"Example.com."}`)
	if added.body["status"] != "added" || added.body["domain"].(map[string]any)["domain_name"] != "example.com" {
		t.Errorf("added: %s", added.raw)
	}
	if again := write("POST", base+"/domains", `{"domain":"example.com"}`); again.body["status"] != "exists" {
		t.Errorf("again: %s", again.raw)
	}
	w.publish(t, w.a, "example.com")
	write("POST", base+"/domains/example.com/verify", "{}")
	w.platform.DNS.Publish("example.com", w.signing(t, w.a, "example.com")...)
	if report := get(base + "/domains/example.com/dkim-status"); report.body["ready_to_enable"] != true {
		t.Errorf("dkim-status: %s", report.raw)
	}
	write("POST", base+"/domains/example.com/enable-dkim", "")
	domain := get(base + "/domains").body["domains"].([]any)[0].(map[string]any)
	if domain["dkim_status"] != "healthy" {
		t.Errorf("domain: %v", domain)
	}
	get(base + "/domains/EXAMPLE.com/dns")
	stored := get("/v1/domains/" + domain["id"].(string) + "/dns")
	if label := stored.body["dkim_dns_records"].([]any)[0].(map[string]any)["label"]; label != "selector1._domainkey" {
		t.Errorf("dkim label %v", label)
	}

	made := write("POST", base+"/mailboxes", `{"domain":"example.com","account_password":"Correct-Horse-7",
		"mailboxes":[{"name":"Ana","email":"ana@example.com"},{"name":"Bo","email":"bo@example.com"}]}`)
	if made.body["created_count"] != 2.0 {
		t.Errorf("provisioned: %s", made.raw)
	}
	list := get(base + "/mailboxes")
	first := list.body["mailboxes"].([]any)[0].(map[string]any)
	if first["daily_send_limit"] != nil || first["blocked_at"] != nil || first["sends_today_at"] != nil {
		t.Errorf("a fresh mailbox: %v", first)
	}
	box := base + "/mailboxes/" + first["id"].(string)
	if usage := get(box + "/usage"); usage.body["remaining_sends"] != nil || usage.body["utilization_pct"] != nil {
		t.Errorf("usage without a limit: %s", usage.raw)
	}
	write("PATCH", box, `{"daily_send_limit":20,"display_name":"Ana Lima"}`)
	if usage := get(box + "/usage"); usage.body["remaining_sends"] != 20.0 {
		t.Errorf("usage: %s", usage.raw)
	}
	get(base)
	rotated := a.expect(call{method: "POST", path: "/api-key/rotate?user_email=ann@a.example", key: w.a.key,
		headers: map[string]string{"Idempotency-Key": ""}}, 200, "")
	a.expect(call{method: "GET", path: "/v1/tenants", key: w.a.key}, http.StatusUnauthorized, "invalid_api_key")
	write = func(method, path, body string) reply {
		return a.expect(call{method: method, path: path, body: body, key: rotated.body["api_key"].(string)}, 200, "")
	}
	write("DELETE", base, "")
}
