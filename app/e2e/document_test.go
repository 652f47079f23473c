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
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

// document is what the built binary publishes.
type document struct {
	raw        []byte
	operations []operation
	check      validator.Validator
}

type operation struct{ method, path string }

// published asks the binary itself, once. Every schema is closed, so that a
// member that the document does not know is noticed.
var published = sync.OnceValues(func() (document, error) {
	b, err := release()
	if err != nil {
		return document{}, err
	}
	raw, err := exec.Command(b.binary, "openapi", "--json").Output()
	if err != nil {
		return document{}, err
	}
	d := document{raw: raw}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return d, err
	}
	for path, item := range doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			d.operations = append(d.operations, operation{strings.ToUpper(method), path})
		}
	}
	slices.SortFunc(d.operations, func(a, b operation) int {
		return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
	})
	for _, s := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if schema := s.(map[string]any); schema["properties"] != nil {
			schema["additionalProperties"] = false
		}
	}
	closed, err := json.Marshal(doc)
	if err != nil {
		return d, err
	}
	parsed, err := libopenapi.NewDocument(closed)
	if err != nil {
		return d, err
	}
	check, errs := validator.NewValidator(parsed)
	d.check = check
	return d, errors.Join(errs...)
})

// validating lets one answer at a time through: the validator compiles schemas
// as it goes.
var validating sync.Mutex

// documented holds an answer against the contract of all answers and against
// its operation in the document.
func documented(t *testing.T, method, path string, got reply) error {
	t.Helper()
	d, err := published()
	if err != nil {
		t.Fatal(err)
	}
	if got.header.Get("X-Request-ID") == "" {
		return errors.New("no X-Request-ID")
	}
	if got.status >= 400 {
		if err := problem(got); err != nil {
			return err
		}
	}
	if !d.knows(method, path) {
		return nil
	}
	asked, err := http.NewRequest(method, "http://localhost"+path, http.NoBody)
	if err != nil {
		return err
	}
	answer := &http.Response{StatusCode: got.status, Header: got.header, Body: io.NopCloser(bytes.NewReader(got.raw)), Request: asked}
	validating.Lock()
	defer validating.Unlock()
	if ok, problems := d.check.ValidateHttpResponse(asked, answer); !ok {
		return fmt.Errorf("not as documented: %v", problems)
	}
	return nil
}

// problem checks what every refusal has.
func problem(got reply) error {
	switch {
	case got.header.Get("Content-Type") != "application/problem+json":
		return fmt.Errorf("an error as %q", got.header.Get("Content-Type"))
	case got.at("type") != "/docs/errors/"+got.code() || got.code() == "":
		return errors.New("no code, or a type of another code")
	case got.text("title") == "" || got.text("detail") == "":
		return errors.New("no title or detail")
	case got.at("status") != float64(got.status) || got.at("request_id") != got.header.Get("X-Request-ID"):
		return errors.New("status or request_id unlike the head's")
	case got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") == "":
		return errors.New("503 without Retry-After")
	}
	if (got.code() == "dns_conflict") != (got.object["conflicts"] != nil) {
		return errors.New("dns_conflict without conflicts, or the other way round")
	}
	if strings.HasSuffix(got.code(), "_workspace_required") != (got.object["workspaces"] != nil) {
		return errors.New("a workspace to choose without workspaces, or the other way round")
	}
	members := slices.Collect(maps.Keys(got.object))
	if i := slices.IndexFunc(members, func(name string) bool {
		return !slices.Contains([]string{"type", "title", "status", "detail", "code", "request_id", "errors", "conflicts", "workspaces"}, name)
	}); i >= 0 {
		return fmt.Errorf("the unknown member %s", members[i])
	}
	return nil
}

// knows reports whether a request is for an operation of the document.
func (d document) knows(method, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return slices.ContainsFunc(d.operations, func(op operation) bool {
		return op.method == method && fits(strings.Split(op.path, "/"), strings.Split(path, "/"))
	})
}

func fits(template, path []string) bool {
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

// TestServedDocument: what the service serves is what the binary prints.
func TestServedDocument(t *testing.T) {
	t.Parallel()
	c := common(t)
	d, err := published()
	if err != nil {
		t.Fatal(err)
	}
	served := c.do("GET", c.ready.APIURL+"/openapi.json", "", nil)
	if served.status != http.StatusOK || !bytes.Equal(served.raw, d.raw) {
		t.Errorf("/openapi.json answered %d, not the document that `tenantry openapi` prints", served.status)
	}
	if len(d.operations) < 15 {
		t.Errorf("only %d operations", len(d.operations))
	}
	if version := served.text("openapi"); !strings.HasPrefix(version, "3.1") {
		t.Errorf("OpenAPI %s", version)
	}
	yaml := c.do("GET", c.ready.APIURL+"/openapi.yaml", "", nil)
	if yaml.status != http.StatusOK || !bytes.Contains(yaml.raw, []byte("openapi: 3.1")) {
		t.Errorf("/openapi.yaml answered %d", yaml.status)
	}
}
