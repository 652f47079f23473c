// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// maxPageSize limits one page, in bytes. The pages of the connect flow are smaller.
const maxPageSize = 1 << 20

// browser acts as a person's browser: it follows redirects, keeps cookies and submits forms.
type browser struct{ client *http.Client }

// page is a response that the browser received.
type page struct {
	status  int
	heading string
	form    *form // the first form of the page, or nil
}

// form is an HTML form with the values that it would submit.
type form struct {
	action  *url.URL
	method  string
	values  url.Values
	buttons []button
}

type button struct{ name, value string }

func newBrowser() (*browser, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	return &browser{&http.Client{Jar: jar, Timeout: flowTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}, nil
}

func (b *browser) get(ctx context.Context, link string) (page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return page{}, err
	}
	return b.send(req)
}

func (b *browser) submit(ctx context.Context, f *form) (page, error) {
	target, body := *f.action, io.Reader(strings.NewReader(f.values.Encode()))
	if f.method == http.MethodGet {
		target.RawQuery, body = f.values.Encode(), http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, f.method, target.String(), body)
	if err != nil {
		return page{}, err
	}
	if f.method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return b.send(req)
}

func (b *browser) send(req *http.Request) (page, error) {
	req.Header.Set("Accept", "text/html")
	resp, err := b.client.Do(req)
	if err != nil {
		return page{}, fmt.Errorf("open page: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	root, err := html.Parse(io.LimitReader(resp.Body, maxPageSize))
	if err != nil {
		return page{}, fmt.Errorf("read page: %w", err)
	}
	p := page{status: resp.StatusCode}
	if h := firstElement(root, "h1", "title"); h != nil {
		p.heading = strings.Join(strings.Fields(textContent(h)), " ")
	}
	if f := firstElement(root, "form"); f != nil {
		if p.form, err = readForm(f, resp.Request.URL); err != nil {
			return page{}, err
		}
	}
	return p, nil
}

// readForm returns a form with its input fields, buttons and preset values.
func readForm(n *html.Node, base *url.URL) (*form, error) {
	action, err := base.Parse(attrOf(n, "action"))
	if err != nil {
		return nil, fmt.Errorf("form's action: %w", err)
	}
	f := &form{action: action, method: http.MethodGet, values: url.Values{}}
	if strings.EqualFold(attrOf(n, "method"), "post") {
		f.method = http.MethodPost
	}
	for child := range n.Descendants() {
		name, kind := attrOf(child, "name"), strings.ToLower(attrOf(child, "type"))
		switch {
		case child.Type != html.ElementNode:
		case child.Data == "button" && (kind == "" || kind == "submit"), child.Data == "input" && kind == "submit":
			f.buttons = append(f.buttons, button{name, attrOf(child, "value")})
		case child.Data == "input" && name != "" && kind != "button" && kind != "reset":
			f.values.Add(name, attrOf(child, "value"))
		}
	}
	return f, nil
}

// fillIn sets the field username if the form has one. It selects the button named "decision" with
// the value "accept" or "connect", and returns that value. Without this button, it selects the
// first button and returns "".
func (f *form) fillIn(username string) string {
	if f.values.Has("username") {
		f.values.Set("username", username)
	}
	for _, b := range f.buttons {
		if b.name == "decision" && (b.value == "accept" || b.value == "connect") {
			f.values.Set(b.name, b.value)
			return b.value
		}
	}
	if len(f.buttons) > 0 && f.buttons[0].name != "" {
		f.values.Set(f.buttons[0].name, f.buttons[0].value)
	}
	return ""
}

// firstElement returns the first element of the first kind that root contains, or nil.
func firstElement(root *html.Node, kinds ...string) *html.Node {
	for _, kind := range kinds {
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && n.Data == kind {
				return n
			}
		}
	}
	return nil
}

func attrOf(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func textContent(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}
