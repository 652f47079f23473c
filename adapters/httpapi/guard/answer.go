// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/panics"
)

// RefusalOf returns the error answer for err. It stores both errors in the exchange, where the
// request log, the audit entry and recordOutcome find them.
func RefusalOf(ctx context.Context, err error) *refusal.Problem {
	e := exchangeOf(ctx)
	f := fault.ErrorOf(err)
	if f.Code == fault.InternalError {
		f = timeoutRefusal(f, err, e.route.rules)
	}
	e.refusal, e.cause = f, err
	return refusal.ProblemOf(f, e.id)
}

// timeoutRefusal returns the error that answers an operation that ended with err. f is the
// internal_error for err. For a timeout it returns provider_timeout, or service_unavailable if the
// operation does not declare provider_timeout. For a cancellation it returns service_unavailable.
// For any other err it returns f.
func timeoutRefusal(f *fault.Error, err error, rules OperationRules) *fault.Error {
	switch expired := errors.Is(err, context.DeadlineExceeded); {
	case expired && rules.mayRefuse(fault.ProviderTimeout):
		return &fault.Error{Code: fault.ProviderTimeout, Detail: "the operation was not finished in time"}
	case expired || errors.Is(err, context.Canceled):
		return &fault.Error{Code: fault.ServiceUnavailable, Detail: "the operation was not finished in time"}
	default:
		return f
	}
}

// Refuse writes an error answer. Operations do not call Refuse: they return their errors to huma.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := RefusalOf(r.Context(), err)
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(p) // writes to memory, cannot fail
}

// recoverPanics buffers the answer until the handler returns. If the handler panics, it sends a 500
// answer instead. A stream is not buffered: after a panic, its connection is closed. Before a
// buffered answer is sent, recoverPanics writes the audit entry if the request gets one.
func (g *guard) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := r.Body // a later step replaces r.Body
		a := newAnswer(w.Header())
		a.connection = w
		done := g.runRecovered(func() { next.ServeHTTP(a, r) }, r)
		if a.isStream {
			exchangeOf(r.Context()).status = a.status
			if !done {
				exchangeOf(r.Context()).streamErr = errPanicked
				closeConnection(w)
			}
			return
		}
		if !done {
			a = refuseInstead(a, w, r, fault.InternalError)
		}
		if err := g.endAct(r, a); err != nil {
			a = refuseInstead(a, w, r, err)
		}
		exchangeOf(r.Context()).status = a.status
		setClientWait(r.Context(), true)
		complete := exchangeOf(r.Context()).finishBody(w, r, body)
		if !complete {
			a.header.Set("Connection", "close")
		}
		a.send(w)
		if !complete {
			linger(w, body)
		}
	})
}

// refuseInstead returns an error answer that replaces a. It keeps the rate headers of a.
func refuseInstead(a *answer, w http.ResponseWriter, r *http.Request, err error) *answer {
	refusal := newAnswer(w.Header())
	copyRateHeaders(refusal.header, a.header)
	Refuse(refusal, r, err)
	return refusal
}

// runRecovered runs work and reports whether work returned without a panic. It logs the type and
// the stack of a panic. It does not log the panic's value, because it can contain customer data.
func (g *guard) runRecovered(work func(), r *http.Request) (done bool) {
	defer func() {
		if v := recover(); v != nil {
			e := panics.ErrorOf(v)
			g.log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("type", e.Type), slog.Any("stack", e.Stack))
		}
	}()
	work()
	return true
}

// answer buffers a response until it is complete, so that a panic during the operation can still be
// answered with a complete 500 response. The answers of operations are small, except exports, which
// Stream does not buffer. Files and documents can be large, but WriteString does not copy them.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	file   string // the body, if WriteString wrote it in one call; the field body is then empty

	connection http.ResponseWriter // for Stream; only recoverPanics sets it
	isStream   bool                // see Stream
}

// newAnswer returns an empty answer whose header begins as a copy of header.
func newAnswer(header http.Header) *answer { return &answer{header: header.Clone()} }

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	if a.isStream {
		if !sendChunks(a.connection, p) {
			return 0, errClientGone
		}
		return len(p), http.NewResponseController(a.connection).Flush()
	}
	a.WriteHeader(http.StatusOK)
	if a.file != "" { // a second write needs a copy
		a.body.WriteString(a.file)
		a.file = ""
	}
	return a.body.Write(p)
}

// WriteString implements io.StringWriter. It does not copy the string of the first write, so a file
// in memory is not copied for each request.
func (a *answer) WriteString(s string) (int, error) {
	if a.body.Len() > 0 || a.file != "" {
		return a.Write([]byte(s))
	}
	a.WriteHeader(http.StatusOK)
	a.file = s
	return len(s), nil
}

// len returns the size of the body in bytes.
func (a *answer) len() int { return a.body.Len() + len(a.file) }

// errPanicked is the error of a stream whose operation panicked. The panic is logged separately.
var errPanicked = errors.New("the operation panicked")

var errClientGone = errors.New("the client does not receive the rest of the answer")

// Stream sends the header of an answer, and then each part of the body that send passes to write.
// The request holds its in-flight slot until send returns, so slow clients use only slots of their
// own account. If send fails, Stream closes the connection, so that the client sees that the answer
// is not complete.
func Stream(ctx context.Context, w io.Writer, send func(write func([]byte) error) error) {
	a, buffered := w.(*answer)
	if buffered && a.connection != nil {
		a.WriteHeader(http.StatusOK)
		maps.Copy(a.connection.Header(), a.header)
		a.connection.WriteHeader(a.status)
		a.isStream = true
	}
	err := send(func(part []byte) error {
		_, err := w.Write(part)
		return err
	})
	if err == nil || !buffered || !a.isStream {
		return
	}
	exchangeOf(ctx).streamErr = err
	closeConnection(a.connection)
}

// closeConnection makes net/http close the connection of w before the answer is complete.
func closeConnection(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // the response recorders of tests have no deadlines
}

// A client must receive each chunk of sendChunk bytes of an answer within sendTimeout. Otherwise
// its connection is closed. The write timeout of the server cannot be that short, because
// operations take longer.
const (
	sendChunk   = 16 << 10
	sendTimeout = 15 * time.Second
)

func (a *answer) send(w http.ResponseWriter) {
	a.WriteHeader(http.StatusOK)
	maps.Copy(w.Header(), a.header)
	if a.status != http.StatusNotModified && a.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(a.len()))
	}
	w.WriteHeader(a.status)
	if sendFile(w, a.file) {
		sendChunks(w, a.body.Bytes())
	}
}

// sendFile writes file to w in chunks of one small buffer, so that it does not allocate a copy of
// each chunk. It returns false if the client has disconnected or is too slow.
func sendFile(w http.ResponseWriter, file string) bool {
	buffer := make([]byte, min(len(file), sendChunk))
	for len(file) > 0 {
		n := copy(buffer, file)
		if !sendChunks(w, buffer[:n]) {
			return false
		}
		file = file[n:]
	}
	return true
}

// sendChunks writes body to w. It returns false if the client has disconnected or is too slow. It
// sets the deadline even for an empty body, because net/http writes the header of such an answer
// after the handler has returned.
func sendChunks(w http.ResponseWriter, body []byte) bool {
	connection := http.NewResponseController(w)
	for {
		_ = connection.SetWriteDeadline(time.Now().Add(sendTimeout)) // the response recorders of tests have no deadlines
		chunk := body[:min(len(body), sendChunk)]
		if _, err := w.Write(chunk); err != nil {
			return false
		}
		if body = body[len(chunk):]; len(body) == 0 {
			return true
		}
	}
}
