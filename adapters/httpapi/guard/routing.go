// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/core/fault"
)

// route is an operation or a page with its mux pattern. op is nil for pages.
type route struct {
	pattern string // such as "GET /v1/tenants/{tenant_id}", "" when unknown
	path    string // the pattern without the method
	op      *huma.Operation
	rules   OperationRules
	nonNull []string // see nonNullMembers
}

// routesOf returns the operations of the document, keyed by mux pattern.
func routesOf(doc *huma.OpenAPI) map[string]route {
	routes := map[string]route{}
	for path, item := range doc.Paths {
		for _, op := range OperationsOf(item) {
			pattern := op.Method + " " + path
			routes[pattern] = route{pattern: pattern, path: path, op: op, rules: RulesOf(op), nonNull: nonNullMembers(op, doc.Components.Schemas)}
		}
	}
	return routes
}

// fixedPaths maps each path without a parameter to its methods, in the form of an Allow header. A
// path template can match a fixed path, but the methods of the template do not apply to that path.
// For example, /v1/tenants/{tenant_id} matches /v1/tenants/connect-url, but connect-url is not a
// tenant id.
func fixedPaths(doc *huma.OpenAPI) map[string]string {
	fixed := map[string]string{}
	for path, item := range doc.Paths {
		if strings.Contains(path, "{") {
			continue
		}
		var methods []string
		for _, op := range OperationsOf(item) {
			methods = append(methods, op.Method)
			if op.Method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
		fixed[path] = strings.Join(methods, ", ")
	}
	return fixed
}

// newExchange finds the route of a request and returns the request's initial state.
func (g *guard) newExchange(r *http.Request) *exchange {
	e := &exchange{}
	if !isCanonicalPath(r.URL.EscapedPath()) {
		return e
	}
	if g.pages != nil && strings.HasPrefix(r.URL.Path, "/connect/") {
		e.isPage, e.hasHandler = true, true
		e.route = route{pattern: "/connect/", path: "/connect/"}
		return e
	}
	handler, pattern := g.mux.Handler(r)
	_, path, _ := strings.Cut(pattern, " ")
	if allow, ok := g.fixedPaths[unescapedPath(r.URL)]; ok && path != r.URL.Path {
		e.allowedMethods = allow
		return e
	}
	if pattern == "" {
		// The mux's own handler sets Allow for a wrong method, but not for an unknown path.
		muxAnswer := newAnswer(http.Header{})
		handler.ServeHTTP(muxAnswer, r)
		e.allowedMethods = muxAnswer.header.Get("Allow")
		return e
	}
	e.hasHandler = true
	if known, ok := g.routes[pattern]; ok {
		e.route = known
		return e
	}
	e.route = route{pattern: pattern, path: path}
	return e
}

// unescapedPath returns the decoded path of u. It returns "" if the path contains an escaped slash.
func unescapedPath(u *url.URL) string {
	if strings.Count(u.Path, "/") != strings.Count(u.EscapedPath(), "/") {
		return ""
	}
	return u.Path
}

// isCanonicalPath reports whether path has no empty, "." or ".." segment. The last segment may be
// empty. The mux redirects other paths, but the API must not redirect.
func isCanonicalPath(path string) bool {
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

// route answers 404 for an unknown path, and 405 for a method that the path does not have.
func (g *guard) route(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch e := exchangeOf(r.Context()); {
		case e.hasHandler:
			next.ServeHTTP(w, r)
		case e.allowedMethods != "":
			w.Header().Set("Allow", e.allowedMethods)
			Refuse(w, r, fault.WrongMethod.With("the path exists, but not with this method"))
		default:
			Refuse(w, r, fault.RouteNotFound.With("no operation or page has this path"))
		}
	})
}

// checkAccept answers 406 if the caller of an operation accepts neither JSON nor the media type in
// the rules of the operation. Requests for pages are not checked.
func (g *guard) checkAccept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if route := exchangeOf(r.Context()).route; route.op != nil && !acceptsAnswer(r.Header.Values("Accept"), route.rules.MediaType) {
			Refuse(w, r, fault.WrongAccept.With("answers are %s or application/problem+json", cmp.Or(route.rules.MediaType, "application/json")))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// specificity ranks the media ranges that match a JSON answer. The weight of the most specific
// range in an Accept header decides.
var specificity = map[string]int{"*/*": 1, "application/*": 2, "application/problem+json": 3, "application/json": 4}

// acceptsAnswer reports whether the values of an Accept header allow a JSON answer. ownType is the
// media type of an operation that does not answer with JSON, otherwise "". In the header, ownType
// counts as application/json.
func acceptsAnswer(accept []string, ownType string) bool {
	header := strings.TrimSpace(strings.Join(accept, ","))
	if header == "" {
		return true
	}
	rank, accepted := 0, false
	for entry := range strings.SplitSeq(header, ",") {
		kind, params, err := mime.ParseMediaType(entry)
		if ownType != "" && kind == ownType {
			kind = "application/json"
		}
		if err != nil || specificity[kind] <= rank {
			continue
		}
		rank, accepted = specificity[kind], isPositiveWeight(params["q"])
	}
	return accepted
}

func isPositiveWeight(q string) bool {
	if q == "" {
		return true
	}
	weight, err := strconv.ParseFloat(q, 64)
	return err == nil && weight > 0
}
