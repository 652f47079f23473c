// SPDX-License-Identifier: Apache-2.0

// Package graph talks to Microsoft Graph v1.0.
//
// Start with graph.go: Get, List and Write send requests with a Client. failure.go converts error
// responses to outcomes and says what a refusal means.
package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// Client sends requests to Microsoft Graph for one tenant.
type Client struct {
	URL    string // with the version, without a trailing slash
	HTTP   *http.Client
	Retry  call.RetryPolicy
	Tokens login.TokenSource
	Tenant tenant.GUID
	Waits  *sdk.Waits
}

// BaseURL returns the address of v1.0 below the address of Graph. If the address already ends with
// /v1.0, it only removes trailing slashes.
func BaseURL(address string) string {
	address = strings.TrimRight(address, "/")
	if strings.HasSuffix(address, "/v1.0") {
		return address
	}
	return address + "/v1.0"
}

// Path is a path below the base URL. route is the same path without customer data.
type Path struct{ path, route string }

// StaticPath returns a path that contains no customer data.
func StaticPath(path string) Path { return Path{path, path} }

// PathWith replaces the only %s in a path by an escaped value.
func PathWith(template, value string) Path {
	return Path{strings.Replace(template, "%s", url.PathEscape(value), 1), strings.Replace(template, "%s", "{id}", 1)}
}

// Query returns the query string of OData options. The arguments are alternating names and values.
func Query(options ...string) string {
	var query strings.Builder
	for i := 0; i+1 < len(options); i += 2 {
		query.WriteString([]string{"?", "&"}[min(i, 1)])
		// OData does not read a plus as a space.
		query.WriteString(options[i] + "=" + strings.ReplaceAll(url.QueryEscape(options[i+1]), "+", "%20"))
	}
	return query.String()
}

// Get reads one object. For an error response it returns a *Failure, or only an outcome if the
// status is 408, 429 or 5xx. It returns Broken for a response that it cannot decode.
func Get[T any](ctx context.Context, c Client, p Path, query string) (T, error) {
	var value T
	resp, err := c.send(ctx, call.Read, http.MethodGet, c.URL+p.path+query, p.route, nil)
	if err == nil {
		err = decode(resp, &value)
	}
	return value, err
}

// Write sends body as JSON to a path and decodes the response. If body is nil, the request has no
// body. If the response to a successful write is empty or not JSON, Write returns the zero value.
func Write[T any](ctx context.Context, c Client, effect call.Effect, method string, p Path, body any) (T, error) {
	var value T
	resp, err := c.send(ctx, effect, method, c.URL+p.path, p.route, body)
	if err != nil {
		return value, err
	}
	_ = json.Unmarshal(resp.Body, &value) // Graph has made the change, so an unreadable response is not an error
	return value, nil
}

// maxPages limits the number of pages of a list, because a faulty server could link pages without
// end.
const maxPages = 1000

type page[T any] struct {
	Value []T    `json:"value"`
	Next  string `json:"@odata.nextLink"`
}

// List reads all pages of a collection. Its errors are those of Get. It also returns Broken if a
// link leads to the same page or out of the API, or if there are more than maxPages pages.
func List[T any](ctx context.Context, c Client, p Path, query string) ([]T, error) {
	var rows []T
	address := c.URL + p.path + query
	for range maxPages {
		resp, err := c.send(ctx, call.Read, http.MethodGet, address, p.route, nil)
		if err != nil {
			return nil, err
		}
		var got page[T]
		if err := decode(resp, &got); err != nil {
			return nil, err
		}
		rows = append(rows, got.Value...)
		if got.Next == "" {
			return rows, nil
		}
		next, ok := call.RebaseLink(c.URL, got.Next, "/v1.0")
		if !ok || next == address {
			return nil, call.Broken("graph", "next_link")
		}
		address = next
	}
	return nil, call.Broken("graph", "endless_pages")
}

func decode(resp call.Response, target any) error {
	if json.Unmarshal(resp.Body, target) != nil {
		return call.Broken("graph", "answer_unreadable")
	}
	return nil
}

// send sends a request. It repeats the request if the retry policy and the effect allow it.
func (c Client) send(ctx context.Context, effect call.Effect, method, address, route string, body any) (call.Response, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	if effect != call.Read {
		c.Tokens.RenewOld()
	}
	header := http.Header{"Accept": {"application/json"}}
	var raw []byte
	if body != nil {
		header.Set("Content-Type", "application/json")
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return call.Response{}, call.Broken("graph", "request_unwritable")
		}
	}
	return call.Retry(ctx, c.Retry, effect, func() (call.Response, error) {
		resp, err := c.Tokens.Do(ctx, func(t login.Token) (call.Response, error) {
			header.Set("Authorization", "Bearer "+t.Value.Reveal())
			return call.Send(ctx, c.HTTP, call.Request{
				Effect: effect, Method: method, URL: address, Route: route, Header: header, Body: raw, Gate: c.gate(),
			})
		})
		if err != nil {
			return call.Response{}, err
		}
		if resp.Status >= http.StatusMultipleChoices {
			return call.Response{}, failureFromResponse(resp)
		}
		return resp, nil
	})
}

// applicationScope is the scope (see call.Gate) of the application's calls to Graph in all tenants.
const applicationScope = "graph"

// gate returns the gate of a request. Graph throttles an application in one tenant, a whole tenant,
// or an application in all tenants. The header x-ms-throttle-scope begins with the name of the
// throttled scope. The gate does not distinguish reads and writes: a Retry-After delays both.
func (c Client) gate() call.Gate {
	tenantScope := applicationScope + "/" + string(c.Tenant)
	return call.Gate{Waits: c.Waits, Scopes: []string{tenantScope, applicationScope}, ThrottledScope: func(resp call.Response) string {
		if kind, _, _ := strings.Cut(resp.Header.Get("x-ms-throttle-scope"), "/"); strings.EqualFold(kind, "Application") {
			return applicationScope
		}
		return tenantScope
	}}
}
