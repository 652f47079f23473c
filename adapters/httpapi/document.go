// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// apiVersion is the version of the contract, not of the program.
const apiVersion = "1.0.0"

// introduction is what the document says before the operations.
//
//go:embed introduction.md
var introduction string

// The tags, one for each resource.
const (
	tagTenants   = "Tenants"
	tagDomains   = "Domains"
	tagDNS       = "DNS"
	tagMailboxes = "Mailboxes"
	tagLimits    = "Send limits"
	tagSending   = "Integrations"
	tagKeys      = "API keys"
)

// about is the document without its operations.
func about() *huma.OpenAPI {
	_, description, _ := strings.Cut(introduction, "\n") // its first line is the licence
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
			{Name: tagDomains, Description: "Add, verify and sign the custom domains of a tenant."},
			{Name: tagDNS, Description: "The DNS of a domain by the domain's own id."},
			{Name: tagMailboxes, Description: "Provision, change and read shared mailboxes."},
			{Name: tagLimits, Description: "Limit what mailboxes send a day, and see what was done about it."},
			{Name: tagSending, Description: "Connect mailboxes to sending platforms."},
			{Name: tagKeys, Description: "Rotate the key that a caller uses."},
		},
	}
}

// Documents is the OpenAPI document in both notations.
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

// Document returns the OpenAPI document. It needs no services, so it is built
// once for the process.
func Document() (Documents, error) { return document() }

var document = sync.OnceValues(func() (Documents, error) {
	api := newAPI(http.NewServeMux())
	operations(api, Options{})
	return render(api.OpenAPI())
})
