// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// graphDocument returns the OpenAPI description of the parts of Graph that the product uses.
var graphDocument = sync.OnceValues(func() (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	loader.IsExternalRefsAllowed = true // the second file refers to the first
	doc, err := loader.LoadFromFile("testdata/microsoft-graph-subset.openapi.yaml")
	if err != nil {
		return nil, err
	}
	subscriptions, err := loader.LoadFromFile("testdata/microsoft-graph-subscriptions.openapi.yaml")
	if err != nil {
		return nil, err
	}
	for path, item := range subscriptions.Paths.Map() {
		doc.Paths.Set(path, item)
	}
	return doc, nil
})

// undocumentedPaths are paths that the tests use and the description lacks.
var undocumentedPaths = regexp.MustCompile(`^/(policies/|users/\$count$|servicePrincipals\(appId='[^']*'\)/|nothing$)`)

// dateTimeFormat accepts a date-time without an offset. In the description, the date in an error
// has the format date-time, which requires an offset. Graph omits the offset.
var dateTimeFormat = openapi3.WithStringFormatValidator("date-time",
	openapi3.NewRegexpFormatValidator(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$`))

// checkAgainstOpenAPI fails the test when an answer of Graph does not match the OpenAPI
// description. callGraphWith calls it for every answer. It skips undocumentedPaths.
func checkAgainstOpenAPI(t *testing.T, method, path string, answer response) {
	t.Helper()
	doc, err := graphDocument()
	if err != nil {
		t.Fatal(err)
	}
	path, _, _ = strings.Cut(path, "?")
	if undocumentedPaths.MatchString(path) {
		return
	}
	operation := operationOf(doc, method, path)
	if operation == nil {
		t.Errorf("%s %s is not in the description", method, path)
		return
	}
	described := operation.Responses.Status(answer.status)
	if described == nil {
		described = operation.Responses.Value(map[int]string{4: "4XX", 5: "5XX"}[answer.status/100])
	}
	if described == nil {
		t.Errorf("%s %s: status %d is not described", method, path, answer.status)
		return
	}
	content := described.Value.Content["application/json"]
	if content == nil {
		if len(answer.raw) > 0 {
			t.Errorf("%s %s: %d has a body: %s", method, path, answer.status, answer.raw)
		}
		return
	}
	var body any
	if err := json.Unmarshal(answer.raw, &body); err != nil {
		t.Errorf("%s %s: %v: %s, want JSON", method, path, err, answer.raw)
		return
	}
	if err := content.Schema.Value.VisitJSON(body, openapi3.VisitAsResponse(), dateTimeFormat, openapi3.DisableSchemaErrorDetails()); err != nil {
		t.Errorf("%s %s: %d: %v, want the schema of the description", method, path, answer.status, err)
	}
	checkProperties(t, content.Schema.Value, body, method+" "+path)
}

// templateParameter matches a parameter in a quoted path template.
var templateParameter = regexp.MustCompile(`\\\{[^}]*\\\}`)

// graphPaths returns a pattern for each path of the description.
var graphPaths = sync.OnceValue(func() map[string]*regexp.Regexp {
	patterns := map[string]*regexp.Regexp{}
	doc, err := graphDocument()
	if err != nil {
		return patterns
	}
	for template := range doc.Paths.Map() {
		patterns[template] = regexp.MustCompile("^" + templateParameter.ReplaceAllString(regexp.QuoteMeta(template), `[^/]+`) + "$")
	}
	return patterns
})

// operationOf returns the operation whose path template matches. If several templates match, it
// prefers the template with the fewest parameters, and then the longest one.
func operationOf(doc *openapi3.T, method, path string) *openapi3.Operation {
	longestFixed, operation := -1, (*openapi3.Operation)(nil)
	for template, item := range doc.Paths.Map() {
		if !graphPaths()[template].MatchString(path) {
			continue
		}
		if fixed := len(template) - 100*strings.Count(template, "{"); operation == nil || fixed > longestFixed {
			longestFixed, operation = fixed, item.GetOperation(method)
		}
	}
	return operation
}

// checkProperties fails the test when a property is not in the description. The schemas allow
// additional properties, so they would not catch a misspelled name. It does not check errors,
// objects with a type annotation, and annotations.
func checkProperties(t *testing.T, schema *openapi3.Schema, body any, where string) {
	t.Helper()
	object, isObject := body.(map[string]any)
	if !isObject {
		return
	}
	if rows, ok := object["value"].([]any); ok {
		if list := propertyOf(schema, "value"); list != nil && list.Items != nil {
			for _, row := range rows {
				checkProperties(t, list.Items.Value, row, where)
			}
		}
		return
	}
	kind, _ := object["@odata.type"].(string)
	for name := range object {
		if !strings.Contains(name, "@") && kind == "" && object["error"] == nil && propertyOf(schema, name) == nil {
			t.Errorf("%s: the description has no property %q", where, name)
		}
	}
}

// propertyOf returns the schema of a property, or nil.
func propertyOf(schema *openapi3.Schema, name string) *openapi3.Schema {
	if p := schema.Properties[name]; p != nil {
		return p.Value
	}
	for _, element := range schema.AllOf {
		if p := propertyOf(element.Value, name); p != nil {
			return p
		}
	}
	return nil
}

func base64url(text string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(text) }

func TestOpenAPICheckFindsWrongAnswers(t *testing.T) {
	doc, err := graphDocument()
	if err != nil {
		t.Fatal(err)
	}
	schema := operationOf(doc, "GET", "/domains/a.example").Responses.Status(http.StatusOK).Value.Content["application/json"].Schema.Value
	if schema.VisitJSON(map[string]any{"isVerified": "yes"}, openapi3.VisitAsResponse()) == nil {
		t.Error("a domain with a text in isVerified is accepted")
	}
	if propertyOf(schema, "isVerifid") != nil || propertyOf(schema, "isVerified") == nil {
		t.Error("propertyOf does not distinguish the properties")
	}
}
