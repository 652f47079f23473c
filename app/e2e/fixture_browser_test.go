// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	stdhtml "html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// browser is a web browser that keeps cookies and does not follow redirects. To follow a redirect,
// a test opens page.location.
type browser struct {
	t      *testing.T
	client *http.Client
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &browser{t, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// page is a response in the browser: a document, or a redirect to location.
type page struct {
	status   int
	header   http.Header
	url      *url.URL
	location string // "" if the response is a document
	heading  string
	text     string
	action   string // the address to which the form of the page is sent, or ""
	fields   url.Values
}

func (b *browser) open(address string) page {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, address, http.NoBody)
	must(b.t, err)
	return b.send(r)
}

// submit sends the form of a page with some fields changed.
func (b *browser) submit(p page, changes url.Values) page {
	b.t.Helper()
	if p.action == "" {
		b.t.Fatalf("%s has no form: %d %s", p.url, p.status, p.text)
	}
	for name, values := range changes {
		p.fields[name] = values
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, p.action, strings.NewReader(p.fields.Encode()))
	must(b.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.send(r)
}

func (b *browser) send(r *http.Request) page {
	b.t.Helper()
	r.Header.Set("Accept", "text/html")
	answer, err := b.client.Do(r)
	must(b.t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	must(b.t, err)
	p := page{status: answer.StatusCode, header: answer.Header, url: r.URL, fields: url.Values{}}
	if to, err := answer.Location(); err == nil {
		p.location = to.String()
	}
	root, err := html.Parse(bytes.NewReader(raw))
	must(b.t, err)
	for n := range root.Descendants() {
		p.readNode(n)
	}
	p.text = strings.Join(strings.Fields(p.text), " ")
	return p
}

// readNode copies text, heading, form action and form fields of one node into the page.
func (p *page) readNode(n *html.Node) {
	attributes := map[string]string{}
	for _, a := range n.Attr {
		attributes[a.Key] = a.Val
	}
	switch {
	case n.Type == html.TextNode && n.Parent.Data != "style":
		p.text += " " + n.Data
	case n.Data == "h1" && n.FirstChild != nil:
		p.heading = n.FirstChild.Data
	case n.Data == "form":
		if to, err := p.url.Parse(attributes["action"]); err == nil {
			p.action = to.String()
		}
	case n.Data == "input":
		p.fields.Set(attributes["name"], attributes["value"])
	}
}

// answerConsent opens a consent link and answers the page as an administrator. It returns the
// address to which the platform redirects the browser.
func (b *browser) answerConsent(link, username, decision string) string {
	b.t.Helper()
	p := b.submit(b.open(link), url.Values{"username": {username}, "decision": {decision}})
	if p.location == "" {
		b.t.Fatalf("the consent page does not redirect the browser: %d %s", p.status, p.text)
	}
	return p.location
}

// signIn opens the sign-in page of the platform and sends the form with this user name.
func (b *browser) signIn(address, username string) page {
	b.t.Helper()
	return b.submit(b.open(address), url.Values{"username": {username}})
}

// openConfirmation gets a connect link, consents and signs in as the tenant's administrator, and
// returns the confirmation page.
func (b *browser) openConfirmation(tenant accountTenant) page {
	b.t.Helper()
	link := tenant.get("/v1/tenants/connect-url").text("connect_url")
	callback := b.open(b.answerConsent(link, tenant.admin, "accept"))
	p := b.open(b.signIn(callback.location, tenant.admin).location)
	if p.status != http.StatusOK {
		b.t.Fatalf("the page does not ask for a confirmation: %d %s", p.status, p.text)
	}
	return p
}

func withQueryParameter(t *testing.T, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// administrator is a tenant's administrator with a browser that follows redirects.
type administrator struct {
	t       testing.TB
	name    string
	browser *http.Client
	// visited are the addresses that the browser requested. cookies are the cookie values that it
	// received.
	visited, cookies []string
	// page, status and address belong to the last response.
	page    string
	status  int
	address *url.URL
}

// newAdministrator returns the administrator with this user name, whose browser has no cookies.
func newAdministrator(t testing.TB, name string) *administrator {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	a := &administrator{t: t, name: name}
	a.browser = &http.Client{Jar: jar, Transport: a}
	return a
}

// RoundTrip records the address of each request and the cookies of its response.
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
	a.load(answer, err)
}

func (a *administrator) load(answer *http.Response, err error) {
	a.t.Helper()
	must(a.t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	must(a.t, err)
	a.page, a.status, a.address = string(raw), answer.StatusCode, answer.Request.URL
}

var (
	formPattern  = regexp.MustCompile(`<form method="post" action="([^"]*)">`)
	inputPattern = regexp.MustCompile(`<input [^>]*name="([^"]+)"[^>]*?(?: value="([^"]*)")?[^>]*>`)
)

// form returns the address and the fields of the form on the page. If the form asks for a user
// name, the name of the administrator is filled in.
func (a *administrator) form() (to *url.URL, fields url.Values) {
	a.t.Helper()
	form := formPattern.FindStringSubmatch(a.page)
	if form == nil {
		a.t.Fatalf("the page has no form (%d): %s", a.status, a.page)
	}
	to, err := a.address.Parse(stdhtml.UnescapeString(form[1]))
	must(a.t, err)
	fields = url.Values{}
	for _, input := range inputPattern.FindAllStringSubmatch(a.page, -1) {
		fields.Set(input[1], stdhtml.UnescapeString(input[2]))
	}
	if fields.Has("username") {
		fields.Set("username", a.name)
	}
	return to, fields
}

// submit sends the form with a decision. If origin is not empty, it sends the form to the same path
// at origin.
func (a *administrator) submit(decision, origin string) {
	a.t.Helper()
	to, fields := a.form()
	fields.Set("decision", decision)
	target := to.String()
	if origin != "" {
		target = origin + to.Path
	}
	answer, err := a.browser.PostForm(target, fields)
	a.load(answer, err)
}

// submitWhileUnavailable submits the form, and submits it again while the answer is 503.
func (a *administrator) submitWhileUnavailable(t *testing.T, decision, origin string) {
	t.Helper()
	before := *a
	client{t: t}.eventually("the form is accepted", func() bool {
		*a = before
		a.submit(decision, origin)
		return a.status != http.StatusServiceUnavailable
	})
}

// openConfirmation gets a connect link with the API key, consents and signs in. The page is then
// the confirmation page.
func (a *administrator) openConfirmation(c client, key string) {
	a.t.Helper()
	link := c.do("GET", c.ready.APIURL+"/v1/tenants/connect-url", key, nil)
	if link.status != http.StatusOK {
		a.t.Fatalf("the request for a connect link is answered %d %s, want 200", link.status, link.raw)
	}
	a.openConfirmationFrom(link.text("connect_url"))
}

// openConfirmationFrom is openConfirmation for an existing connect link.
func (a *administrator) openConfirmationFrom(link string) {
	a.t.Helper()
	a.open(link)
	a.submit("accept", "") // the consent
	a.submit("", "")       // the sign-in
	if !strings.Contains(a.page, "/connect/microsoft365/confirm") {
		a.t.Fatalf("the page does not ask for a confirmation (%d): %s", a.status, a.page)
	}
}

// connect connects the tenant to the account of the API key.
func (a *administrator) connect(c client, key string) {
	a.t.Helper()
	a.openConfirmation(c, key)
	a.submit("connect", "")
	if a.status != http.StatusOK {
		a.t.Fatalf("the confirmation is answered %d %s, want 200", a.status, a.page)
	}
}

// parameter returns the last value of a query parameter in the addresses that the browser visited.
func (a *administrator) parameter(name string) string {
	for i := len(a.visited) - 1; i >= 0; i-- {
		if u, err := url.Parse(a.visited[i]); err == nil && u.Query().Get(name) != "" {
			return u.Query().Get(name)
		}
	}
	a.t.Fatalf("no address of the browser had a %s", name)
	return ""
}
