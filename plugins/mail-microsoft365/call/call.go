// SPDX-License-Identifier: Apache-2.0

// Package call sends the plugin's HTTP requests. It provides deadlines, spans, a size limit and
// retries, and converts failures to outcomes.
//
//   - call.go: Request, Response and Send, which sends a request once. Start here.
//   - gate.go: Gate, which delays requests after a Retry-After.
//   - retry.go: Retry, and RetryPolicy, which says how often and how fast.
//   - status.go: outcomes for HTTP statuses, and constructors of outcomes.
//   - httpclient.go: NewHTTPClient. The client records a span for each request.
package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tenantry/tenantry/core/outcome"
)

// Deadline is the time limit that WithDeadline sets. It also limits each request for an access
// token.
const Deadline = 20 * time.Second

// maxBody is the largest accepted response body, in bytes. It is much larger than a page of 999
// users or 1000 mailboxes.
const maxBody = 16 << 20

// Effect says what a request changes at the provider. It determines whether the request may be
// repeated.
type Effect int

const (
	// Read is a request that changes nothing.
	Read Effect = iota + 1
	// Repeatable is a write that has the same result however often it is sent.
	Repeatable
	// Create is a write that must not be executed twice, such as the creation of an object. If the
	// provider may have executed the write, it may be repeated only after a read has shown that it
	// had no effect.
	Create
)

// Request is one HTTP request.
type Request struct {
	Effect Effect
	Method string
	URL    string
	// Route names the endpoint in spans. It contains no customer data.
	Route  string
	Header http.Header
	Body   []byte
	Gate   Gate
}

// Response is a response with any status.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// UserAgent names tenantry in each request. Microsoft asks applications to send such a name.
const UserAgent = "tenantry-mail-microsoft365/" + Version

// Version is the version of the plugin.
const Version = "0.1.0"

// Send sends a request once, as soon as its gate allows it. It fails with an *outcome.Error or, if
// the caller cancelled the call, with an error that wraps context.Canceled.
func Send(ctx context.Context, client *http.Client, request Request) (Response, error) {
	if err := request.Gate.wait(ctx); err != nil {
		return Response{}, err
	}
	var sent bool
	ctx = withRoute(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent = true },
	}), request.Route)
	r, err := http.NewRequestWithContext(ctx, request.Method, request.URL, bytes.NewReader(request.Body))
	if err != nil {
		return Response{}, &outcome.Error{Kind: outcome.Broken, Cause: "bad_url", Detail: "the URL of a request is not valid"}
	}
	if request.Header != nil {
		r.Header = request.Header.Clone()
	}
	if r.Header.Get("client-request-id") == "" {
		r.Header.Set("client-request-id", uuid.NewString())
	}
	r.Header.Set("User-Agent", UserAgent)
	resp, err := client.Do(r)
	if err != nil {
		return Response{}, lostResponse(ctx, request.Effect, sent)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// After this status the body is the connection itself, and no time limit would end a read.
		return Response{}, Broken("101")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return Response{}, lostResponse(ctx, request.Effect, true)
	}
	if len(body) > maxBody {
		return Response{}, &outcome.Error{Kind: outcome.Broken, Cause: "answer_too_large", Detail: "the provider's answer is too large"}
	}
	answer := Response{Status: resp.StatusCode, Header: resp.Header, Body: body}
	request.Gate.observe(ctx, answer)
	return answer, nil
}

// lostResponse returns the error of a request without a complete response. sent is true if the
// request got a connection, so that the provider may have received it. The result does not wrap the
// original error, because that error contains the URL.
func lostResponse(ctx context.Context, effect Effect, sent bool) error {
	pastDeadline := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ContextError(ctx)
	case !sent:
		return &outcome.Error{Kind: outcome.Down, Cause: CauseUnreachable, Detail: "the mail platform could not be reached"}
	case effect != Read || pastDeadline:
		return noAnswer()
	default:
		return &outcome.Error{Kind: outcome.Down, Cause: "cut", Detail: "the connection to the mail platform was cut"}
	}
}

// ContextError returns the error of a call whose ctx ended before a response. It returns an error
// that wraps context.Canceled if the caller cancelled the call, and an Unknown outcome after a
// timeout.
func ContextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("call the provider: %w", context.Canceled)
	}
	return noAnswer()
}

func noAnswer() error {
	return &outcome.Error{Kind: outcome.Unknown, Cause: "no_answer", Detail: "the mail platform did not answer"}
}

// CauseUnreachable is the cause of an outcome if the request was not sent, because it got no
// connection.
const CauseUnreachable = "unreachable"

// WithDeadline returns ctx with a timeout of Deadline, or ctx itself if it has a deadline.
func WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, Deadline)
}

// SameHost reports whether link has the scheme and the host of base, and no user name.
func SameHost(base, link string) bool {
	a, errA := url.Parse(base)
	b, errB := url.Parse(link)
	return errA == nil && errB == nil && b.User == nil &&
		strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Host, b.Host)
}

// RebaseLink replaces the beginning of a link to the next page by base. It keeps the query and the
// part of the path that begins with root, such as "/v1.0". The platform writes such links with its
// public host name, but tokens may be sent only to the configured host. RebaseLink returns false
// for a link that it does not accept, such as a link without root in its path.
func RebaseLink(base, link, root string) (string, bool) {
	u, err := url.Parse(link)
	if err != nil || u.User != nil || u.Opaque != "" {
		return "", false
	}
	path := u.EscapedPath()
	index := strings.Index(path+"/", root+"/")
	if index < 0 || strings.Contains(path, "/..") {
		return "", false
	}
	address := strings.TrimSuffix(base, root) + path[index:]
	if u.RawQuery != "" {
		address += "?" + u.RawQuery
	}
	return address, true
}
