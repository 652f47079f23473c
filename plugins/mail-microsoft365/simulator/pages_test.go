// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestPages: the forms work for a person and for a program: labelled fields,
// buttons, no script, the administrator's address prefilled.
func TestPages(t *testing.T) {
	for _, tt := range []struct {
		name    string
		address func(*tenant) string
		buttons []string
	}{
		{"consent", (*tenant).consentURL, []string{"decision=accept", "decision=deny"}},
		{"sign-in", func(tn *tenant) string { return tn.signInURL(nil) }, []string{"="}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).newTenant()
			address := tt.address(tn)
			a, _ := tn.page(address, nil)
			if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") {
				t.Errorf("policy %q", policy)
			}
			p := readPage(t, string(a.raw))
			if p.lang != "en" || p.title == "" || p.headings != 1 || p.scripts != 0 || !strings.Contains(p.viewport, "width=device-width") {
				t.Errorf("%+v", p)
			}
			if p.fields["username"] != tn.admin || !p.labelled["username"] {
				t.Errorf("username: %q, labelled %v", p.fields["username"], p.labelled["username"])
			}
			if strings.Join(p.buttons, " ") != strings.Join(tt.buttons, " ") {
				t.Errorf("buttons %v", p.buttons)
			}
			base, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			to, err := base.Parse(p.action)
			if err != nil || p.method != "post" || to.Query().Encode() != base.Query().Encode() || to.Path != base.Path {
				t.Errorf("the form posts to %q: %v", p.action, err)
			}
		})
	}
}

// readable is what a page holds.
type readable struct {
	lang, title, viewport, action, method string
	headings, scripts                     int
	fields                                map[string]string
	labelled                              map[string]bool
	buttons                               []string
}

func readPage(t *testing.T, text string) readable {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	p := readable{fields: map[string]string{}, labelled: map[string]bool{}}
	for n := range root.Descendants() {
		at := map[string]string{}
		for _, a := range n.Attr {
			at[a.Key] = a.Val
		}
		switch n.Data {
		case "html":
			p.lang = at["lang"]
		case "title":
			p.title = n.FirstChild.Data
		case "meta":
			if at["name"] == "viewport" {
				p.viewport = at["content"]
			}
		case "h1":
			p.headings++
		case "script":
			p.scripts++
		case "form":
			p.action, p.method = at["action"], at["method"]
		case "input":
			p.fields[at["name"]] = at["value"]
		case "label":
			p.labelled[at["for"]] = true
		case "button":
			p.buttons = append(p.buttons, at["name"]+"="+at["value"])
		}
	}
	return p
}

// TestPagesEscape: what the address says is shown, never run.
func TestPagesEscape(t *testing.T) {
	tn := start(t).newTenant()
	a, _ := tn.page(tn.consentURL()+"&login_hint="+url.QueryEscape(`"><script>x</script>`), nil)
	if strings.Contains(string(a.raw), "<script>") {
		t.Errorf("%s", a.raw)
	}
}
