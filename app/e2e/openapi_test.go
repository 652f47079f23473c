// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// document is the OpenAPI document of the built binary.
type document struct {
	raw              []byte
	operations       []operation
	scopes           map[operation]string // the scope that each operation requires, "" if it requires none
	messageTypeCount int                  // the number of webhook message types in the document
	validator        validator.Validator
}

// operation is an operation of the API. path has parameters in braces.
type operation struct{ method, path string }

// messagePath, followed by a message type, is the path under which publishedDocument adds a webhook
// message.
const messagePath = "/messages/"

// publishedDocument runs `tenantry openapi` once and returns the document. In its validator,
// webhook messages and the component schemas with properties allow no additional members. The
// validator checks only paths, so publishedDocument adds the webhook messages as paths.
var publishedDocument = sync.OnceValues(func() (document, error) {
	build, err := releaseBuild()
	if err != nil {
		return document{}, err
	}
	raw, err := exec.Command(build.binary, "openapi", "--json").Output()
	if err != nil {
		return document{}, err
	}
	published := document{raw: raw, scopes: map[operation]string{}}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return published, err
	}
	for path, item := range content["paths"].(map[string]any) {
		for method, described := range item.(map[string]any) {
			op := operation{strings.ToUpper(method), path}
			published.operations = append(published.operations, op)
			published.scopes[op], _ = described.(map[string]any)["x-required-scope"].(string)
		}
	}
	messages := object(content["webhooks"].(map[string]any))
	published.messageTypeCount = len(messages)
	for kind, item := range messages {
		object(item.(map[string]any)).valueAt("post.requestBody.content").(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)["additionalProperties"] = false
		content["paths"].(map[string]any)[messagePath+kind] = item
	}
	delete(content, "webhooks")
	slices.SortFunc(published.operations, func(a, b operation) int {
		return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
	})
	for _, s := range content["components"].(map[string]any)["schemas"].(map[string]any) {
		if schema := s.(map[string]any); schema["properties"] != nil {
			schema["additionalProperties"] = false
		}
	}
	closedDocument, err := json.Marshal(content)
	if err != nil {
		return published, err
	}
	parsed, err := libopenapi.NewDocument(closedDocument)
	if err != nil {
		return published, err
	}
	documentValidator, errs := validator.NewValidator(parsed)
	published.validator = documentValidator
	return published, errors.Join(errs...)
})

// validatorMutex serializes validations, because the validator compiles schemas during a
// validation.
var validatorMutex sync.Mutex

// checkDocumented checks a response against the rules for all responses. If the document has the
// operation of the request, it also checks the response against this operation.
func checkDocumented(t *testing.T, method, path string, got reply) error {
	t.Helper()
	document, err := publishedDocument()
	must(t, err)
	if got.header.Get("X-Request-ID") == "" {
		return errors.New("no X-Request-ID")
	}
	if got.status >= 400 {
		if err := checkProblem(got); err != nil {
			return err
		}
	}
	if !document.hasOperation(method, path) {
		return nil
	}
	request, err := http.NewRequest(method, "http://localhost"+path, http.NoBody)
	if err != nil {
		return err
	}
	answer := &http.Response{StatusCode: got.status, Header: got.header, Body: io.NopCloser(bytes.NewReader(got.raw)), Request: request}
	validatorMutex.Lock()
	defer validatorMutex.Unlock()
	if ok, problems := document.validator.ValidateHttpResponse(request, answer); !ok {
		return fmt.Errorf("the validator reports: %v", problems)
	}
	return nil
}

// checkDocumentedMessage checks a message to a webhook against the entry of its type in the
// document.
func checkDocumentedMessage(header http.Header, kind string, body []byte) error {
	document, err := publishedDocument()
	if err != nil {
		return err
	}
	sent, err := http.NewRequest(http.MethodPost, "http://localhost"+messagePath+kind, bytes.NewReader(body))
	if err != nil {
		return err
	}
	sent.Header = header
	validatorMutex.Lock()
	defer validatorMutex.Unlock()
	if ok, problems := document.validator.ValidateHttpRequest(sent); !ok {
		return fmt.Errorf("the validator reports: %v", problems)
	}
	return nil
}

func checkProblem(got reply) error {
	switch {
	case got.header.Get("Content-Type") != "application/problem+json":
		return fmt.Errorf("an error has the content type %q, want application/problem+json", got.header.Get("Content-Type"))
	case got.valueAt("type") != "/docs/errors/"+got.code() || got.code() == "":
		return errors.New("the error has no code, or its type belongs to a different code")
	case got.text("title") == "" || got.text("detail") == "":
		return errors.New("the error lacks a title or a detail")
	case got.valueAt("status") != float64(got.status) || got.valueAt("request_id") != got.header.Get("X-Request-ID"):
		return errors.New("the member status or request_id differs from the status line or the header of the response")
	case got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") == "":
		return errors.New("503 without Retry-After")
	}
	if (got.code() == "dns_conflict") != (got.object["conflicts"] != nil) {
		return errors.New("an error must have the member conflicts exactly if its code is dns_conflict")
	}
	if err := checkWorkspaces(got); err != nil {
		return err
	}
	if (got.code() == "insufficient_scope") != (got.object["required_scope"] != nil) {
		return errors.New("an error must have the member required_scope exactly if its code is insufficient_scope")
	}
	members := slices.Collect(maps.Keys(got.object))
	if i := slices.IndexFunc(members, func(name string) bool {
		return !slices.Contains([]string{"type", "title", "status", "detail", "code", "request_id", "errors", "conflicts", "workspaces", "required_scope"}, name)
	}); i >= 0 {
		return fmt.Errorf("the error has the unknown member %s", members[i])
	}
	return nil
}

// checkWorkspaces checks that a refusal whose code ends in _workspace_required lists workspaces. Of
// the other refusals, only invalid_request at body.workspace_id may list workspaces.
func checkWorkspaces(got reply) error {
	_, listsWorkspaces := got.object["workspaces"]
	requiresWorkspace := strings.HasSuffix(got.code(), "_workspace_required")
	isAboutWorkspace := got.code() == "invalid_request" && slices.ContainsFunc(got.objects("errors"), func(e object) bool {
		return e.text("location") == "body.workspace_id"
	})
	if requiresWorkspace && !listsWorkspaces || listsWorkspaces && !requiresWorkspace && !isAboutWorkspace {
		return errors.New("a refusal for a missing workspace lists no workspaces, or a different refusal lists them")
	}
	return nil
}

// hasOperation reports whether the document has the operation of a request.
func (d document) hasOperation(method, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return slices.ContainsFunc(d.operations, func(op operation) bool {
		return op.method == method && pathMatches(strings.Split(op.path, "/"), strings.Split(path, "/"))
	})
}

// pathMatches reports whether the segments of a path match the segments of a template with
// parameters.
func pathMatches(template, path []string) bool {
	if len(template) != len(path) {
		return false
	}
	for i, segment := range template {
		if segment != path[i] && (!strings.HasPrefix(segment, "{") || path[i] == "") {
			return false
		}
	}
	return true
}

// TestServedOpenAPIMatchesTheCommand compares the served JSON document with the output of `tenantry
// openapi --json`. Of the served YAML document it checks only the OpenAPI version.
func TestServedOpenAPIMatchesTheCommand(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t)
	document, err := publishedDocument()
	must(t, err)
	served := c.do("GET", c.ready.APIURL+"/openapi.json", "", nil)
	if served.status != http.StatusOK || !bytes.Equal(served.raw, document.raw) {
		t.Errorf("/openapi.json answered %d, want 200 and the document that `tenantry openapi --json` prints", served.status)
	}
	if len(document.operations) < 15 {
		t.Errorf("the document has only %d operations, want at least 15", len(document.operations))
	}
	if version := served.text("openapi"); !strings.HasPrefix(version, "3.1") {
		t.Errorf("the document has the OpenAPI version %s, want 3.1", version)
	}
	yaml := c.do("GET", c.ready.APIURL+"/openapi.yaml", "", nil)
	if yaml.status != http.StatusOK || !bytes.Contains(yaml.raw, []byte("openapi: 3.1")) {
		t.Errorf("/openapi.yaml answered %d, want 200 and OpenAPI 3.1", yaml.status)
	}
}

// TestGeneratedClientsOnboardATenant runs the onboarding with a Go and a TypeScript client. `make
// test-programs` generates the clients from docs/openapi.yaml and compiles them. `make check`
// compares docs/openapi.yaml with the document of the binary.
func TestGeneratedClientsOnboardATenant(t *testing.T) {
	t.Parallel()
	folder := filepath.Dir(testserver.Program(t, "clients/smoke"))
	for language, command := range map[string][]string{"go": {"./smoke"}, "typescript": {"node", "smoke.js"}} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			c := sharedSandbox(t).newAccount(nil)
			tenant := c.newTenant(nil)
			zone := c.newZone()
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "TENANTRY_URL="+c.ready.APIURL, "TENANTRY_KEY="+c.key,
				"TENANTRY_CONTROL="+c.ready.ControlURL, "TENANTRY_TENANT="+tenant.guid, "TENANTRY_DOMAIN="+zone)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("the client failed: %v\n%s", err, out)
			}
			checkValues(t, tenant.get(tenant.path("")).object, object{"domain_count": 1, "mailbox_count": 1, "readiness.domains_verified": 1})
		})
	}
}

// TestAPITakesNoDNSCredential checks that no request body has a member with one of the names of
// accountFields. The exception is api_key of a sending platform. The test also checks that DNS
// operations take no body members, that no integration can be added at a DNS provider, and that
// paths such as /v1/dns-connections have no route.
func TestAPITakesNoDNSCredential(t *testing.T) {
	t.Parallel()
	document, err := publishedDocument()
	must(t, err)
	var doc object
	must(t, json.Unmarshal(document.raw, &doc))
	credentialFields, bodies := accountFields(t), 0
	for path, item := range doc["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			body := operation.(map[string]any)["requestBody"]
			if body == nil {
				continue
			}
			bodies++
			names := schemaMembers(doc, body)
			if path == "/v1/integrations" { // this operation takes the key of a sending platform
				names = slices.DeleteFunc(names, func(name string) bool { return name == "api_key" })
			}
			if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(credentialFields, name) }) || strings.Contains(path, "/dns/") && len(names) > 0 {
				t.Errorf("%s %s takes the members %v, want no DNS credential", method, path, names)
			}
		}
	}
	if bodies < 2 || len(credentialFields) < 8 {
		t.Errorf("%d request bodies and the credential fields %v were found, want at least 2 bodies and 8 fields", bodies, credentialFields)
	}
	c := sharedSandbox(t)
	for _, provider := range []string{"cloudflare", "powerdns", "rfc2136"} {
		c.expect("POST", "/v1/integrations", object{"provider": provider, "name": "x", "api_key": "x"}, 400, "unknown_provider")
	}
	for _, path := range []string{"/v1/dns-connections", "/v1/dns/connections", "/v1/domains/x/dns/connections"} {
		got := c.do("POST", c.ready.APIURL+path, c.key, object{"provider": "cloudflare", "api_token": "x"})
		if got.status != http.StatusNotFound || got.text("code") != "route_not_found" {
			t.Errorf("POST %s is answered %d %s, want route_not_found", path, got.status, got.raw)
		}
	}
}

// accountFields returns the names of the fields of DNS plugins that an account sets, for example
// its credential.
func accountFields(t *testing.T) (names []string) {
	t.Helper()
	plugins, err := filepath.Glob(filepath.Join(requirePrograms(t, releaseBuild).folder, "plugins", "dns-*"))
	if err != nil || len(plugins) < 3 {
		t.Fatalf("the DNS plugins are %v, want at least 3 (%v)", plugins, err)
	}
	for _, plugin := range plugins {
		raw, err := exec.Command(plugin, "describe").Output()
		must(t, err)
		var description struct {
			Fields []struct {
				Name    string
				Account bool
			}
		}
		must(t, json.Unmarshal(raw, &description))
		for _, field := range description.Fields {
			if field.Account {
				names = append(names, field.Name)
			}
		}
	}
	return names
}

// schemaMembers returns the names of all members, at any depth, that a part of the document
// describes.
func schemaMembers(doc object, part any) (names []string) {
	switch part := part.(type) {
	case []any:
		for _, element := range part {
			names = append(names, schemaMembers(doc, element)...)
		}
	case map[string]any:
		if ref, ok := part["$ref"].(string); ok {
			schema := strings.TrimPrefix(ref, "#/components/schemas/")
			return schemaMembers(doc, doc["components"].(map[string]any)["schemas"].(map[string]any)[schema])
		}
		for name, element := range part {
			if properties, ok := element.(map[string]any); ok && name == "properties" {
				for member := range properties {
					names = append(names, member)
				}
			}
			names = append(names, schemaMembers(doc, element)...)
		}
	}
	return names
}
