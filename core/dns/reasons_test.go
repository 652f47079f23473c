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
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && spec.Type != nil {
			if typeName, named := spec.Type.(*ast.Ident); named {
				declared[typeName.Name]++
			}
		}
		return true
	})
	sentences := map[string]string{}
	for _, r := range dns.Reasons() {
		sentences[string(r)] = r.Explain()
	}
	for _, note := range dns.Notes() {
		sentences["note "+string(note)] = note.Explain()
	}
	if len(dns.Reasons()) != declared["Reason"] || len(dns.Notes()) != declared["Note"] {
		t.Errorf("Reasons lists %d reasons and Notes %d notes, want all declared constants: %v", len(dns.Reasons()), len(dns.Notes()), declared)
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
	item := dns.Item{Reason: dns.ReasonPresent, Notes: []dns.Note{dns.NoteSPFPtr, dns.NoteSPFLong}}
	if want := dns.ReasonPresent.Explain() + " " + dns.NoteSPFPtr.Explain() + " " + dns.NoteSPFLong.Explain(); item.Explain() != want {
		t.Errorf("got %q, want %q", item.Explain(), want)
	}
}
