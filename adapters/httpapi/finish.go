// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"maps"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// finish brings the document into its published form once all operations are
// in it.
func finish(doc *huma.OpenAPI) {
	exampleComponents(doc.Components, doc.Components.Responses)
	for _, item := range doc.Paths {
		for _, op := range operationsOf(item) {
			exampleComponents(doc.Components, op.Responses)
		}
	}
	openAnswers(doc)
}

// openAnswers lets answers gain members later: only what callers send is
// closed to unknown ones.
func openAnswers(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas.Map()
	sent := map[string]bool{}
	for _, item := range doc.Paths {
		for _, op := range operationsOf(item) {
			if op.RequestBody != nil {
				mark(schemas, op.RequestBody.Content["application/json"].Schema, sent)
			}
		}
	}
	for name, s := range maps.All(schemas) {
		if sent[name] {
			continue
		}
		s.AdditionalProperties = nil
		for _, p := range s.Properties {
			if p.Nullable && p.Enum != nil {
				p.Enum = append(p.Enum, nil) // huma says null in the type alone
			}
		}
	}
}

// mark notes the names of the components that a schema is made of.
func mark(schemas map[string]*huma.Schema, s *huma.Schema, seen map[string]bool) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok && !seen[name] {
		seen[name] = true
		mark(schemas, schemas[name], seen)
	}
	mark(schemas, s.Items, seen)
	for _, p := range s.Properties {
		mark(schemas, p, seen)
	}
}
