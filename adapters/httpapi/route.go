// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/core/fault"
)

// route is what a path template and method stand for. op is nil for pages.
type route struct {
	pattern string // "GET /v1/tenants/{tenant_id}", "" when unknown
	path    string // the template alone
	op      *huma.Operation
	terms   terms
}

// routesOf lists the operations of the document by their mux pattern.
func routesOf(doc *huma.OpenAPI) map[string]route {
	routes := map[string]route{}
	for path, item := range doc.Paths {
		for _, op := range operationsOf(item) {
			pattern := op.Method + " " + path
			routes[pattern] = route{pattern: pattern, path: path, op: op, terms: termsOf(op)}
		}
	}
	return routes
}

// fixedPaths lists the paths without a parameter, with the methods they have.
// A template that matches such a path too does not mean it: tenants/connect-url
// is no tenant.
func fixedPaths(doc *huma.OpenAPI) map[string]string {
	fixed := map[string]string{}
	for path, item := range doc.Paths {
		if strings.Contains(path, "{") {
			continue
		}
		var methods []string
		for _, op := range operationsOf(item) {
			methods = append(methods, op.Method)
			if op.Method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
		fixed[path] = strings.Join(methods, ", ")
	}
	return fixed
}

// look finds what a request is for, without any effect.
func (g *guard) look(r *http.Request) *exchange {
	e := &exchange{}
	if !clean(r.URL.EscapedPath()) {
		return e
	}
	if g.pages != nil && strings.HasPrefix(r.URL.Path, "/connect/") {
		e.page, e.known = true, true
		e.route = route{pattern: "/connect/", path: "/connect/"}
		return e
	}
	handler, pattern := g.mux.Handler(r)
	_, path, _ := strings.Cut(pattern, " ")
	if allow, ok := g.fixed[literal(r.URL)]; ok && path != r.URL.Path {
		e.allow = allow
		return e
	}
	if pattern == "" {
		// The mux's own answer tells an unknown path from a wrong method.
		a := newAnswer(http.Header{})
		handler.ServeHTTP(a, r)
		e.allow = a.header.Get("Allow")
		return e
	}
	e.known = true
	if known, ok := g.routes[pattern]; ok {
		e.route = known
		return e
	}
	e.route = route{pattern: pattern, path: path}
	return e
}

// literal is a path without its escapes, "" when one of them hides a slash.
func literal(u *url.URL) string {
	if strings.Count(u.Path, "/") != strings.Count(u.EscapedPath(), "/") {
		return ""
	}
	return u.Path
}

// clean reports whether a path has no empty and no dot segment. The mux would
// redirect others; we never do.
func clean(path string) bool {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return false
	}
	segments := strings.Split(rest, "/")
	for i, s := range segments {
		if s == "." || s == ".." || (s == "" && i < len(segments)-1) {
			return false
		}
	}
	return true
}

// find answers for paths and methods that do not exist.
func (g *guard) find(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch e := exchangeOf(r.Context()); {
		case e.known:
			next.ServeHTTP(w, r)
		case e.allow != "":
			w.Header().Set("Allow", e.allow)
			refuse(w, r, fault.WrongMethod.With("the path exists, but not with this method"))
		default:
			refuse(w, r, fault.RouteNotFound.With("no operation or page has this path"))
		}
	})
}
