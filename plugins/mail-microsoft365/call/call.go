// SPDX-License-Identifier: Apache-2.0

// Package call makes the plugin's HTTP calls: deadline, span, size limit,
// retries, and what a call that brought no answer means.
package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/google/uuid"

	"github.com/tenantry/tenantry/core/outcome"
)

// Deadline bounds a call whose caller set no deadline.
const Deadline = 20 * time.Second

// maxBody is far above a page of 999 users or 1000 mailboxes.
const maxBody = 16 << 20

// Effect says what a request may do at the provider, which decides whether it
// may be sent again.
type Effect int

const (
	// Read changes nothing.
	Read Effect = iota + 1
	// Repeatable writes the same thing however often it is sent.
	Repeatable
	// Create must be looked up before it is sent again.
	Create
)

// Request is one HTTP request.
type Request struct {
	Effect Effect
	Method string
	URL    string
	// Route names the URL without what belongs to a customer, for spans.
	Route  string
	Header http.Header
	Body   []byte
}

// Answer is an answer of any status.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Once sends a request once. Its errors are outcomes, or the caller's own
// cancellation.
func Once(ctx context.Context, client *http.Client, q Request) (Answer, error) {
	var sent bool
	ctx = withRoute(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent = true },
	}), q.Route)
	r, err := http.NewRequestWithContext(ctx, q.Method, q.URL, bytes.NewReader(q.Body))
	if err != nil {
		return Answer{}, &outcome.Error{Kind: outcome.Broken, Cause: "bad_url", Detail: "a request could not be made"}
	}
	if q.Header != nil {
		r.Header = q.Header.Clone()
	}
	if r.Header.Get("client-request-id") == "" {
		r.Header.Set("client-request-id", uuid.NewString())
	}
	resp, err := client.Do(r)
	if err != nil {
		return Answer{}, lost(ctx, q.Effect, sent)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return Answer{}, lost(ctx, q.Effect, true)
	}
	if len(body) > maxBody {
		return Answer{}, &outcome.Error{Kind: outcome.Broken, Cause: "answer_too_large", Detail: "the provider's answer is too large"}
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// lost tells what is known of a call without an answer. The error itself is
// left out: it quotes the URL.
func lost(ctx context.Context, effect Effect, sent bool) error {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return Ended(ctx)
	case !sent:
		return &outcome.Error{Kind: outcome.Down, Cause: CauseUnreachable, Detail: "the mail platform could not be reached"}
	case effect != Read || late:
		return noAnswer()
	default:
		return &outcome.Error{Kind: outcome.Down, Cause: "cut", Detail: "the connection to the mail platform was cut"}
	}
}

// Ended is what is known when ctx ends before an answer came.
func Ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("call the provider: %w", context.Canceled)
	}
	return noAnswer()
}

func noAnswer() error {
	return &outcome.Error{Kind: outcome.Unknown, Cause: "no_answer", Detail: "the mail platform did not answer"}
}

// CauseUnreachable marks a request that never left.
const CauseUnreachable = "unreachable"

// WithDeadline gives ctx the default deadline where it has none.
func WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, Deadline)
}
