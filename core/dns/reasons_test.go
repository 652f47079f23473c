// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
)

// Every declared reason and note is listed and has its own sentence.
func TestReasonsAndNotesExplainThemselves(t *testing.T) {
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
		t.Errorf("%d reasons and %d notes are listed, %v declared", len(dns.Reasons()), len(dns.Notes()), declared)
	}
	seen := map[string]string{}
	for name, text := range sentences {
		if !strings.HasSuffix(text, ".") || seen[text] != "" {
			t.Errorf("%s says %q, as %q does", name, text, seen[text])
		}
		seen[text] = name
	}
}

func TestAnItemExplainsItsNotes(t *testing.T) {
	i := dns.Item{Reason: dns.ReasonPresent, Notes: []dns.Note{dns.NoteSPFPtr, dns.NoteSPFLong}}
	if want := dns.ReasonPresent.Explain() + " " + dns.NoteSPFPtr.Explain() + " " + dns.NoteSPFLong.Explain(); i.Explain() != want {
		t.Errorf("got %q", i.Explain())
	}
}

func TestShown(t *testing.T) {
	for content, want := range map[string]string{
		"v=spf1 -all": "v=spf1 -all", "": "", "grüße \\ \"x\"": "grüße \\ \"x\"", "a\xff\x00b": `a\255\000b`, "\n\u0085": `\010\194\133`,
		"\u2028\ufffd": "\u2028\ufffd",
	} {
		if got := dns.Shown(content); got != want {
			t.Errorf("%q is shown as %q, want %q", content, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		content := string(rapid.SliceOf(rapid.Byte()).Draw(t, "content"))
		got := dns.Shown(content)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || dns.Shown(got) != got {
			t.Fatalf("%q is shown as %q", content, got)
		}
	})
}

// A status is stored and shown as text, whatever octets the zone holds.
func TestAStatusIsText(t *testing.T) {
	s := dns.ReadStatus(sight(set("a.test", dns.TXT, "v=spf1 \xff\x00 -all"), set("_dmarc.a.test", dns.TXT, "v=DMARC1; p=\xfe")), nil, dns.Signing{})
	if s.SPF != `v=spf1 \255\000 -all` || s.DMARC != `v=DMARC1; p=\254` {
		t.Errorf("got %+v", s)
	}
}
