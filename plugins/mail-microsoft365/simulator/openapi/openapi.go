// SPDX-License-Identifier: Apache-2.0

// Package openapi checks requests and answers of Graph against the OpenAPI description in
// simulator/testdata. Only tests import it.
package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Description has the described paths of Graph. The keys match the paths of requests.
type Description map[*regexp.Regexp]*openapi3.PathItem

// templateParameter matches a parameter in a quoted path template.
var templateParameter = regexp.MustCompile(`\\\{[^}]*\\\}`)

// Load reads the description from the folder simulator/testdata.
func Load(testdata string) (Description, error) {
	loader := openapi3.NewLoader()
	loader.IsExternalRefsAllowed = true // the second file refers to the first
	d := Description{}
	for _, name := range []string{"subset", "subscriptions"} {
		doc, err := loader.LoadFromFile(filepath.Join(testdata, "microsoft-graph-"+name+".openapi.yaml"))
		if err != nil {
			return nil, err
		}
		for template, item := range doc.Paths.Map() {
			d[regexp.MustCompile("^"+templateParameter.ReplaceAllString(regexp.QuoteMeta(template), `[^/]+`)+"$")] = item
		}
	}
	return d, nil
}

// Operation returns the operation with this method and path, or nil. No path matches two templates.
func (d Description) Operation(method, path string) *openapi3.Operation {
	for pattern, item := range d {
		if pattern.MatchString(path) {
			return item.GetOperation(method)
		}
	}
	return nil
}

// CheckRequest returns an error if a request with this body does not match the description.
func CheckRequest(operation *openapi3.Operation, r *http.Request, body []byte) error {
	for name := range r.URL.Query() {
		// $skiptoken is allowed, because it is a part of a link that Graph creates.
		if name != "$skiptoken" && operation.Parameters.GetByInAndName("query", name) == nil {
			return fmt.Errorf("the description has no parameter %s", name)
		}
	}
	var content openapi3.Content
	if operation.RequestBody != nil {
		content = operation.RequestBody.Value.Content
	}
	return checkBody(content, body, openapi3.VisitAsRequest())
}

// CheckAnswer returns an error if an answer does not match the description.
func CheckAnswer(operation *openapi3.Operation, status int, body []byte) error {
	described := operation.Responses.Status(status)
	if described == nil {
		described = operation.Responses.Value(fmt.Sprintf("%dXX", status/100))
	}
	if described == nil {
		return errors.New("the status is not described")
	}
	return checkBody(described.Value.Content, body, openapi3.VisitAsResponse())
}

// dateTimeFormat accepts a time without an offset. The format date-time requires the offset, but
// Graph omits it in the date of an error.
var dateTimeFormat = openapi3.WithStringFormatValidator("date-time",
	openapi3.NewRegexpFormatValidator(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$`))

func checkBody(content openapi3.Content, raw []byte, as openapi3.SchemaValidationOption) error {
	if len(content) == 0 {
		if len(raw) > 0 {
			return fmt.Errorf("the description has no body, but there is %s", raw)
		}
		return nil
	}
	var body any
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	schema := content["application/json"].Schema.Value
	if err := schema.VisitJSON(body, as, dateTimeFormat, openapi3.DisableSchemaErrorDetails()); err != nil {
		return err
	}
	return checkProperties(schema, body)
}

// checkProperties returns an error if a property of body, or of an element of its list "value", is
// not in the description. The schemas allow additional properties, so they would not catch a
// misspelled name. checkProperties ignores annotations. It skips a list element with a type
// annotation, because the element can have the properties of a derived type.
func checkProperties(schema *openapi3.Schema, body any) error {
	object, _ := body.(map[string]any)
	for name := range object {
		if !strings.Contains(name, "@") && propertyOf(schema, name) == nil {
			return fmt.Errorf("the description has no property %s", name)
		}
	}
	rows, _ := object["value"].([]any)
	for _, row := range rows {
		if element, _ := row.(map[string]any); element["@odata.type"] != nil {
			continue
		}
		if err := checkProperties(propertyOf(schema, "value").Items.Value, row); err != nil {
			return err
		}
	}
	return nil
}

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
