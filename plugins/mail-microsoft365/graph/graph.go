// SPDX-License-Identifier: Apache-2.0

// Package graph talks to Microsoft Graph v1.0: requests, pages, refusals.
package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
)

// Client is Graph for one tenant.
type Client struct {
	URL      string // with the version, without a final slash
	HTTP     *http.Client
	Patience call.Patience
	Tokens   login.Source
}

// Base returns the base address of v1.0 below a host's.
func Base(host string) string {
	host = strings.TrimRight(host, "/")
	if strings.HasSuffix(host, "/v1.0") {
		return host
	}
	return host + "/v1.0"
}

// Path is a path below the base and its route: the path without what belongs
// to a customer.
type Path struct{ path, route string }

// Plain is a path that names no customer.
func Plain(path string) Path { return Path{path, path} }

// At puts a customer's value into the one %s of a path.
func At(form, value string) Path {
	return Path{strings.Replace(form, "%s", url.PathEscape(value), 1), strings.Replace(form, "%s", "{id}", 1)}
}

// Query is a list of OData options, alternately names and values.
func Query(options ...string) string {
	var out strings.Builder
	for i := 0; i+1 < len(options); i += 2 {
		out.WriteString([]string{"?", "&"}[min(i, 1)])
		// OData reads a plus as itself.
		out.WriteString(options[i] + "=" + strings.ReplaceAll(url.QueryEscape(options[i+1]), "+", "%20"))
	}
	return out.String()
}

// Get reads one object.
func Get[T any](ctx context.Context, c Client, p Path, query string) (T, error) {
	var out T
	a, err := c.send(ctx, call.Read, http.MethodGet, c.URL+p.path+query, p.route, nil)
	if err == nil {
		err = decode(a, &out)
	}
	return out, err
}

// Write sends body to a path and reads what comes back, if anything does. Nil
// sends no body.
func Write[T any](ctx context.Context, c Client, effect call.Effect, method string, p Path, body any) (T, error) {
	var out T
	a, err := c.send(ctx, effect, method, c.URL+p.path, p.route, body)
	if err != nil {
		return out, err
	}
	if len(strings.TrimSpace(string(a.Body))) == 0 {
		return out, nil
	}
	// The change is made; an answer that can't be read is as good as none.
	_ = json.Unmarshal(a.Body, &out)
	return out, nil
}

// maxPages bounds a list whose pages never end.
const maxPages = 1000

type page[T any] struct {
	Value []T    `json:"value"`
	Next  string `json:"@odata.nextLink"`
}

// List reads all pages of a collection.
func List[T any](ctx context.Context, c Client, p Path, query string) ([]T, error) {
	var all []T
	address := c.URL + p.path + query
	for range maxPages {
		a, err := c.send(ctx, call.Read, http.MethodGet, address, p.route, nil)
		if err != nil {
			return nil, err
		}
		var got page[T]
		if err := decode(a, &got); err != nil {
			return nil, err
		}
		all = append(all, got.Value...)
		if got.Next == "" {
			return all, nil
		}
		// The link is opaque, but our token goes to nobody else.
		next, ok := call.OnHost(c.URL, got.Next, "/v1.0")
		if !ok || next == address {
			return nil, call.Broken("graph", "next_link")
		}
		address = next
	}
	return nil, call.Broken("graph", "endless_pages")
}

func decode(a call.Answer, into any) error {
	if json.Unmarshal(a.Body, into) != nil {
		return call.Broken("graph", "answer_unreadable")
	}
	return nil
}

// send sends a request until it has an answer of success.
func (c Client) send(ctx context.Context, effect call.Effect, method, address, route string, body any) (call.Answer, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	if effect != call.Read {
		c.Tokens.RenewForWrite()
	}
	header := http.Header{"Accept": {"application/json"}}
	var raw []byte
	if body != nil {
		header.Set("Content-Type", "application/json")
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return call.Answer{}, call.Broken("graph", "request_unwritable")
		}
	}
	return call.Retry(ctx, c.Patience, effect, func() (call.Answer, error) {
		a, err := c.Tokens.Do(ctx, func(t login.Token) (call.Answer, error) {
			header.Set("Authorization", "Bearer "+t.Value.Reveal())
			return call.Once(ctx, c.HTTP, call.Request{
				Effect: effect, Method: method, URL: address, Route: route, Header: header, Body: raw,
			})
		})
		if err != nil {
			return call.Answer{}, err
		}
		if a.Status >= http.StatusMultipleChoices {
			return call.Answer{}, failure(a)
		}
		return a, nil
	})
}
