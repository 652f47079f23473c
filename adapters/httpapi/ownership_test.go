// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/ports"
)

// strangers are, for each path parameter that names something owned, values
// that must all be answered alike: another account's, unknown, malformed.
func strangers(w *world, t *testing.T) (own map[string]string, foreign map[string][]string) {
	t.Helper()
	ownDomain, ownMailbox := w.holding(t, w.a)
	otherDomain, otherMailbox := w.holding(t, w.b)
	const unknown = "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55"
	malformed := []string{unknown, "x", "%00", "a%2Fb", strings.Repeat("9", 300), "{" + unknown + "}", "urn:uuid:" + unknown}
	own = map[string]string{
		"tenant_id": string(w.a.tenant), "domain_name": ownDomain.Name, "domain_id": ownDomain.ID, "mailbox_id": ownMailbox.ID,
	}
	otherRun, otherJob := w.begun(t, w.b, otherDomain)
	own["run_id"], own["job_id"] = w.begun(t, w.a, ownDomain)
	w.ours(t, w.a, ownMailbox)
	w.ours(t, w.b, otherMailbox)
	ownIntegration, otherIntegration := w.integration(t, w.a), w.integration(t, w.b)
	own["integration_id"], own["session_id"] = ownIntegration.ID, w.session(t, w.a, ownIntegration, ownMailbox)
	foreign = map[string][]string{
		"tenant_id":      append([]string{string(w.b.tenant), strings.ToUpper(string(w.b.tenant)), ownDomain.TenantID}, malformed...),
		"domain_name":    {otherDomain.Name, strings.ToUpper(otherDomain.Name) + ".", "unknown.example", "%2e%2e", "a%00.example", "%ff.example", "-"},
		"domain_id":      append([]string{otherDomain.ID, strings.ToUpper(otherDomain.ID)}, malformed...),
		"mailbox_id":     append([]string{otherMailbox.ID, otherMailbox.Address}, malformed...),
		"run_id":         append([]string{otherRun, strings.ToUpper(otherRun), own["job_id"]}, malformed...),
		"integration_id": append([]string{otherIntegration.ID, strings.ToUpper(otherIntegration.ID), ownMailbox.ID}, malformed...),
		"job_id":         append([]string{otherJob, strings.ToUpper(otherJob), own["run_id"]}, malformed...),
	}
	return own, foreign
}

// unowned are the operations that name nothing owned, each with the reason.
var unowned = map[string]string{
	"GET /v1/tenants":               "lists only what the account holds, see TestListsAreOneAccounts",
	"GET /v1/tenants/connect-url":   "makes a link for the account of the key",
	"GET /v1/dns/provisioning-runs": "lists only what the account began, see TestListsOfRuns",
	"GET /v1/enforcement/events":    "lists only what happened to the account's mailboxes, see TestEnforcementEvents",
	"GET /v1/integrations":          "lists only what the account added, see TestIntegrationsAreOneAccounts",
	"POST /v1/integrations":         "adds to the account of the key, see TestIntegrationsAreOneAccounts",
	"POST /api-key/rotate":          "rotates the key that the request carries, see TestQueryParameters",
}

// notFoundOf is what each parameter is answered with when it is not the
// caller's. The first one in a path decides.
var notFoundOf = map[string]string{
	"tenant_id": "tenant_not_found", "domain_name": "domain_not_found", "domain_id": "domain_not_found", "mailbox_id": "mailbox_not_found",
	"run_id": "provisioning_run_not_found", "job_id": "provisioning_job_not_found", "integration_id": "integration_not_found",
}

// bodies are what operations with one are sent.
var bodies = map[string]string{
	"POST /v1/tenants/{tenant_id}/domains":                 `{"domain":"new.example"}`,
	"POST /v1/tenants/{tenant_id}/mailboxes":               `{"domain":"new.example","account_password":"Correct-Horse-7","mailboxes":[{"name":"A","email":"a@new.example"}]}`,
	"POST /v1/tenants/{tenant_id}/mailbox-limits":          `{"daily_send_limit":5}`,
	"PATCH /v1/tenants/{tenant_id}/mailboxes/{mailbox_id}": `{"display_name":"Ana","daily_send_limit":5}`,
}

// Every operation answers foreign, unknown and malformed ids with the same
// bytes and head but for the request id, calls no provider and changes nothing.
func TestOwnershipTwins(t *testing.T) {
	w := newWorld(t)
	own, foreign := strangers(w, t)
	a := serve(t, w.handler(t))
	for _, op := range allOperations() {
		name := strings.ToUpper(op.method) + " " + op.path
		params := parametersOf(op.path)
		if len(params) == 0 {
			if unowned[name] == "" {
				t.Errorf("%s has no ownership cases", name)
			}
			continue
		}
		for _, param := range params {
			if foreign[param] == nil || own[param] == "" {
				t.Errorf("%s: no ownership cases for %s", name, param)
				continue
			}
			t.Run(name+" "+param, func(t *testing.T) {
				twins(t, &api{t: t, server: a.server, check: a.check}, w, name, param, own, foreign[param])
			})
		}
	}
	for method := range reflect.TypeFor[ports.MailTenant]().Methods() {
		if calls := w.platform.Calls(method.Name); calls != 0 {
			t.Errorf("%d calls of %s", calls, method.Name)
		}
	}
	if w.platform.DNS.Reads() != 0 {
		t.Error("the DNS was read")
	}
}

func twins(t *testing.T, a *api, w *world, name, param string, own map[string]string, strange []string) {
	t.Helper()
	method, template, _ := strings.Cut(name, " ")
	var first reply
	for i, value := range strange {
		values := maps.Clone(own)
		values[param] = value
		got := a.expect(call{method: method, path: fill(template, values), body: bodies[name], key: w.a.key}, http.StatusNotFound, notFoundOf[param])
		if i == 0 {
			first = got
		}
		if without(got) != without(first) {
			t.Errorf("%q is answered unlike %q:\n%s\n%s", value, strange[0], without(got), without(first))
		}
	}
}

// without is an answer without what differs between any two requests.
func without(r reply) string {
	id := r.header.Get("X-Request-ID")
	var lines []string
	for name, values := range r.header {
		if name != "Date" && name != "X-Ratelimit-Remaining" && name != "X-Ratelimit-Reset" {
			lines = append(lines, name+": "+strings.Join(values, ","))
		}
	}
	slices.Sort(lines)
	return strings.ReplaceAll(strings.Join(lines, "\n")+"\n\n"+r.raw, id, "ID")
}

// A domain in a body is owned as well.
func TestForeignDomainInABody(t *testing.T) {
	w := newWorld(t)
	own, foreign := strangers(w, t)
	a := serve(t, w.handler(t))
	var answers []string
	for _, name := range []string{foreign["domain_name"][0], "unknown.example", "no domain", ""} {
		body := strings.ReplaceAll(bodies["POST /v1/tenants/{tenant_id}/mailboxes"], `"new.example"`, `"`+name+`"`)
		got := a.expect(call{method: "POST", path: "/v1/tenants/" + own["tenant_id"] + "/mailboxes", body: body, key: w.a.key}, 404, "domain_not_found")
		answers = append(answers, without(got))
	}
	if len(slices.Compact(answers)) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
}

func parametersOf(template string) (names []string) {
	for segment := range strings.SplitSeq(template, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

func fill(template string, values map[string]string) string {
	if strings.HasSuffix(template, "/oauth/microsoft/status") {
		template += "?session_id={session_id}"
	}
	for name, value := range values {
		template = strings.ReplaceAll(template, "{"+name+"}", value)
	}
	return template
}

func TestListsAreOneAccounts(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	for _, o := range []owner{w.a, w.b} {
		got := a.expect(call{method: "GET", path: "/v1/tenants", key: o.key}, 200, "")
		list := got.body["tenants"].([]any)
		if len(list) != 1 || list[0].(map[string]any)["tenant_id"] != string(o.tenant) {
			t.Errorf("got %s", got.raw)
		}
	}
}

// The case of a GUID does not matter, and the answer has the canonical one.
func TestOwnIDsInAnyCase(t *testing.T) {
	w := newWorld(t)
	own, _ := strangers(w, t)
	a := serve(t, w.handler(t))
	for _, path := range []string{
		"/v1/tenants/" + strings.ToUpper(own["tenant_id"]) + "/domains",
		"/v1/tenants/" + own["tenant_id"] + "/domains/" + strings.ToUpper(own["domain_name"]) + "./dns",
		"/v1/domains/" + strings.ToUpper(own["domain_id"]) + "/dns",
		"/v1/dns/provisioning-runs/" + strings.ToUpper(own["run_id"]),
		"/v1/integrations/" + strings.ToUpper(own["integration_id"]),
		fill(signIn+"/status", map[string]string{"integration_id": strings.ToUpper(own["integration_id"]), "mailbox_id": strings.ToUpper(own["mailbox_id"]),
			"session_id": strings.ToUpper(own["session_id"])}),
		"/v1/tenants/" + own["tenant_id"] + "/mailboxes/" + strings.ToUpper(own["mailbox_id"]) + "/usage",
	} {
		got := a.expect(call{method: "GET", path: path, key: w.a.key}, 200, "")
		if id, ok := got.body["tenant_id"]; ok && id != own["tenant_id"] {
			t.Errorf("%s answered with %v", path, id)
		}
	}
}
