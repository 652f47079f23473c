// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
)

// apiVersion is the version of the API, not of the program.
const apiVersion = "1.0.0"

// introduction is what the document says before the operations.
//
//go:embed introduction.md
var introduction string

// The tags of the document, one per resource.
const (
	tagTenants   = "Tenants"
	tagDomains   = "Domains"
	tagDNS       = "DNS"
	tagMailboxes = "Mailboxes"
	tagLimits    = "Send limits"
	tagSending   = "Integrations"
	tagKeys      = "API keys"
)

// newDocument returns the document without operations.
func newDocument() *huma.OpenAPI {
	_, description, _ := strings.Cut(introduction, "\n") // the first line is the licence
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "tenantry API", Version: apiVersion, Description: description,
			Contact: &huma.Contact{Name: "tenantry", URL: "https://github.com/tenantry/tenantry/issues"},
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers:    []*huma.Server{{URL: "/", Description: "The service that this document came from."}},
		Components: components(),
		Tags: []*huma.Tag{
			{Name: tagTenants, Description: "Connect, list, synchronize and delete tenants of the mail platform."},
			{Name: tagDomains, Description: "Add and verify the custom domains of a tenant, and enable DKIM signing."},
			{Name: tagDNS, Description: "The DNS of a domain by the domain's own id."},
			{Name: tagMailboxes, Description: "Provision, change and read shared mailboxes."},
			{Name: tagLimits, Description: "Limit how many messages a mailbox sends in a day, and list when mailboxes were blocked and unblocked."},
			{Name: tagSending, Description: "Connect mailboxes to sending platforms."},
			{Name: tagKeys, Description: "Rotate the key that a caller uses."},
		},
	}
}

// Documents is the OpenAPI document as JSON and as YAML.
type Documents struct{ JSON, YAML []byte }

const yamlHead = "# SPDX-License-Identifier: Apache-2.0\n# Generated from the code by `make openapi`.\n"

func render(doc *huma.OpenAPI) (Documents, error) {
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

// Document returns the OpenAPI document. It needs no services. The document is built once per
// process.
func Document() (Documents, error) { return document() }

var document = sync.OnceValues(func() (Documents, error) {
	api := newAPI(http.NewServeMux())
	operations(api, Options{})
	return render(api.OpenAPI())
})

// finishDocument completes the document after all operations are registered.
func finishDocument(doc *huma.OpenAPI) {
	exampleComponents(doc.Components, doc.Components.Responses)
	for _, item := range doc.Paths {
		for _, op := range guard.OperationsOf(item) {
			exampleComponents(doc.Components, op.Responses)
		}
	}
	allowNewAnswerMembers(doc)
}

// allowNewAnswerMembers lets answers gain members in later versions. Only the schemas of request
// bodies forbid unknown members.
func allowNewAnswerMembers(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas.Map()
	sent := map[string]bool{}
	for _, item := range doc.Paths {
		for _, op := range guard.OperationsOf(item) {
			if op.RequestBody != nil {
				markComponents(schemas, op.RequestBody.Content["application/json"].Schema, sent)
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
				p.Enum = append(p.Enum, nil) // huma lists null only in the type
			}
		}
	}
}

// markComponents adds to seen the names of all components that s refers to.
func markComponents(schemas map[string]*huma.Schema, s *huma.Schema, seen map[string]bool) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok && !seen[name] {
		seen[name] = true
		markComponents(schemas, schemas[name], seen)
	}
	markComponents(schemas, s.Items, seen)
	for _, p := range s.Properties {
		markComponents(schemas, p, seen)
	}
}
