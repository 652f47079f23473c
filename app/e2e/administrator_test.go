// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// administrator is a tenant's administrator at a browser of their own.
type administrator struct {
	t       testing.TB
	name    string
	browser *http.Client
	// visited are the addresses that the browser was sent to, cookies what
	// the pages gave it.
	visited, cookies []string
	page             string
	status           int
	at               *url.URL
}

func newAdministrator(t testing.TB, name string) *administrator {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &administrator{t: t, name: name}
	a.browser = &http.Client{Jar: jar, Transport: a}
	return a
}

// RoundTrip notes what goes by.
func (a *administrator) RoundTrip(r *http.Request) (*http.Response, error) {
	a.visited = append(a.visited, r.URL.String())
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		for _, c := range answer.Cookies() {
			if c.Value != "" {
				a.cookies = append(a.cookies, c.Value)
			}
		}
	}
	return answer, err
}

func (a *administrator) open(link string) {
	a.t.Helper()
	answer, err := a.browser.Get(link)
	a.show(answer, err)
}

func (a *administrator) show(answer *http.Response, err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	a.page, a.status, a.at = string(raw), answer.StatusCode, answer.Request.URL
}

var (
	formOf  = regexp.MustCompile(`<form method="post" action="([^"]*)">`)
	inputOf = regexp.MustCompile(`<input [^>]*name="([^"]+)"[^>]*?(?: value="([^"]*)")?[^>]*>`)
)

// form is what the page's form would send, and where to.
func (a *administrator) form() (to *url.URL, fields url.Values) {
	a.t.Helper()
	form := formOf.FindStringSubmatch(a.page)
	if form == nil {
		a.t.Fatalf("a page without a form (%d): %s", a.status, a.page)
	}
	to, err := a.at.Parse(html.UnescapeString(form[1]))
	if err != nil {
		a.t.Fatal(err)
	}
	fields = url.Values{}
	for _, input := range inputOf.FindAllStringSubmatch(a.page, -1) {
		fields.Set(input[1], html.UnescapeString(input[2]))
	}
	if fields.Has("username") {
		fields.Set("username", a.name)
	}
	return to, fields
}

// press submits the page's form with a decision, to the host that is given or
// else its own.
func (a *administrator) press(decision, host string) {
	a.t.Helper()
	to, fields := a.form()
	fields.Set("decision", decision)
	target := to.String()
	if host != "" {
		target = host + to.Path
	}
	answer, err := a.browser.PostForm(target, fields)
	a.show(answer, err)
}

// proves goes from a connect link to the page that asks for the confirmation.
func (a *administrator) proves(c client, key string) {
	a.t.Helper()
	link := c.do("GET", c.ready.APIURL+"/v1/tenants/connect-url", key, nil)
	if link.status != http.StatusOK {
		a.t.Fatalf("connect-url: %d %s", link.status, link.raw)
	}
	a.follows(link.text("connect_url"))
}

// follows goes from the link itself to that page.
func (a *administrator) follows(link string) {
	a.t.Helper()
	a.open(link)
	a.press("accept", "") // the consent
	a.press("", "")       // the sign-in
	if !strings.Contains(a.page, "/connect/microsoft365/confirm") {
		a.t.Fatalf("no page to confirm (%d): %s", a.status, a.page)
	}
}

// connects attaches the tenant to the key's account.
func (a *administrator) connects(c client, key string) {
	a.t.Helper()
	a.proves(c, key)
	a.press("connect", "")
	if a.status != http.StatusOK {
		a.t.Fatalf("connect: %d %s", a.status, a.page)
	}
}

// parameter is what the browser carried last under this name in an address.
func (a *administrator) parameter(name string) string {
	for i := len(a.visited) - 1; i >= 0; i-- {
		if u, err := url.Parse(a.visited[i]); err == nil && u.Query().Get(name) != "" {
			return u.Query().Get(name)
		}
	}
	a.t.Fatalf("the browser carried no %s", name)
	return ""
}
