// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// visitor is a person's browser: it keeps cookies and goes where it is sent,
// one step at a time.
type visitor struct {
	t      *testing.T
	client *http.Client
}

func newVisitor(t *testing.T) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// page is what a browser shows, or where it is sent on to.
type page struct {
	status   int
	header   http.Header
	url      *url.URL
	location string
	heading  string
	text     string
	action   string
	fields   url.Values
}

func (v *visitor) open(address string) page {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.send(r)
}

// submit sends a page's form with some fields changed.
func (v *visitor) submit(p page, changes url.Values) page {
	v.t.Helper()
	if p.action == "" {
		v.t.Fatalf("%s has no form: %d %s", p.url, p.status, p.text)
	}
	for name, values := range changes {
		p.fields[name] = values
	}
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, p.action, strings.NewReader(p.fields.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.send(r)
}

func (v *visitor) send(r *http.Request) page {
	v.t.Helper()
	r.Header.Set("Accept", "text/html")
	answer, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	p := page{status: answer.StatusCode, header: answer.Header, url: r.URL, fields: url.Values{}}
	if to, err := answer.Location(); err == nil {
		p.location = to.String()
	}
	root, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		v.t.Fatal(err)
	}
	for n := range root.Descendants() {
		p.read(n)
	}
	p.text = strings.Join(strings.Fields(p.text), " ")
	return p
}

// read takes what counts out of one node.
func (p *page) read(n *html.Node) {
	at := map[string]string{}
	for _, a := range n.Attr {
		at[a.Key] = a.Val
	}
	switch {
	case n.Type == html.TextNode && n.Parent.Data != "style":
		p.text += " " + n.Data
	case n.Data == "h1" && n.FirstChild != nil:
		p.heading = n.FirstChild.Data
	case n.Data == "form":
		if to, err := p.url.Parse(at["action"]); err == nil {
			p.action = to.String()
		}
	case n.Data == "input":
		p.fields.Set(at["name"], at["value"])
	}
}

// consents has an administrator answer the consent page behind a link, and
// returns the address that the platform sends the browser to.
func (v *visitor) consents(link, username, decision string) string {
	v.t.Helper()
	p := v.submit(v.open(link), url.Values{"username": {username}, "decision": {decision}})
	if p.location == "" {
		v.t.Fatalf("the consent page stays: %d %s", p.status, p.text)
	}
	return p.location
}

// signsIn answers the platform's sign-in page.
func (v *visitor) signsIn(address, username string) page {
	v.t.Helper()
	return v.submit(v.open(address), url.Values{"username": {username}})
}

// offered walks to the page that asks for the confirmation.
func (v *visitor) offered(h holding) page {
	v.t.Helper()
	link := h.get("/v1/tenants/connect-url").text("connect_url")
	callback := v.open(v.consents(link, h.admin, "accept"))
	p := v.open(v.signsIn(callback.location, h.admin).location)
	if p.status != http.StatusOK {
		v.t.Fatalf("no confirmation is asked for: %d %s", p.status, p.text)
	}
	return p
}

// altered is an address with one query parameter changed.
func altered(t *testing.T, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}
