// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tenantry/tenantry/adapters/httpapi"
)

func TestCommittedDocumentIsCurrent(t *testing.T) {
	current, err := httpapi.Document()
	must(t, err)
	committed, err := os.ReadFile("../../docs/openapi.yaml")
	must(t, err)
	if !bytes.Equal(committed, current.YAML) {
		t.Fatal("docs/openapi.yaml is stale: run make openapi")
	}
}

// TestClientReportsUndocumentedAnswers checks that apiClient reports answers that differ from the
// document.
func TestClientReportsUndocumentedAnswers(t *testing.T) {
	env := newTestEnv(t)
	realHandler := env.handler(t)
	list := call{method: "GET", path: "/v1/tenants", key: env.accountA.key}
	for name, change := range map[string]func(http.ResponseWriter, []byte){
		"undocumented status": func(rw http.ResponseWriter, body []byte) {
			rw.WriteHeader(http.StatusTeapot)
			_, _ = rw.Write(body)
		},
		"status that the operation does not document": func(rw http.ResponseWriter, _ []byte) {
			rw.Header().Set("Content-Type", "application/problem+json")
			rw.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprintf(rw, `{"type":"/docs/errors/domain_unavailable","title":"Domain unavailable","status":409,"detail":"x","code":"domain_unavailable","request_id":%q}`, rw.Header().Get("X-Request-ID"))
		},
		"code that the operation does not document for its status": func(rw http.ResponseWriter, _ []byte) {
			rw.Header().Set("Content-Type", "application/problem+json")
			rw.WriteHeader(http.StatusPaymentRequired)
			_, _ = fmt.Fprintf(rw, `{"type":"/docs/errors/tenant_limit_reached","title":"Tenant limit reached","status":402,"detail":"x","code":"tenant_limit_reached","request_id":%q}`, rw.Header().Get("X-Request-ID"))
		},
		"undocumented member": func(rw http.ResponseWriter, body []byte) {
			_, _ = rw.Write(bytes.Replace(body, []byte(`"count"`), []byte(`"extra":1,"count"`), 1))
		},
		"missing member": func(rw http.ResponseWriter, body []byte) {
			_, _ = rw.Write(bytes.Replace(body, []byte(`"tenant_name":"Tenant",`), nil, 1))
		},
		"wrong type": func(rw http.ResponseWriter, body []byte) {
			_, _ = rw.Write(bytes.Replace(body, []byte(`"domain_count":0`), []byte(`"domain_count":"0"`), 1))
		},
		"no request id": func(rw http.ResponseWriter, body []byte) {
			rw.Header().Del("X-Request-ID")
			_, _ = rw.Write(body)
		},
		"error as plain text": func(rw http.ResponseWriter, _ []byte) {
			http.Error(rw, "boom", http.StatusInternalServerError)
		},
	} {
		t.Run(name, func(t *testing.T) {
			changedHandler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				recorded := httptest.NewRecorder()
				realHandler.ServeHTTP(recorded, r)
				maps.Copy(rw.Header(), recorded.Header())
				rw.Header().Del("Content-Length")
				change(rw, recorded.Body.Bytes())
			})
			counter := &failureCounter{TB: t}
			client := serve(t, changedHandler)
			client.t = counter
			client.do(list)
			if counter.count == 0 {
				t.Error("the client did not report the answer")
			}
		})
	}
}

// failureCounter counts errors instead of failing the test.
type failureCounter struct {
	testing.TB
	count int
}

func (c *failureCounter) Errorf(string, ...any) { c.count++ }

// TestDocumentExamplesMatchTheirSchemas validates each example beside a schema against this schema.
func TestDocumentExamplesMatchTheirSchemas(t *testing.T) {
	raw, err := closedDocument()
	must(t, err)
	var doc any
	must(t, json.Unmarshal(raw, &doc))
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	must(t, compiler.AddResource("openapi.json", doc))
	checked := 0
	visitObjects(doc, "#", func(pointer string, node map[string]any) {
		for examplePointer, example := range examplesOf(doc, pointer, node) {
			schema, err := compiler.Compile("openapi.json" + pointer + "/schema")
			if err != nil {
				t.Fatalf("the schema at %s does not compile: %v", pointer, err)
			}
			if err := schema.Validate(example); err != nil {
				t.Errorf("the example at %s does not match its schema: %v", examplePointer, err)
			}
			checked++
		}
	})
	if checked < 5*len(allOperations()) {
		t.Errorf("only %d examples were validated, want at least 5 for each operation", checked)
	}
}

// visitObjects calls visit with each object of the document, and its JSON pointer. It skips members
// with the names example and value, because they contain examples.
func visitObjects(node any, pointer string, visit func(pointer string, node map[string]any)) {
	switch n := node.(type) {
	case map[string]any:
		visit(pointer, n)
		for name, child := range n {
			if name != "example" && name != "value" {
				visitObjects(child, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name), visit)
			}
		}
	case []any:
		for i, child := range n {
			visitObjects(child, fmt.Sprintf("%s/%d", pointer, i), visit)
		}
	}
}

// examplesOf returns the examples of a JSON object that has a schema, keyed by JSON pointer.
// References to components are resolved.
func examplesOf(doc any, pointer string, node map[string]any) map[string]any {
	found := map[string]any{}
	if _, ok := node["schema"]; !ok {
		return found
	}
	if example, ok := node["example"]; ok {
		found[pointer] = example
	}
	examples, _ := node["examples"].(map[string]any)
	for name, e := range examples {
		component := doc.(map[string]any)["components"].(map[string]any)["examples"].(map[string]any)[name]
		if ref := e.(map[string]any)["$ref"]; ref != "#/components/examples/"+name {
			component = e
		}
		found[pointer+"/examples/"+name] = component.(map[string]any)["value"]
	}
	return found
}

func TestOperationsAreDocumented(t *testing.T) {
	for _, op := range allOperations() {
		name := op.method + " " + op.path
		for _, member := range []string{"summary", "description", "operationId", "tags", "security"} {
			if op.doc[member] == nil || op.doc[member] == "" {
				t.Errorf("%s has no %s", name, member)
			}
		}
		parameters, _ := op.doc["parameters"].([]any)
		for _, p := range parameters {
			parameter := p.(map[string]any)
			if parameter["description"] == nil || parameter["example"] == nil {
				t.Errorf("%s: parameter %v has no description or no example", name, parameter["name"])
			}
		}
		answers := op.doc["responses"].(map[string]any)
		if (answers["200"] == nil) == (answers["202"] == nil) {
			t.Errorf("%s documents neither 200 nor 202, or both", name)
		}
		for _, status := range []string{"401", "402", "406", "500", "503"} {
			if answers[status] == nil {
				t.Errorf("%s does not document %s", name, status)
			}
		}
		if answers["422"] != nil || answers["default"] != nil {
			t.Errorf("%s documents 422 or a default answer", name)
		}
		if body, ok := op.doc["requestBody"].(map[string]any); ok && body["content"].(map[string]any)["application/json"].(map[string]any)["example"] == nil {
			t.Errorf("%s has no example of a request", name)
		}
	}
}

// TestRequestExamplesWork sends three request examples of the document.
func TestRequestExamplesWork(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	base := "/v1/tenants/" + string(env.accountA.tenant)
	example := func(operationID string) string {
		for _, op := range allOperations() {
			if op.doc["operationId"] == operationID {
				content := op.doc["requestBody"].(map[string]any)["content"].(map[string]any)["application/json"]
				raw, err := json.Marshal(content.(map[string]any)["example"])
				must(t, err)
				return string(raw)
			}
		}
		t.Fatalf("the document has no operation %s", operationID)
		return ""
	}
	write := func(method, path, body string) reply {
		return client.expect(call{method: method, path: path, body: body, key: env.accountA.key}, 200, "")
	}
	write("POST", base+"/sync", "")
	write("POST", base+"/domains", example("add-domain"))
	env.publishRecords(t, env.accountA, "example.com")
	write("POST", base+"/domains/example.com/verify", "")
	if created := write("POST", base+"/mailboxes", example("provision-mailboxes")); created.body["created_count"] != 1.0 {
		t.Errorf("got %s, want one created mailbox", created.raw)
	}
	id := client.do(call{method: "GET", path: base + "/mailboxes", key: env.accountA.key}).body["mailboxes"].([]any)[0].(map[string]any)["id"].(string)
	write("PATCH", base+"/mailboxes/"+id, example("update-mailbox"))
}

// TestAnswersAboutTenantDomainAndMailboxesAreValid calls operations on a tenant, its domain and its
// mailboxes. The client compares each answer with the document.
func TestAnswersAboutTenantDomainAndMailboxesAreValid(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	base, key := "/v1/tenants/"+string(env.accountA.tenant), env.accountA.key
	get := func(path string) reply {
		return client.expect(call{method: "GET", path: path, key: key}, 200, "")
	}
	write := func(method, path, body string) reply {
		return client.expect(call{method: method, path: path, body: body, key: key}, 200, "")
	}

	if link := get("/v1/tenants/connect-url").body["connect_url"]; !strings.HasPrefix(fmt.Sprint(link), "http") {
		t.Errorf("connect_url is %v, want an HTTP URL", link)
	}
	if synced := write("POST", base+"/sync", ""); synced.body["status"] != "completed" {
		t.Errorf("the sync got %s, want the status completed", synced.raw)
	}
	if list := get("/v1/tenants"); list.body["count"] != 1.0 {
		t.Errorf("the list of tenants is %s, want one tenant", list.raw)
	}
	added := write("POST", base+"/domains", `{"domain":"Example.com."}`)
	if added.body["status"] != "added" || added.body["domain"].(map[string]any)["domain_name"] != "example.com" {
		t.Errorf("got %s, want the added domain example.com", added.raw)
	}
	if repeated := write("POST", base+"/domains", `{"domain":"example.com"}`); repeated.body["status"] != "exists" {
		t.Errorf("the second addition got %s, want the status exists", repeated.raw)
	}
	env.publishRecords(t, env.accountA, "example.com")
	write("POST", base+"/domains/example.com/verify", "{}")
	env.platform.DNS.Publish("example.com", env.dkimRecords(t, env.accountA, "example.com")...)
	if report := get(base + "/domains/example.com/dkim-status"); report.body["ready_to_enable"] != true {
		t.Errorf("the DKIM status is %s, want ready_to_enable", report.raw)
	}
	write("POST", base+"/domains/example.com/enable-dkim", "")
	domain := get(base + "/domains").body["domains"].([]any)[0].(map[string]any)
	if domain["dkim_status"] != "healthy" {
		t.Errorf("the domain is %v, want healthy DKIM", domain)
	}
	get(base + "/domains/EXAMPLE.com/dns")
	stored := get("/v1/domains/" + domain["id"].(string) + "/dns")
	if label := stored.body["dkim_dns_records"].([]any)[0].(map[string]any)["label"]; label != "selector1._domainkey" {
		t.Errorf("the label is %v, want selector1._domainkey", label)
	}

	provisioned := write("POST", base+"/mailboxes", `{"domain":"example.com","account_password":"Correct-Horse-7",
		"mailboxes":[{"name":"Ana","email":"ana@example.com"},{"name":"Bo","email":"bo@example.com"}]}`)
	if provisioned.body["created_count"] != 2.0 {
		t.Errorf("got %s, want two created mailboxes", provisioned.raw)
	}
	list := get(base + "/mailboxes")
	newMailbox := list.body["mailboxes"].([]any)[0].(map[string]any)
	if newMailbox["daily_send_limit"] != nil || newMailbox["blocked_at"] != nil || newMailbox["sends_today_at"] != nil {
		t.Errorf("a new mailbox is %v, want no limit, block or count", newMailbox)
	}
	mailboxPath := base + "/mailboxes/" + newMailbox["id"].(string)
	if usage := get(mailboxPath + "/usage"); usage.body["remaining_sends"] != nil || usage.body["utilization_pct"] != nil {
		t.Errorf("the usage without a limit is %s, want no computed members", usage.raw)
	}
	write("PATCH", mailboxPath, `{"daily_send_limit":20,"display_name":"Ana Lima"}`)
	if usage := get(mailboxPath + "/usage"); usage.body["remaining_sends"] != 20.0 {
		t.Errorf("the usage is %s, want 20 remaining sends", usage.raw)
	}
	get(base)
	rotated := client.expect(call{method: "POST", path: "/api-key/rotate?user_email=ann@a.example", key: env.accountA.key,
		headers: map[string]string{"Idempotency-Key": ""}}, 200, "")
	client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, http.StatusUnauthorized, "invalid_api_key")
	key = rotated.body["api_key"].(string)
	write("DELETE", base, "")
}
