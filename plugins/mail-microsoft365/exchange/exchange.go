// SPDX-License-Identifier: Apache-2.0

// Package exchange runs cmdlets in Exchange Online through the InvokeCommand endpoint. Microsoft's
// PowerShell module uses this endpoint, but Microsoft does not document it. All code that calls the
// endpoint is in this package.
//
//   - exchange.go: Client, Command, Invoke and InvokePage. Start here.
//   - cmdlets.go: the names of the cmdlets and the values of their parameters.
//   - failure.go: error responses. class.go: Class, the meaning of an error response.
//   - property.go: types for properties that Exchange writes in several forms.
//   - limiter.go: Limiter, which limits the cmdlets of one tenant.
package exchange

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// systemMailbox is a mailbox that every organization has. Exchange routes a request that names this
// mailbox to the servers of the organization.
const systemMailbox = "APP:SystemMailbox{bb558c35-97f1-4cb9-8ff7-d53741dc928c}@"

// connectionID is the value of the header connection-id in all requests of the process.
var connectionID = uuid.NewString()

// Client runs cmdlets in Exchange Online for one tenant.
type Client struct {
	URL     string // without a trailing slash
	HTTP    *http.Client
	Retry   call.RetryPolicy
	Tokens  login.TokenSource
	Tenant  tenant.GUID
	Limiter *Limiter
	Waits   *sdk.Waits
}

// Command is one cmdlet with its parameters. The parameters are sent as JSON, so no value can be
// executed as a command.
type Command struct {
	Effect     call.Effect
	Cmdlet     string
	Parameters map[string]any
	Select     []string // properties to return, all properties if empty
}

type requestBody struct {
	CmdletInput cmdletInput
}

type cmdletInput struct {
	CmdletName string
	Parameters map[string]any
}

type invokeResponse[T any] struct {
	Value    json.RawMessage `json:"value"`
	Next     string          `json:"@odata.nextLink"`
	Errors   json.RawMessage `json:"@adminapi.errors"`
	Warnings Texts           `json:"@adminapi.warnings"`
	decoded  []T
}

// Invoke runs a cmdlet and returns the rows of all pages. If the cmdlet fails, it returns a
// *Failure, or only an outcome if the status is 408, 429 or 5xx.
func Invoke[T any](ctx context.Context, c Client, cmd Command) ([]T, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	if cmd.Effect != call.Read {
		c.Tokens.RenewOld()
	}
	address, body, err := c.request(cmd)
	if err != nil {
		return nil, err
	}
	return invokePages[T](ctx, c, cmd, address, body)
}

// InvokePage runs a cmdlet and returns the rows of the first page. Its errors are those of Invoke.
// It does not retry, because some cmdlets have a quota of requests. It repeats the request only if
// Exchange refused the token. mayHaveMore is true if the response has a warning or a link to a
// further page. Some cmdlets report further rows only with a warning.
func InvokePage[T any](ctx context.Context, c Client, cmd Command) (rows []T, mayHaveMore bool, err error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	c.Retry.MaxAttempts = 1
	address, body, err := c.request(cmd)
	if err != nil {
		return nil, false, err
	}
	resp, err := c.post(ctx, cmd, address, body, nil)
	if err != nil {
		return nil, false, err
	}
	got, err := decodeResponse[T](resp)
	return got.decoded, len(got.Warnings) > 0 || got.Next != "", err
}

func (c Client) request(cmd Command) (address string, body []byte, err error) {
	if cmd.Parameters == nil {
		cmd.Parameters = map[string]any{} // Exchange does not accept null
	}
	body, err = json.Marshal(requestBody{cmdletInput{cmd.Cmdlet, cmd.Parameters}})
	if err != nil {
		return "", nil, call.Broken("exchange", "request_unwritable")
	}
	address = c.URL + "/adminapi/beta/" + string(c.Tenant) + "/InvokeCommand"
	if len(cmd.Select) > 0 {
		address += "?$select=" + url.QueryEscape(strings.Join(cmd.Select, ","))
	}
	return address, body, nil
}

// maxPages limits the number of pages of a list, because a faulty server could link pages without
// end.
const maxPages = 100

// invokePages runs a cmdlet and follows the links of a truncated answer. Requests ask for pages of
// 1000 rows, so such links are rare. Microsoft does not document these links, and public reports
// about them contradict each other. If a page cannot be read, for example because its link has
// expired, invokePages fails instead of returning an incomplete list.
func invokePages[T any](ctx context.Context, c Client, cmd Command, address string, body []byte) ([]T, error) {
	var rows []T
	sessionCookies := map[string]string{}
	for range maxPages {
		resp, err := c.post(ctx, cmd, address, body, sessionCookies)
		if err != nil {
			return nil, err
		}
		got, err := decodeResponse[T](resp)
		if err != nil {
			return nil, err
		}
		rows = append(rows, got.decoded...)
		if got.Next == "" {
			return rows, nil
		}
		next, ok := call.RebaseLink(c.URL, got.Next, "/adminapi")
		if !ok || cmd.Effect != call.Read || next == address {
			return nil, call.Broken("exchange", "next_link")
		}
		// Possibly only the server that wrote the link can answer it. The cookies of the response
		// should route the next request to that server.
		address = next
		for _, cookie := range (&http.Response{Header: resp.Header}).Cookies() {
			sessionCookies[cookie.Name] = cookie.Value
		}
	}
	return nil, call.Broken("exchange", "endless_pages")
}

// decodeResponse decodes a successful response. It returns a *Failure if the response reports that
// the cmdlet failed, and Broken if it cannot be decoded.
func decodeResponse[T any](resp call.Response) (invokeResponse[T], error) {
	var got invokeResponse[T]
	if len(strings.TrimSpace(string(resp.Body))) == 0 {
		return got, nil
	}
	if json.Unmarshal(resp.Body, &got) != nil {
		return got, call.Broken("exchange", "answer_unreadable")
	}
	if f := reportedFailure(got.Errors); f != nil {
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

// post sends the command. It repeats the request if the retry policy and the effect of the command
// allow it.
func (c Client) post(ctx context.Context, cmd Command, address string, body []byte, sessionCookies map[string]string) (call.Response, error) {
	return call.Retry(ctx, c.Retry, cmd.Effect, func() (call.Response, error) {
		release, err := c.Limiter.Acquire(ctx)
		if err != nil {
			return call.Response{}, err
		}
		defer release()
		resp, err := c.Tokens.Do(ctx, func(t login.Token) (call.Response, error) {
			return call.Send(ctx, c.HTTP, call.Request{
				Effect: cmd.Effect, Method: http.MethodPost, URL: address, Body: body,
				Route:  "/adminapi/beta/{tenant}/InvokeCommand " + cmd.Cmdlet,
				Header: c.header(cmd, t, sessionCookies), Gate: c.gate(cmd),
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

// gate returns the gate of a command. A Retry-After delays all cmdlets of the tenant. The message
// trace also has its own quota. If that quota is used up, the answer contains an error of the class
// Throttled, and only the message trace has to wait.
func (c Client) gate(cmd Command) call.Gate {
	tenantScope := "exchange/" + string(c.Tenant)
	cmdletScope := tenantScope + "/" + cmd.Cmdlet
	return call.Gate{Waits: c.Waits, Scopes: []string{tenantScope, cmdletScope}, ThrottledScope: func(resp call.Response) string {
		if _, e := parseError(resp.Body); newFailure(resp.Status, e).Class == Throttled {
			return cmdletScope
		}
		return tenantScope
	}}
}

func (c Client) header(cmd Command, t login.Token, sessionCookies map[string]string) http.Header {
	headers := http.Header{}
	headers.Set("Authorization", "Bearer "+t.Value.Reveal())
	headers.Set("Content-Type", "application/json; charset=utf-8")
	headers.Set("Accept", "application/json")
	headers.Set("X-AnchorMailbox", systemMailbox+string(c.Tenant))
	headers.Set("X-CmdletName", cmd.Cmdlet)
	headers.Set("X-ResponseFormat", "json")
	headers.Set("X-SerializationLevel", "Partial")
	headers.Set("Prefer", "odata.maxpagesize=1000")
	headers.Set("connection-id", connectionID)
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(sessionCookies)) {
		pairs = append(pairs, name+"="+sessionCookies[name])
	}
	if len(pairs) > 0 {
		headers.Set("Cookie", strings.Join(pairs, "; "))
	}
	return headers
}
