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

func TestTheCommittedDocumentIsFresh(t *testing.T) {
	fresh, err := httpapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, fresh.YAML) {
		t.Fatal("docs/openapi.yaml is stale: run make openapi")
	}
}

// The harness is worth as much as what it notices.
func TestTheHarnessNoticesWhatIsNotDocumented(t *testing.T) {
	w := newWorld(t)
	genuine := w.handler(t)
	list := call{method: "GET", path: "/v1/tenants", key: w.a.key}
	for name, plant := range map[string]func(http.ResponseWriter, []byte){
		"a status": func(rw http.ResponseWriter, body []byte) {
			rw.WriteHeader(http.StatusTeapot)
			_, _ = rw.Write(body)
		},
		"a documented code with a status that the operation has not": func(rw http.ResponseWriter, _ []byte) {
			rw.Header().Set("Content-Type", "application/problem+json")
			rw.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprintf(rw, `{"type":"/docs/errors/domain_unavailable","title":"Domain unavailable","status":409,"detail":"x","code":"domain_unavailable","request_id":%q}`, rw.Header().Get("X-Request-ID"))
		},
		"a code that the status has not here": func(rw http.ResponseWriter, _ []byte) {
			rw.Header().Set("Content-Type", "application/problem+json")
			rw.WriteHeader(http.StatusPaymentRequired)
			_, _ = fmt.Fprintf(rw, `{"type":"/docs/errors/tenant_limit_reached","title":"Tenant limit reached","status":402,"detail":"x","code":"tenant_limit_reached","request_id":%q}`, rw.Header().Get("X-Request-ID"))
		},
		"a member": func(rw http.ResponseWriter, body []byte) {
			_, _ = rw.Write(bytes.Replace(body, []byte(`"count"`), []byte(`"extra":1,"count"`), 1))
		},
		"a missing member": func(rw http.ResponseWriter, body []byte) {
			_, _ = rw.Write(bytes.Replace(body, []byte(`"tenant_name":"Tenant",`), nil, 1))
		},
		"a wrong type": func(rw http.ResponseWriter, body []byte) {
			_, _ = rw.Write(bytes.Replace(body, []byte(`"domain_count":0`), []byte(`"domain_count":"0"`), 1))
		},
		"no request id": func(rw http.ResponseWriter, body []byte) {
			rw.Header().Del("X-Request-ID")
			_, _ = rw.Write(body)
		},
		"an error as text": func(rw http.ResponseWriter, _ []byte) {
			http.Error(rw, "boom", http.StatusInternalServerError)
		},
	} {
		t.Run(name, func(t *testing.T) {
			planted := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				recorded := httptest.NewRecorder()
				genuine.ServeHTTP(recorded, r)
				maps.Copy(rw.Header(), recorded.Header())
				rw.Header().Del("Content-Length")
				plant(rw, recorded.Body.Bytes())
			})
			noted := &notedFailures{TB: t}
			a := serve(t, planted)
			a.t = noted
			a.do(list)
			if noted.count == 0 {
				t.Error("the harness let it pass")
			}
		})
	}
}

// notedFailures counts failures instead of failing.
type notedFailures struct {
	testing.TB
	count int
}

func (n *notedFailures) Errorf(string, ...any) { n.count++ }

// Each example in the document fits its schema.
func TestExamplesAreValid(t *testing.T) {
	raw, err := closedDocument()
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	checked := 0
	walk(doc, "#", func(at string, node map[string]any) {
		for place, example := range examplesOf(doc, at, node) {
			schema, err := compiler.Compile("openapi.json" + at + "/schema")
			if err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			if err := schema.Validate(example); err != nil {
				t.Errorf("%s: %v", place, err)
			}
			checked++
		}
	})
	if checked < 5*len(allOperations()) {
		t.Errorf("only %d examples", checked)
	}
}

// walk visits every object of the document with its JSON pointer.
func walk(node any, at string, visit func(at string, node map[string]any)) {
	switch n := node.(type) {
	case map[string]any:
		visit(at, n)
		for name, child := range n {
			if name != "example" && name != "value" {
				walk(child, at+"/"+strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name), visit)
			}
		}
	case []any:
		for i, child := range n {
			walk(child, fmt.Sprintf("%s/%d", at, i), visit)
		}
	}
}

// examplesOf returns what stands beside a schema as its example, components
// resolved.
func examplesOf(doc any, at string, node map[string]any) map[string]any {
	found := map[string]any{}
	if _, ok := node["schema"]; !ok {
		return found
	}
	if example, ok := node["example"]; ok {
		found[at] = example
	}
	examples, _ := node["examples"].(map[string]any)
	for name, e := range examples {
		component := doc.(map[string]any)["components"].(map[string]any)["examples"].(map[string]any)[name]
		if ref := e.(map[string]any)["$ref"]; ref != "#/components/examples/"+name {
			component = e
		}
		found[at+"/examples/"+name] = component.(map[string]any)["value"]
	}
	return found
}

// What a client generator and a reader need is there for every operation.
func TestOperationsAreDescribed(t *testing.T) {
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
				t.Errorf("%s: parameter %v is not described", name, parameter["name"])
			}
		}
		answers := op.doc["responses"].(map[string]any)
		if (answers["200"] == nil) == (answers["202"] == nil) {
			t.Errorf("%s documents no success, or two", name)
		}
		for _, status := range []string{"401", "402", "406", "500", "503"} {
			if answers[status] == nil {
				t.Errorf("%s does not document %s", name, status)
			}
		}
		if answers["422"] != nil || answers["default"] != nil {
			t.Errorf("%s documents what never comes", name)
		}
		if body, ok := op.doc["requestBody"].(map[string]any); ok && body["content"].(map[string]any)["application/json"].(map[string]any)["example"] == nil {
			t.Errorf("%s has no example of a request", name)
		}
	}
}

// The requests that the document shows work as they stand.
func TestRequestExamplesWork(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	base := "/v1/tenants/" + string(w.a.tenant)
	example := func(operationID string) string {
		for _, op := range allOperations() {
			if op.doc["operationId"] == operationID {
				content := op.doc["requestBody"].(map[string]any)["content"].(map[string]any)["application/json"]
				raw, _ := json.Marshal(content.(map[string]any)["example"])
				return string(raw)
			}
		}
		t.Fatalf("no operation %s", operationID)
		return ""
	}
	write := func(method, path, body string) reply {
		return a.expect(call{method: method, path: path, body: body, key: w.a.key}, 200, "")
	}
	write("POST", base+"/sync", "")
	write("POST", base+"/domains", example("add-domain"))
	w.publish(t, w.a, "example.com")
	write("POST", base+"/domains/example.com/verify", "")
	if made := write("POST", base+"/mailboxes", example("provision-mailboxes")); made.body["created_count"] != 1.0 {
		t.Errorf("got %s", made.raw)
	}
	id := a.do(call{method: "GET", path: base + "/mailboxes", key: w.a.key}).body["mailboxes"].([]any)[0].(map[string]any)["id"].(string)
	write("PATCH", base+"/mailboxes/"+id, example("update-mailbox"))
}
