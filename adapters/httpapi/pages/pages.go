// SPDX-License-Identifier: Apache-2.0

// Package pages holds the pages about the API: the document in a browser and
// what each error code means. They need no internet.
package pages

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

//go:embed templates/*.html
var templates embed.FS

// views are the pages by name; inline turns `code` into elements.
var views = template.Must(template.New("").Funcs(template.FuncMap{"inline": inline}).ParseFS(templates, "templates/*.html"))

// textPolicy is for pages that are only text and our own style sheet.
const textPolicy = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// entry is one code as its page shows it.
type entry struct {
	fault.Code
	Status int
	Reason string
	From   Origin
}

// Origin is who answers a code: all operations, some, or none of them.
type Origin struct {
	All        bool
	Operations []string // "GET /v1/tenants"
}

func entryOf(c fault.Code, status int) entry {
	return entry{Code: c, Status: status, Reason: http.StatusText(status)}
}

// group is the codes of one status.
type group struct {
	Status int
	Reason string
	Codes  []entry
}

// grouped sorts the codes by status; those of one status keep their order.
func grouped(statusOf map[fault.Kind]int) []group {
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

// Errors is the page of all codes.
func Errors(statusOf map[fault.Kind]int) http.HandlerFunc {
	groups := grouped(statusOf)
	return func(w http.ResponseWriter, _ *http.Request) { show(w, "errors.html", textPolicy, groups) }
}

// Error is the page of one code.
func Error(w http.ResponseWriter, c fault.Code, status int, from Origin) {
	e := entryOf(c, status)
	e.From = from
	show(w, "error.html", textPolicy, e)
}

// show renders a page. The templates are part of the program and have tests,
// so one that does not render is a fault of ours.
func show(w http.ResponseWriter, name, policy string, data any) {
	var page bytes.Buffer
	if err := views.ExecuteTemplate(&page, name, data); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(page.Bytes()) // a caller who went away is no error of ours
}

// span is a piece of a sentence, plain or code.
type span struct {
	Text string
	Code bool
}

// inline splits a text at its backticks.
func inline(text string) []span {
	var spans []span
	for i, piece := range strings.Split(text, "`") {
		if piece != "" {
			spans = append(spans, span{Text: piece, Code: i%2 == 1})
		}
	}
	return spans
}
