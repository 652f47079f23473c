// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// publicRequest is a request that a client can send without an accepted API key.
type publicRequest struct {
	// route is the folder and the pattern of the route, as publicRoutes returns it. It is empty for
	// a path that publicRoutes does not return.
	route           string
	method, path    string
	header          string // further lines of the head
	body            string // sent by the clients that do not read the answer
	status          int
	onAdminListener bool // the admin listener serves the request, not the API listener
}

const (
	formHeader = "Content-Type: application/x-www-form-urlencoded\r\n"
	jsonHeader = "Content-Type: application/json\r\nIdempotency-Key: slow\r\n"
)

// unknownKeyHeader has a text in the form of an API key, so the service searches for it in the
// database.
var unknownKeyHeader = "Authorization: Bearer tny_live_" + strings.Repeat("0", 48) + "\r\n"

// publicRequests has a request for every route that needs no key, and further requests that are
// refused.
var publicRequests = []publicRequest{
	{route: "adapters/httpapi /{$}", method: "GET", path: "/", header: "Accept: text/html\r\n", status: 200},
	{route: "adapters/httpapi GET /openapi.json", method: "GET", path: "/openapi.json", status: 200},
	{route: "adapters/httpapi GET /openapi.yaml", method: "GET", path: "/openapi.yaml", status: 200},
	{route: "adapters/httpapi GET /docs", method: "GET", path: "/docs", status: 200},
	{route: "adapters/httpapi GET /docs/guide", method: "GET", path: "/docs/guide", status: 200},
	{route: "adapters/httpapi GET /docs/guide/{name}", method: "GET", path: "/docs/guide/webhooks", status: 200},
	{route: "adapters/httpapi GET /docs/assets/{file}", method: "GET", path: "/docs/assets/swagger-ui-bundle.js", status: 200},
	{route: "adapters/httpapi GET /docs/errors", method: "GET", path: "/docs/errors", status: 200},
	{route: "adapters/httpapi GET /docs/errors/{code}", method: "GET", path: "/docs/errors/invalid_request", status: 200},
	{route: "adapters/console callback", method: "GET", path: "/connect/microsoft365/callback?code=x&state=x", status: 400},
	{route: "adapters/console signin", method: "GET", path: "/connect/microsoft365/signin?code=x&state=x", status: 400},
	{route: "adapters/console confirm", method: "POST", path: "/connect/microsoft365/confirm", header: formHeader, body: "decision=connect", status: 400},
	{route: "adapters/console /", method: "POST", path: "/connect/nothing", header: formHeader, body: "decision=connect", status: 404},
	{route: "app/server GET /metrics", method: "GET", path: "/metrics", status: 200, onAdminListener: true},
	{route: "app/server GET /livez", method: "GET", path: "/livez", status: 200, onAdminListener: true},
	{route: "app/server GET /readyz", method: "GET", path: "/readyz?verbose", status: 200, onAdminListener: true},
	{method: "GET", path: "/nothing", status: 404},
	{method: "GET", path: "/v1/tenants", status: 401},
	{method: "GET", path: "/v1/tenants", header: unknownKeyHeader, status: 401},
	{method: "POST", path: "/v1/tenants/00000000-0000-0000-0000-000000000001/domains", header: jsonHeader, body: `{"domain":"a.example"}`, status: 401},
	{method: "POST", path: "/v1/tenants/00000000-0000-0000-0000-000000000001/domains", header: jsonHeader + unknownKeyHeader, body: `{"domain":"a.example"}`, status: 401},
}

func (q publicRequest) String() string {
	name := q.method + " " + q.path
	if strings.Contains(q.header, unknownKeyHeader) {
		name += " with an unknown key"
	}
	return name
}

// TestPublicRequestsAreComplete checks that publicRequests has every route of the listeners, and
// every operation of the OpenAPI document that needs no key.
func TestPublicRequestsAreComplete(t *testing.T) {
	t.Parallel()
	routes := publicRoutes(t)
	for _, route := range routes {
		if !slices.ContainsFunc(publicRequests, func(q publicRequest) bool { return q.route == route }) {
			t.Errorf("publicRequests has no request for %s", route)
		}
	}
	for _, q := range publicRequests {
		if q.route != "" && !slices.Contains(routes, q.route) {
			t.Errorf("%s has the route %s, want a route of the source code", q, q.route)
		}
	}
	published, err := publishedDocument()
	must(t, err)
	var doc struct {
		Paths map[string]map[string]struct{ Security []map[string][]string }
	}
	must(t, json.Unmarshal(published.raw, &doc))
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if len(op.Security) == 0 && !slices.ContainsFunc(publicRequests, func(q publicRequest) bool { return q.method == strings.ToUpper(method) && q.path == path }) {
				t.Errorf("publicRequests has no request for %s %s, which needs no key", method, path)
			}
		}
	}
	if len(routes) < 16 || len(doc.Paths) < 40 {
		t.Errorf("%d routes and %d documented paths were found, want at least 16 and 40", len(routes), len(doc.Paths))
	}
}

// publicRoutes returns the routes that the source code of the service adds to a mux. The operations
// of the API, which huma adds, are not among them. The sandbox and the simulators are not part of
// the service.
func publicRoutes(t *testing.T) (routes []string) {
	t.Helper()
	const root = "../.."
	walk := func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel(root, filepath.Dir(path))
		switch {
		case entry.IsDir() && slices.Contains([]string{"sandbox", "testserver", "testdata", "e2e"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if pattern, ok := addedPattern(node); ok {
				routes = append(routes, filepath.ToSlash(folder)+" "+pattern)
			}
			return true
		})
		return nil
	}
	for _, layer := range []string{"adapters", "app"} {
		must(t, filepath.WalkDir(filepath.Join(root, layer), walk))
	}
	return routes
}

// addedPattern returns the pattern of a call of Handle or HandleFunc. If the pattern is a sum of
// strings, it returns the last operand. ok is false for any other node, and if the pattern or the
// operand is not a string literal.
func addedPattern(node ast.Node) (pattern string, ok bool) {
	call, isCall := node.(*ast.CallExpr)
	if !isCall || len(call.Args) != 2 {
		return "", false
	}
	function, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod || function.Sel.Name != "Handle" && function.Sel.Name != "HandleFunc" {
		return "", false
	}
	argument := call.Args[0]
	if sum, isSum := argument.(*ast.BinaryExpr); isSum {
		argument = sum.Y
	}
	literal, isLiteral := argument.(*ast.BasicLit)
	if !isLiteral {
		return "", false
	}
	pattern, err := strconv.Unquote(literal.Value)
	return pattern, err == nil
}
