// SPDX-License-Identifier: Apache-2.0

// Package pages serves the HTML pages about the API. Home is the page at the root. API shows the
// OpenAPI document in a browser. Guides and Guide explain subjects that concern several operations.
// Errors and Error explain the error codes. Asset serves the scripts, styles and license texts. The
// pages load nothing from other hosts.
//
// assets.go has Asset and AcceptsExplicitly, and pages.go has the pages. The folder examples has
// programs that a guide shows.
package pages

import (
	"embed"
	"html/template"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

//go:embed templates/*.html
var templates embed.FS

// examples has the programs that the guide about webhooks shows. A test runs them.
//
//go:embed examples/verify
var examples embed.FS

// views has the page templates by file name. Templates call inline to split a text at its backticks
// into plain spans and code spans.
var views = template.Must(template.New("").Funcs(template.FuncMap{"inline": inlineSpans}).ParseFS(templates, "templates/*.html"))

// textPolicy is the Content-Security-Policy of pages without scripts. It allows the style sheet of
// this service and data: images.
const textPolicy = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// entry is one error code as its page shows it.
type entry struct {
	fault.Code
	Status int
	Reason string
	From   Origin
}

// Origin says which operations return an error code. All means every operation. An empty Origin
// means no operation.
type Origin struct {
	All        bool
	Operations []string // "GET /v1/tenants"
}

func entryOf(c fault.Code, status int) entry {
	return entry{Code: c, Status: status, Reason: http.StatusText(status)}
}

// group has the error codes of one HTTP status.
type group struct {
	Status int
	Reason string
	Codes  []entry
}

// groupByStatus returns the error codes by ascending status, each group in the order of fault.All.
func groupByStatus(statusOf map[fault.Kind]int) []group {
	var groups []group
	for _, c := range fault.All() {
		e := entryOf(c, statusOf[c.Kind])
		i, found := slices.BinarySearchFunc(groups, e.Status, func(g group, status int) int { return g.Status - status })
		if !found {
			groups = slices.Insert(groups, i, group{Status: e.Status, Reason: e.Reason})
		}
		groups[i].Codes = append(groups[i].Codes, e)
	}
	return groups
}

// Errors returns the handler of the page that lists all error codes. The page never changes, so it
// is rendered once.
func Errors(statusOf map[fault.Kind]int) http.HandlerFunc {
	page := execute("errors.html", groupByStatus(statusOf))
	return func(w http.ResponseWriter, _ *http.Request) { send(w, textPolicy, page) }
}

// Error serves the page of one error code.
func Error(w http.ResponseWriter, c fault.Code, status int, from Origin) {
	e := entryOf(c, status)
	e.From = from
	render(w, "error.html", textPolicy, e)
}

// guide is a page about a subject that concerns several operations. Its template is
// guide-NAME.html.
type guide struct{ Name, Title string }

// guides lists the guides in the order of their index.
var guides = []guide{
	{"requests", "Requests and answers"},
	{"retries", "Retrying a write"},
	{"rate-limits", "Rate limits"},
	{"connect-links", "Connect links"},
	{"dns", "DNS plans and provisioning"},
	{"sending-platforms", "Sending platforms"},
	{"taking-back", "Taking things back"},
	{"events", "Events"},
	{"headroom", "Headroom below the sending limit"},
	{"webhooks", "Webhooks"},
	{"audit", "Audit"},
}

// Home serves the page at the root of the service.
func Home(w http.ResponseWriter, _ *http.Request) { render(w, "home.html", textPolicy, nil) }

// Guides serves the page that lists the guides.
func Guides(w http.ResponseWriter, _ *http.Request) { render(w, "guides.html", textPolicy, guides) }

// Guide serves one guide. It returns false, and writes nothing, when there is no guide with the
// name.
func Guide(w http.ResponseWriter, name string) bool {
	if !slices.ContainsFunc(guides, func(g guide) bool { return g.Name == name }) {
		return false
	}
	render(w, "guide-"+name+".html", textPolicy, exampleSources())
	return true
}

// exampleSources returns the sources of the programs in examples, by file name. It panics if it
// cannot read a file, which would be a bug, because the files are embedded.
func exampleSources() map[string]string {
	const folder = "examples/verify"
	sources := map[string]string{}
	files, err := examples.ReadDir(folder)
	for _, file := range files {
		var source []byte
		if source, err = examples.ReadFile(path.Join(folder, file.Name())); err != nil {
			break
		}
		sources[file.Name()] = string(source)
	}
	if err != nil {
		panic(err)
	}
	return sources
}

func render(w http.ResponseWriter, name, policy string, data any) {
	send(w, policy, execute(name, data))
}

// execute returns a page. It panics if a template fails, which would be a bug, because the
// templates are embedded and tested.
func execute(name string, data any) string {
	var page strings.Builder
	if err := views.ExecuteTemplate(&page, name, data); err != nil {
		panic(err)
	}
	return page.String()
}

// pageCacheControl allows a client to show a page again without a request for five minutes. The
// pages change only with a release of the service.
const pageCacheControl = "public, max-age=300"

func send(w http.ResponseWriter, policy, page string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", pageCacheControl)
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = io.WriteString(w, page) // writes to memory, cannot fail
}

// span is a part of a text, as plain text or as code.
type span struct {
	Text string
	Code bool
}

// inlineSpans splits a text at its backticks into spans.
func inlineSpans(text string) []span {
	var spans []span
	for i, piece := range strings.Split(text, "`") {
		if piece != "" {
			spans = append(spans, span{Text: piece, Code: i%2 == 1})
		}
	}
	return spans
}

// apiPolicy is the Content-Security-Policy of the API page. It allows scripts, styles and images of
// this service, and requests to this service. Swagger UI uses data: images as icons.
const apiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// API serves the page that shows the OpenAPI document with Swagger UI.
func API(w http.ResponseWriter, _ *http.Request) { render(w, "api.html", apiPolicy, nil) }
