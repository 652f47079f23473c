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

// uniqueNumber is a counter for the names of objects, so that no two tests use the same name.
var uniqueNumber atomic.Int64

// caller is an account of one service, with an API key.
type caller struct {
	client
	id, email, key string
}

// seededAccount returns the account with which a sandbox starts.
func seededAccount(t *testing.T, ready sandbox.Ready) caller {
	return caller{client{t, ready}, ready.AccountID, ready.UserEmail, ready.APIKey}
}

// newAccount creates an account through the control interface. extraMembers are added to the
// request body, and replace members of the same name.
func (c caller) newAccount(extraMembers object) caller {
	c.t.Helper()
	body := object{"email": fmt.Sprintf("owner-%d@e2e.example", uniqueNumber.Add(1)), "plan": "complete"}
	maps.Copy(body, extraMembers)
	created := c.control("POST", "/accounts", body)
	return caller{c.client, created.text("account_id"), body.text("email"), created.text("api_key")}
}

func (c caller) withT(t *testing.T) caller {
	c.t = t
	return c
}

// call sends a request and checks the response against the OpenAPI document.
func (c caller) call(method, path string, body any) reply {
	c.t.Helper()
	got := c.do(method, c.ready.APIURL+path, c.key, body)
	if err := checkDocumented(c.t, method, path, got); err != nil {
		c.t.Errorf("%s %s: the answer %d differs from the OpenAPI document: %v\n%s", method, path, got.status, err, got.raw)
	}
	return got
}

// expect is like call, and checks status and error code. For a success, code is "".
func (c caller) expect(method, path string, body any, status int, code string) reply {
	c.t.Helper()
	got := c.call(method, path, body)
	c.checkReply(got, method, path, body, status, code)
	return got
}

func (c caller) checkReply(got reply, method, path string, body any, status int, code string) {
	c.t.Helper()
	if got.status != status || got.code() != code {
		c.t.Errorf("%s %s %v: got %d %q, want %d %q\n%s", method, path, body, got.status, got.code(), status, code, got.raw)
	}
}

func (c caller) get(path string) reply {
	c.t.Helper()
	return c.expect("GET", path, nil, 200, "")
}

// post sends a POST request that must be answered 200.
func (c caller) post(path string, body any) reply {
	c.t.Helper()
	return c.expect("POST", path, body, 200, "")
}

// code returns the error code, or "" if the response has none.
func (r reply) code() string {
	code, _ := r.object["code"].(string)
	return code
}

// valueAt returns a member of nested objects by its path, for example "readiness.next_step".
func (o object) valueAt(path string) any {
	var value any = map[string]any(o)
	for name := range strings.SplitSeq(path, ".") {
		parent, _ := value.(map[string]any)
		value = parent[name]
	}
	return value
}

// checkValues compares members of an object with the wanted values by their text. The keys of want
// are paths for valueAt.
func checkValues(t *testing.T, o object, want object) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got := o.valueAt(path); fmt.Sprint(got) != fmt.Sprint(want[path]) {
			t.Errorf("%s is %v, want %v", path, got, want[path])
		}
	}
}

// checkMembers checks that an object has exactly the members in names, separated by spaces.
func checkMembers(t *testing.T, subject string, o any, names string) {
	t.Helper()
	members, isMap := o.(map[string]any)
	if converted, isObject := o.(object); isObject {
		members, isMap = converted, true
	}
	want := strings.Fields(names)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(members)); !isMap || !slices.Equal(got, want) {
		t.Errorf("%s has %v, want %v", subject, got, want)
	}
}

// accountTenant is a simulated tenant, and the account to which it is or will be connected.
type accountTenant struct {
	caller
	guid, admin string
}

// newTenant creates a simulated tenant whose operations complete without delay. setup is the
// request body for the control interface, or nil.
func (c caller) newTenant(setup object) accountTenant {
	c.t.Helper()
	if setup == nil {
		setup = object{}
	}
	created := c.control("POST", "/tenants", setup)
	tenant := accountTenant{c, created.text("tenant_id"), created.text("admin")}
	tenant.setBehaviour(noDelays())
	return tenant
}

func (tenant accountTenant) withT(t *testing.T) accountTenant {
	tenant.t = t
	return tenant
}

func (tenant accountTenant) setBehaviour(settings object) {
	tenant.t.Helper()
	tenant.control("POST", "/tenants/"+tenant.guid+"/behaviour", settings)
}

// path returns the API path of the tenant, followed by rest.
func (tenant accountTenant) path(rest string) string { return "/v1/tenants/" + tenant.guid + rest }

// connect lets the simulated administrator connect the tenant to the account.
func (tenant accountTenant) connect() accountTenant {
	tenant.t.Helper()
	tenant.control("POST", "/tenants/"+tenant.guid+"/consent", object{"api_key": tenant.key})
	return tenant
}

// mustSync syncs the tenant until a sync is complete. On a slow machine a sync can run out of time.
func (tenant accountTenant) mustSync() reply {
	tenant.t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		got := tenant.post(tenant.path("/sync"), nil)
		if got.text("status") == "completed" || tenant.t.Failed() {
			return got
		}
		if time.Now().After(deadline) {
			tenant.t.Fatalf("no sync was complete within %s, the last response is %s", waitTimeout, got.raw)
		}
	}
}

// newConnectedTenant creates a tenant, connects it and syncs it.
func (c caller) newConnectedTenant(setup object) accountTenant {
	c.t.Helper()
	tenant := c.newTenant(setup).connect()
	tenant.mustSync()
	return tenant
}

// nextStep returns what the API suggests as the next step of the tenant.
func (tenant accountTenant) nextStep() any {
	tenant.t.Helper()
	return tenant.get(tenant.path("")).valueAt("readiness.next_step")
}

// domainPath returns the API path of a domain of the tenant, followed by rest.
func (tenant accountTenant) domainPath(name, rest string) string {
	return tenant.path("/domains/" + name + rest)
}

func (c caller) newZone() string {
	c.t.Helper()
	name := fmt.Sprintf("zone-%d.test", uniqueNumber.Add(1))
	c.control("POST", "/zones", object{"name": name, "provider": "manual"})
	return name
}

// publishRecords replaces the records of the zone with the DNS records that the API asks for. It
// omits the MX record in .invalid, which is an alternative to the TXT record for the verification.
func (tenant accountTenant) publishRecords(zone string) {
	tenant.t.Helper()
	dns := tenant.get(tenant.domainPath(zone, "/dns"))
	records := []object{}
	for _, required := range append(dns.objects("verification_dns_records"), dns.objects("service_configuration_records")...) {
		name := strings.TrimSuffix(required.text("label"), ".")
		if name != zone && !strings.HasSuffix(name, "."+zone) {
			name += "." + zone
		}
		record := object{"name": name, "ttl": 300}
		switch required.text("recordType") {
		case "domainDnsTxtRecord":
			record["type"], record["content"] = "TXT", required["text"]
		case "domainDnsCnameRecord":
			record["type"], record["content"] = "CNAME", required["canonicalName"]
		case "domainDnsMxRecord":
			record["type"], record["content"], record["priority"] = "MX", required["mailExchange"], required["preference"]
		}
		if !strings.HasSuffix(required.text("mailExchange"), ".invalid") {
			records = append(records, record)
		}
	}
	tenant.control("PUT", "/zones/"+zone+"/records", records)
}

// newVerifiedDomain adds a new zone to the tenant as a domain and verifies it.
func (tenant accountTenant) newVerifiedDomain() string {
	tenant.t.Helper()
	zone := tenant.newZone()
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	tenant.publishRecords(zone)
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	return zone
}

// mailboxesBody returns the request body that provisions mailboxes with these local parts.
func mailboxesBody(domain string, localParts ...string) object {
	mailboxes := []object{}
	for _, localPart := range localParts {
		mailboxes = append(mailboxes, object{"name": strings.ToUpper(localPart[:1]) + localPart[1:], "email": localPart + "@" + domain})
	}
	return object{"domain": domain, "account_password": "Correct-Horse-7", "mailboxes": mailboxes}
}
