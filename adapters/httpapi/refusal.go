// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
)

// statusOf maps the kinds of errors to HTTP statuses.
var statusOf = map[fault.Kind]int{
	fault.Invalid:          http.StatusBadRequest,
	fault.Unauthenticated:  http.StatusUnauthorized,
	fault.PaymentRequired:  http.StatusPaymentRequired,
	fault.Forbidden:        http.StatusForbidden,
	fault.NotFound:         http.StatusNotFound,
	fault.MethodNotAllowed: http.StatusMethodNotAllowed,
	fault.NotAcceptable:    http.StatusNotAcceptable,
	fault.Conflict:         http.StatusConflict,
	fault.TooLarge:         http.StatusRequestEntityTooLarge,
	fault.UnsupportedMedia: http.StatusUnsupportedMediaType,
	fault.RateLimited:      http.StatusTooManyRequests,
	fault.Internal:         http.StatusInternalServerError,
	fault.BadGateway:       http.StatusBadGateway,
	fault.Unavailable:      http.StatusServiceUnavailable,
	fault.Timeout:          http.StatusGatewayTimeout,
}

// problem is the body of every error answer (RFC 9457).
type problem struct {
	Type       string         `json:"type" format:"uri-reference" doc:"The page about this code, relative to this service's address." example:"/docs/errors/tenant_not_found"`
	Title      string         `json:"title" doc:"The human-readable name of the code. It does not change." example:"Tenant not found"`
	Status     int            `json:"status" doc:"The HTTP status." example:"404"`
	Detail     string         `json:"detail" doc:"What happened in this request." example:"the account holds no such tenant"`
	Code       string         `json:"code" doc:"The stable code, for use by programs." example:"tenant_not_found"`
	RequestID  string         `json:"request_id" doc:"The value of X-Request-ID, for support." example:"req-7f3c2a"`
	Errors     []problemField `json:"errors,omitempty" doc:"The invalid parts of the request. Rejected values are never repeated."`
	Conflicts  []planAction   `json:"conflicts,omitempty" doc:"With dns_conflict: the actions that block the plan."`
	Workspaces []workspace    `json:"workspaces,omitempty" doc:"With the codes that end in workspace_required: the workspaces that the credential has access to."`

	retryAfter time.Duration
}

type problemField struct {
	Location string `json:"location" doc:"The location in the request." example:"body.domain"`
	Message  string `json:"message" doc:"The problem at this location." example:"expected string"`
}

// problemOf returns the body for an error. The fields of core are those of the body. A check of this
// package passes the locations itself, see invalid.
func problemOf(f *fault.Error, requestID string) *problem {
	p := &problem{
		Type: "/docs/errors/" + f.Code.Name, Title: f.Code.Title, Status: statusOf[f.Code.Kind],
		Detail: f.Detail, Code: f.Code.Name, RequestID: requestID, retryAfter: f.RetryAfter,
	}
	for _, field := range f.Fields {
		p.Errors = append(p.Errors, problemField{Location: "body." + field.Name, Message: field.Message})
	}
	switch shown := f.Shows.(type) {
	case []problemField:
		p.Errors = shown
	case []dns.Item:
		p.Conflicts = each(shown, actionOf)
	case []integration.Workspace:
		p.Workspaces = each(shown, workspaceOf)
	}
	return p
}

// Error, GetStatus, ContentType and GetHeaders make a problem an error that huma writes unchanged.
func (p *problem) Error() string             { return p.Code }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns the headers that belong to the status.
func (p *problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	wait := p.retryAfter
	if p.Status == http.StatusServiceUnavailable && wait <= 0 {
		wait = defaultRetryAfter
	}
	if wait > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	}
	return h
}

// defaultRetryAfter is the Retry-After of a 503 answer that has no time of its own.
const defaultRetryAfter = 10 * time.Second

// refusalOf returns the error answer for err. It stores the refusal and err in the exchange for the
// log.
func refusalOf(ctx context.Context, err error) *problem {
	e := exchangeOf(ctx)
	f := fault.Of(err)
	if f.Code == fault.InternalError {
		f = timeoutRefusal(f, err, e.route.terms)
	}
	e.refusal, e.cause = f, err
	return problemOf(f, e.id)
}

// timeoutRefusal replaces internal_error if err is a timeout or a cancellation. Otherwise it
// returns f.
func timeoutRefusal(f *fault.Error, err error, t terms) *fault.Error {
	switch expired := errors.Is(err, context.DeadlineExceeded); {
	case expired && t.mayRefuse(fault.ProviderTimeout):
		return &fault.Error{Code: fault.ProviderTimeout, Detail: "the operation was not finished in time"}
	case expired || errors.Is(err, context.Canceled):
		return &fault.Error{Code: fault.ServiceUnavailable, Detail: "the operation was not finished in time"}
	default:
		return f
	}
}

// refuse writes an error answer. Operations do not call it: they return their errors to huma.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := refusalOf(r.Context(), err)
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(p) // writes to memory, cannot fail
}

// recoverPanics buffers the answer until the handler returns. A panic becomes a 500 answer.
func (g *guard) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := w.Header().Clone()
		a := newAnswer(before)
		if !g.runRecovered(func() { next.ServeHTTP(a, r) }, r) {
			a = newAnswer(before)
			refuse(a, r, fault.InternalError)
		}
		exchangeOf(r.Context()).status = a.status
		a.send(w)
	})
}

// runRecovered runs work and reports whether it returned without a panic. It logs the type and the
// stack of a panic, but not its value: the value can hold customer data.
func (g *guard) runRecovered(work func(), r *http.Request) (done bool) {
	defer func() {
		if v := recover(); v != nil {
			g.log.LogAttrs(r.Context(), slog.LevelError, "panic",
				slog.String("type", fmt.Sprintf("%T", v)), slog.Any("stack", stackLines()))
		}
	}()
	work()
	return true
}

// stackLines returns the functions and lines that led to a panic, without arguments.
func stackLines() []string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var lines []string
	for {
		f, more := frames.Next()
		lines = append(lines, fmt.Sprintf("%s:%d", f.Function, f.Line))
		if !more {
			return lines
		}
	}
}

// answer buffers a response until it is complete, so that a panic halfway still becomes a clean
// 500. Answers are small: the longest list has 100 tenants, and the largest file is a 500 KB
// script.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newAnswer(header http.Header) *answer { return &answer{header: header.Clone()} }

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// send writes the buffered answer to w.
func (a *answer) send(w http.ResponseWriter) {
	a.WriteHeader(http.StatusOK)
	maps.Copy(w.Header(), a.header)
	if a.status != http.StatusNotModified && a.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(a.body.Len()))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // the caller may have disconnected
}
