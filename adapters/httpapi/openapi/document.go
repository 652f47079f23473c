// SPDX-License-Identifier: Apache-2.0

// Package openapi completes the OpenAPI document of the HTTP API. The huma library derives schemas
// from the types of requests and answers. This package adds the texts, examples, headers and error
// answers.
//
// New returns the document without operations: introduction.md, the tags and the components.
// Describe and DescribeParameters document one operation. Finish completes the document, and Render
// returns it as JSON and as YAML.
//
// Start reading with document.go. operation.go documents operations. components.go has the parts
// that operations share: error answers, examples of errors, and headers. events.go has the schemas
// of events, and the requests to webhooks.
package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/core/fault"
)

// apiVersion is the version of the API, not of the program.
const apiVersion = "1.0.0"

// introduction is the text that precedes the operations in the document.
//
//go:embed introduction.md
var introduction string

// New returns the document without operations. tags describe the groups of operations.
func New(tags []*huma.Tag) *huma.OpenAPI {
	_, description, _ := strings.Cut(introduction, "\n") // the first line is the license
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "tenantry API", Version: apiVersion, Description: description,
			Contact: &huma.Contact{Name: "tenantry", URL: "https://github.com/tenantry/tenantry/issues"},
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers:    []*huma.Server{{URL: "/", Description: "The service that this document came from."}},
		Components: components(),
		Tags:       tags,
	}
}

// Documents is the OpenAPI document as JSON and as YAML.
type Documents struct{ JSON, YAML []byte }

// yamlHead is the beginning of the YAML form of the document.
const yamlHead = "# SPDX-License-Identifier: Apache-2.0\n# Generated from the code by `make openapi`.\n"

// Render returns doc as JSON and as YAML.
func Render(doc *huma.OpenAPI) (Documents, error) {
	compact, err := json.Marshal(doc)
	if err != nil {
		return Documents{}, fmt.Errorf("render the document: %w", err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, compact, "", "  "); err != nil {
		return Documents{}, fmt.Errorf("render the document: %w", err)
	}
	yaml, err := doc.YAML()
	if err != nil {
		return Documents{}, fmt.Errorf("render the document as YAML: %w", err)
	}
	return Documents{JSON: append(indented.Bytes(), '\n'), YAML: append([]byte(yamlHead), yaml...)}, nil
}

// Finish completes the document after all operations are registered. values maps an error code to
// the fault.Error.Values that the example of this error shows.
func Finish(doc *huma.OpenAPI, values map[fault.Code]any) {
	addExamples(doc.Components, doc.Components.Responses, values)
	for _, item := range doc.Paths {
		for _, op := range guard.OperationsOf(item) {
			addExamples(doc.Components, op.Responses, values)
		}
	}
	doc.Webhooks = webhooks(doc.Components.Schemas)
	completeAnswerSchemas(doc)
}

// completeAnswerSchemas allows unknown members in the schemas of answers, because later versions
// may add members. It also adds null to the enums of members that can be null. It does not change
// the schemas of request bodies.
func completeAnswerSchemas(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas.Map()
	inRequests := map[string]bool{}
	for _, item := range doc.Paths {
		for _, op := range guard.OperationsOf(item) {
			if op.RequestBody != nil {
				markComponents(schemas, op.RequestBody.Content["application/json"].Schema, inRequests)
			}
		}
	}
	for name, s := range maps.All(schemas) {
		if inRequests[name] {
			continue
		}
		s.AdditionalProperties = nil
		for _, p := range s.Properties {
			if p.Nullable && p.Enum != nil {
				p.Enum = append(p.Enum, nil) // huma lists null only in the type
			}
		}
	}
}

// markComponents adds to seen the names of the components to which s refers by $ref, also through
// the parts of s.
func markComponents(schemas map[string]*huma.Schema, s *huma.Schema, seen map[string]bool) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok && !seen[name] {
		seen[name] = true
		markComponents(schemas, schemas[name], seen)
	}
	for _, part := range slices.Concat([]*huma.Schema{s.Items}, s.AnyOf, s.OneOf, s.AllOf, slices.Collect(maps.Values(s.Properties))) {
		markComponents(schemas, part, seen)
	}
}
