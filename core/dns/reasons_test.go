// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

// TestReasonsAndNotesHaveSentences checks that Reasons and Notes list all declared constants, and
// that each constant has its own sentence.
func TestReasonsAndNotesHaveSentences(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Type != nil {
			if kind, named := v.Type.(*ast.Ident); named {
				declared[kind.Name]++
			}
		}
		return true
	})
	sentences := map[string]string{}
	for _, r := range dns.Reasons() {
		sentences[string(r)] = r.Explain()
	}
	for _, n := range dns.Notes() {
		sentences["note "+string(n)] = n.Explain()
	}
	if len(dns.Reasons()) != declared["Reason"] || len(dns.Notes()) != declared["Note"] {
		t.Errorf("%d reasons and %d notes are listed, want the declared %v", len(dns.Reasons()), len(dns.Notes()), declared)
	}
	seen := map[string]string{}
	for name, text := range sentences {
		if !strings.HasSuffix(text, ".") || seen[text] != "" {
			t.Errorf("%s has the text %q, want a sentence that differs from the text of %q", name, text, seen[text])
		}
		seen[text] = name
	}
}

func TestItemExplainIncludesNotes(t *testing.T) {
	i := dns.Item{Reason: dns.ReasonPresent, Notes: []dns.Note{dns.NoteSPFPtr, dns.NoteSPFLong}}
	if want := dns.ReasonPresent.Explain() + " " + dns.NoteSPFPtr.Explain() + " " + dns.NoteSPFLong.Explain(); i.Explain() != want {
		t.Errorf("got %q, want %q", i.Explain(), want)
	}
}
