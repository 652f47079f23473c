// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unowned are the operations that name nothing owned, each with the test that
// is about what they show.
var unowned = map[string]string{
	"GET /v1/tenants":               "TestTenantShapes: lists what the account holds",
	"GET /v1/integrations":          "TestIntegrationShapes: lists what the account holds",
	"POST /v1/integrations":         "TestIntegrationShapes: adds to the account of the key",
	"GET /v1/dns/provisioning-runs": "TestListsOfRuns: lists what the account holds",
	"GET /v1/enforcement/events":    "the matrix: lists what happened to the account's mailboxes",
	"GET /v1/tenants/connect-url":   "TestForeignState: the link is bound to the account",
	"POST /api-key/rotate":          "TestKeyRotation: rotates the key that the request carries",
}

// bodies are what operations with a body are sent. They are good, so that only
// ownership can refuse them.
var bodies = map[string]any{
	"POST /v1/tenants/{tenant_id}/domains":                 object{"domain": "new.example"},
	"POST /v1/tenants/{tenant_id}/mailboxes":               boxes("new.example", "ada"),
	"POST /v1/tenants/{tenant_id}/mailbox-limits":          object{"daily_send_limit": 5},
	"PATCH /v1/tenants/{tenant_id}/mailboxes/{mailbox_id}": object{"display_name": "Ada", "daily_send_limit": 5},
}

// notFound is what each parameter is answered with when it is not the
// caller's.
var notFound = map[string]string{
	"tenant_id": "tenant_not_found", "domain_name": "domain_not_found", "domain_id": "domain_not_found", "mailbox_id": "mailbox_not_found",
	"run_id": "provisioning_run_not_found", "job_id": "provisioning_job_not_found", "integration_id": "integration_not_found",
}

// estate is a whole account: a tenant with a verified domain and a mailbox.
type estate struct {
	holding
	ids map[string]string // by the parameter that names it
}

func (c caller) estate() estate {
	h := c.newCaller(nil).connected(nil)
	zone := h.verified()
	h.post(h.path("/mailboxes"), boxes(zone, "ada"))
	return estate{h, map[string]string{
		"tenant_id": h.guid, "domain_name": zone,
		"domain_id":  h.get(h.path("/domains")).objects("domains")[0].text("id"),
		"mailbox_id": h.get(h.path("/mailboxes")).objects("mailboxes")[0].text("id"),
	}}
}

// strange are values of a parameter that must all be answered alike: another
// account's, unknown and malformed ones.
func (e estate) strange(other estate, param string) []string {
	theirs := other.ids[param]
	const unknown = "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55"
	list := []string{theirs, strings.ToUpper(theirs)}
	if param == "domain_name" {
		return append(list, theirs+".", "unknown.example", "nodots", "%2e%2e", "a%00.example", "%ff.example", "-",
			strings.Repeat("a", 300)+".example", "%D0%BF.example", e.ids["domain_id"])
	}
	list = append(list, unknown, strings.ReplaceAll(theirs, "-", ""), "{"+theirs+"}", "urn:uuid:"+theirs, theirs+"0", "x", "0", "%20", "%00", "a%2Fb",
		"%ff", strings.Repeat("9", 300), "00000000-0000-0000-0000-000000000000", "'%20OR%201=1--")
	if param == "tenant_id" {
		list = append(list, e.get(e.path("")).text("id"), other.get(other.path("")).text("id"))
	}
	return list
}

// TestOwnershipTwins: every operation of the document answers ids that are not
// the caller's with the same bytes and head, whatever is behind them, and asks
// no provider.
func TestOwnershipTwins(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	// No worker asks a provider of its own accord.
	_, ready := startDev(t, binary(t, release), folder, []string{"TENANTRY_WORKER=false"})
	c := ownerAt(t, ready)
	one, two := c.estate(), c.estate()
	ran(t, filepath.Join(folder, "tenantry.db"), one, two)
	one.integrates()
	two.integrates()
	d, err := published()
	if err != nil {
		t.Fatal(err)
	}
	c.control("DELETE", "/calls", nil)
	for _, op := range d.operations {
		name := op.method + " " + op.path
		params := parameters(op.path)
		if len(params) == 0 && unowned[name] == "" {
			t.Errorf("%s names nothing owned, and nothing says why that is well", name)
		}
		for _, param := range params {
			if notFound[param] == "" || one.ids[param] == "" {
				t.Errorf("%s has no ownership cases for %s", name, param)
				continue
			}
			t.Run(name+" "+param, func(t *testing.T) {
				one.twins(t, two, op, param)
				two.twins(t, one, op, param)
			})
		}
	}
	for _, provider := range append([]string{"microsoft365"}, sendingNames...) {
		if calls := c.askedAt(provider); len(calls) != 0 {
			t.Errorf("%s was asked %v", provider, calls)
		}
	}
	for _, e := range []estate{one, two} {
		sees(t, e.get(e.path("")).object, object{"domain_count": 1, "mailbox_count": 1})
		sees(t, e.get("/v1/integrations/"+e.ids["integration_id"]).object, object{"mailbox_connections.total": 1, "mailbox_connections.pending": 1})
	}
}

// twins sends one operation with everything that is strange in the place of
// one parameter, the others being the caller's own; and with all of them the
// other's.
func (e estate) twins(t *testing.T, other estate, op operation, param string) {
	t.Helper()
	body := bodies[op.method+" "+op.path]
	if (op.method == "POST" || op.method == "PATCH") && body == nil {
		body = object{}
	}
	first := ""
	for i, value := range e.strange(other, param) {
		ids := maps.Clone(e.ids)
		ids[param] = value
		if i == 0 && param == parameters(op.path)[0] {
			ids = other.ids
		}
		got := e.caller.with(t).expect(op.method, fill(op.path, ids), body, 404, notFound[param])
		if i == 0 {
			first = got.bare()
		}
		if got.bare() != first {
			t.Errorf("%q is answered unlike another account's:\n%s\nand\n%s", value, got.bare(), first)
		}
	}
}

// bare is an answer without what differs between any two requests.
func (r reply) bare() string {
	var lines []string
	for name, values := range r.header {
		if name != "Date" && name != "X-Ratelimit-Remaining" && name != "X-Ratelimit-Reset" {
			lines = append(lines, fmt.Sprintf("%s: %q", name, values))
		}
	}
	slices.Sort(lines)
	whole := strings.Join(lines, "\n") + "\n\n" + string(r.raw)
	return strings.ReplaceAll(whole, r.header.Get("X-Request-ID"), "ID")
}

// TestForeignDomainInABody: a domain that a body names is owned as well.
func TestForeignDomainInABody(t *testing.T) {
	t.Parallel()
	c := alone(t)
	one, two := c.estate(), c.estate()
	c.control("DELETE", "/calls", nil)
	answers := map[string]bool{}
	for _, name := range []string{two.ids["domain_name"], "unknown.example", "nodots", "", "onmicrosoft.com"} {
		body := boxes("example.com", "ada")
		body["domain"] = name
		answers[one.expect("POST", one.path("/mailboxes"), body, 404, "domain_not_found").bare()] = true
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", slices.Collect(maps.Keys(answers)))
	}
	if calls := c.control("GET", "/calls?provider=microsoft365", nil); strings.TrimSpace(string(calls.raw)) != "[]" {
		t.Errorf("the platform was asked: %s", calls.raw)
	}
}

func parameters(template string) (names []string) {
	for segment := range strings.SplitSeq(template, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// queried is the path of an operation with the parameters that it insists on.
func queried(template string) string {
	if strings.HasSuffix(template, "/oauth/microsoft/status") {
		template += "?session_id={session_id}"
	}
	return template
}

func fill(template string, ids map[string]string) string {
	template = queried(template)
	for name, id := range ids {
		template = strings.ReplaceAll(template, "{"+name+"}", id)
	}
	return template
}
