// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// uniqueNumber makes names that no other test uses.
var uniqueNumber atomic.Int64

// caller is an account of one service. Every response to it is checked against the OpenAPI
// document.
type caller struct {
	client
	id, email, key string
}

func seededAccount(t *testing.T, r sandbox.Ready) caller {
	return caller{client{t, r}, r.AccountID, r.UserEmail, r.APIKey}
}

// newAccount creates a further account through the control interface; more is merged into the
// request body.
func (c caller) newAccount(more object) caller {
	c.t.Helper()
	body := object{"email": fmt.Sprintf("owner-%d@e2e.example", uniqueNumber.Add(1)), "plan": "complete"}
	maps.Copy(body, more)
	made := c.control("POST", "/accounts", body)
	return caller{c.client, made.text("account_id"), body.text("email"), made.text("api_key")}
}

// withT returns the same account for use in a subtest.
func (c caller) withT(t *testing.T) caller {
	c.t = t
	return c
}

// call sends a request and checks the response against the OpenAPI document.
func (c caller) call(method, path string, body any) reply {
	c.t.Helper()
	got := c.do(method, c.ready.APIURL+path, c.key, body)
	if err := checkDocumented(c.t, method, path, got); err != nil {
		c.t.Errorf("%s %s answered %d: %v\n%s", method, path, got.status, err, got.raw)
	}
	return got
}

// expect sends a request and checks status and error code; code is "" for a success.
func (c caller) expect(method, path string, body any, status int, code string) reply {
	c.t.Helper()
	got := c.call(method, path, body)
	if got.status != status || got.code() != code {
		c.t.Errorf("%s %s %v: got %d %q, want %d %q\n%s", method, path, body, got.status, got.code(), status, code, got.raw)
	}
	return got
}

func (c caller) get(path string) reply {
	c.t.Helper()
	return c.expect("GET", path, nil, 200, "")
}

func (c caller) post(path string, body any) reply {
	c.t.Helper()
	return c.expect("POST", path, body, 200, "")
}

func (r reply) code() string {
	code, _ := r.object["code"].(string)
	return code
}

// at returns a member of nested objects by its path, for example "readiness.next_step".
func (o object) at(path string) any {
	var v any = map[string]any(o)
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// checkValues compares members of a response with the wanted values. want is keyed by path.
func checkValues(t *testing.T, o object, want object) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got := o.at(path); fmt.Sprint(got) != fmt.Sprint(want[path]) {
			t.Errorf("%s is %v, want %v", path, got, want[path])
		}
	}
}

// checkMembers checks that an object has exactly these members, in any order.
func checkMembers(t *testing.T, what string, o any, names string) {
	t.Helper()
	m, ok := o.(map[string]any)
	if isObject, plain := o.(object); plain {
		m, ok = isObject, true
	}
	want := strings.Fields(names)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(m)); !ok || !slices.Equal(got, want) {
		t.Errorf("%s has %v, want %v", what, got, want)
	}
}

// accountTenant is a simulated tenant, and the account to which it is or will be connected.
type accountTenant struct {
	caller
	guid, admin string
}

// newTenant creates a simulated tenant whose operations complete without delay.
func (c caller) newTenant(setup object) accountTenant {
	c.t.Helper()
	if setup == nil {
		setup = object{}
	}
	made := c.control("POST", "/tenants", setup)
	h := accountTenant{c, made.text("tenant_id"), made.text("admin")}
	h.setBehaviour(object{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0})
	return h
}

func (h accountTenant) withT(t *testing.T) accountTenant {
	h.t = t
	return h
}

func (h accountTenant) setBehaviour(settings object) {
	h.t.Helper()
	h.control("POST", "/tenants/"+h.guid+"/behaviour", settings)
}

func (h accountTenant) path(rest string) string { return "/v1/tenants/" + h.guid + rest }

// connect lets the simulated administrator connect the tenant to the account.
func (h accountTenant) connect() accountTenant {
	h.t.Helper()
	h.control("POST", "/tenants/"+h.guid+"/consent", object{"api_key": h.key})
	return h
}

// mustSync syncs the tenant until a sync is complete. On a slow machine the first one can run out
// of time.
func (h accountTenant) mustSync() reply {
	h.t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		got := h.post(h.path("/sync"), nil)
		if got.text("status") == "completed" || h.t.Failed() {
			return got
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("sync: %s", got.raw)
		}
	}
}

// newConnectedTenant creates a tenant, connects it and syncs it.
func (c caller) newConnectedTenant(setup object) accountTenant {
	c.t.Helper()
	h := c.newTenant(setup).connect()
	h.mustSync()
	return h
}

func (h accountTenant) nextStep() any {
	h.t.Helper()
	return h.get(h.path("")).at("readiness.next_step")
}

func (h accountTenant) domainPath(name, rest string) string { return h.path("/domains/" + name + rest) }

// newZone creates a zone in the simulated DNS.
func (c caller) newZone() string {
	c.t.Helper()
	name := fmt.Sprintf("zone-%d.test", uniqueNumber.Add(1))
	c.control("POST", "/zones", object{"name": name, "provider": "manual"})
	return name
}

// publishRecords writes the DNS records that the API asks for into the zone.
func (h accountTenant) publishRecords(zone string) {
	h.t.Helper()
	dns := h.get(h.domainPath(zone, "/dns"))
	records := []object{}
	for _, r := range append(dns.objects("verification_dns_records"), dns.objects("service_configuration_records")...) {
		name := strings.TrimSuffix(r.text("label"), ".")
		if name != zone && !strings.HasSuffix(name, "."+zone) {
			name += "." + zone
		}
		entry := object{"name": name, "ttl": 300}
		switch r.text("recordType") {
		case "domainDnsTxtRecord":
			entry["type"], entry["content"] = "TXT", r["text"]
		case "domainDnsCnameRecord":
			entry["type"], entry["content"] = "CNAME", r["canonicalName"]
		case "domainDnsMxRecord":
			entry["type"], entry["content"], entry["priority"] = "MX", r["mailExchange"], r["preference"]
		}
		if !strings.HasSuffix(r.text("mailExchange"), ".invalid") {
			records = append(records, entry)
		}
	}
	h.control("PUT", "/zones/"+zone+"/records", records)
}

// newVerifiedDomain adds a new zone to the tenant as a domain and verifies it.
func (h accountTenant) newVerifiedDomain() string {
	h.t.Helper()
	zone := h.newZone()
	h.post(h.path("/domains"), object{"domain": zone})
	h.publishRecords(zone)
	h.post(h.domainPath(zone, "/verify"), nil)
	return zone
}

// mailboxesBody returns the request body that provisions mailboxes with these local parts.
func mailboxesBody(domain string, locals ...string) object {
	list := []object{}
	for _, local := range locals {
		list = append(list, object{"name": strings.ToUpper(local[:1]) + local[1:], "email": local + "@" + domain})
	}
	return object{"domain": domain, "account_password": "Correct-Horse-7", "mailboxes": list}
}
