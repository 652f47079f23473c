// SPDX-License-Identifier: Apache-2.0

// Package exchange runs cmdlets at Exchange Online over its InvokeCommand
// endpoint. The endpoint is behind Microsoft's own PowerShell module and not
// documented, so all that is known of it is kept in this one package.
package exchange

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
)

// systemMailbox exists in every organization; requests that name it are routed
// to where the organization lives.
const systemMailbox = "APP:SystemMailbox{bb558c35-97f1-4cb9-8ff7-d53741dc928c}@"

// connectionID is constant for the process, as in Microsoft's module.
var connectionID = uuid.NewString()

// Client is Exchange for one tenant.
type Client struct {
	URL      string // without a final slash
	HTTP     *http.Client
	Patience call.Patience
	Tokens   login.Source
	Tenant   tenant.GUID
	Gate     *Gate
}

// Command is one cmdlet with its parameters. Parameters are data in a JSON
// document: nothing in them is ever read as a command.
type Command struct {
	Effect     call.Effect
	Cmdlet     string
	Parameters map[string]any
	Select     []string // the properties to answer with; all without
}

type input struct {
	CmdletInput cmdletInput
}

type cmdletInput struct {
	CmdletName string
	Parameters map[string]any
}

type envelope[T any] struct {
	Value    json.RawMessage `json:"value"`
	Next     string          `json:"@odata.nextLink"`
	Errors   json.RawMessage `json:"@adminapi.errors"`
	Warnings Texts           `json:"@adminapi.warnings"`
	decoded  []T
}

// Invoke runs a cmdlet and returns its rows.
func Invoke[T any](ctx context.Context, c Client, cmd Command) ([]T, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	if cmd.Effect != call.Read {
		c.Tokens.RenewForWrite()
	}
	address, body, err := c.request(cmd)
	if err != nil {
		return nil, err
	}
	return pages[T](ctx, c, cmd, address, body)
}

// InvokePage runs a cmdlet with one request, whatever becomes of it: each one
// counts in a quota. warned says that the answer came with a warning, which is
// how some cmdlets tell that there is more.
func InvokePage[T any](ctx context.Context, c Client, cmd Command) (rows []T, warned bool, err error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	c.Patience.Tries = 1
	address, body, err := c.request(cmd)
	if err != nil {
		return nil, false, err
	}
	a, err := c.post(ctx, cmd, address, body, nil)
	if err != nil {
		return nil, false, err
	}
	got, err := open[T](a)
	return got.decoded, len(got.Warnings) > 0 || got.Next != "", err
}

func (c Client) request(cmd Command) (address string, body []byte, err error) {
	if cmd.Parameters == nil {
		cmd.Parameters = map[string]any{} // never null
	}
	body, err = json.Marshal(input{cmdletInput{cmd.Cmdlet, cmd.Parameters}})
	if err != nil {
		return "", nil, call.Broken("exchange", "request_unwritable")
	}
	address = c.URL + "/adminapi/beta/" + string(c.Tenant) + "/InvokeCommand"
	if len(cmd.Select) > 0 {
		address += "?$select=" + url.QueryEscape(strings.Join(cmd.Select, ","))
	}
	return address, body, nil
}

// maxPages bounds a list whose pages never end.
const maxPages = 100

// pages follows the links of a truncated answer. We ask for everything at
// once, so one is rarely left; what is known of them contradicts itself, and a
// link that the server calls expired is an error rather than a short list.
func pages[T any](ctx context.Context, c Client, cmd Command, address string, body []byte) ([]T, error) {
	var all []T
	var session []string
	for range maxPages {
		a, err := c.post(ctx, cmd, address, body, session)
		if err != nil {
			return nil, err
		}
		got, err := open[T](a)
		if err != nil {
			return nil, err
		}
		all = append(all, got.decoded...)
		if got.Next == "" {
			return all, nil
		}
		next, ok := call.OnHost(c.URL, got.Next, "/adminapi")
		if !ok || cmd.Effect != call.Read || next == address {
			return nil, call.Broken("exchange", "next_link")
		}
		// The link is good at the server that gave it, which its cookies name.
		address, session = next, append(session, cookies(a.Header)...)
	}
	return nil, call.Broken("exchange", "endless_pages")
}

func cookies(h http.Header) []string {
	var out []string
	for _, c := range (&http.Response{Header: h}).Cookies() {
		out = append(out, c.Name+"="+c.Value)
	}
	return out
}

// open reads an answer of status 200. The cmdlet may have failed all the same.
func open[T any](a call.Answer) (envelope[T], error) {
	var got envelope[T]
	if len(strings.TrimSpace(string(a.Body))) == 0 {
		return got, nil
	}
	if json.Unmarshal(a.Body, &got) != nil {
		return got, call.Broken("exchange", "answer_unreadable")
	}
	if f := reported(got.Errors); f != nil {
		return got, f
	}
	switch raw := strings.TrimSpace(string(got.Value)); {
	case raw == "" || raw == "null":
	case raw[0] == '[':
		if json.Unmarshal(got.Value, &got.decoded) != nil {
			return got, call.Broken("exchange", "rows_unreadable")
		}
	default:
		var row T
		if json.Unmarshal(got.Value, &row) != nil {
			return got, call.Broken("exchange", "rows_unreadable")
		}
		got.decoded = []T{row}
	}
	return got, nil
}

// post sends the command once or, where that may be, until it is answered.
func (c Client) post(ctx context.Context, cmd Command, address string, body []byte, session []string) (call.Answer, error) {
	return call.Retry(ctx, c.Patience, cmd.Effect, func() (call.Answer, error) {
		leave, err := c.Gate.Enter(ctx)
		if err != nil {
			return call.Answer{}, err
		}
		defer leave()
		a, err := c.Tokens.Do(ctx, func(t login.Token) (call.Answer, error) {
			return call.Once(ctx, c.HTTP, call.Request{
				Effect: cmd.Effect, Method: http.MethodPost, URL: address, Body: body,
				Route:  "/adminapi/beta/{tenant}/InvokeCommand " + cmd.Cmdlet,
				Header: c.header(cmd, t, session),
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

func (c Client) header(cmd Command, t login.Token, session []string) http.Header {
	h := http.Header{}
	h.Set("Authorization", "Bearer "+t.Value.Reveal())
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Accept", "application/json")
	h.Set("X-AnchorMailbox", systemMailbox+string(c.Tenant))
	h.Set("X-CmdletName", cmd.Cmdlet)
	h.Set("X-ResponseFormat", "json")
	h.Set("X-SerializationLevel", "Partial")
	h.Set("Prefer", "odata.maxpagesize=1000")
	h.Set("connection-id", connectionID)
	if len(session) > 0 {
		h.Set("Cookie", strings.Join(session, "; "))
	}
	return h
}
