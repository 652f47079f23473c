// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// maxBody is the maximum size of a request body in bytes. It is larger than any request of a
// plugin.
const maxBody = 4 << 20

// withFaults returns a handler that records each call in the journal and applies its planned fault.
func (k *Kit) withFaults(p Provider) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			return // the client has closed the connection before its request was complete
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		call := p.Call(r, body)
		r.Body = io.NopCloser(bytes.NewReader(body))

		fault, err := k.takeFault(r, call)
		if err != nil {
			k.failInternally(w, err)
			return
		}
		at := k.Now()
		entryNumber, err := k.journal.recordCall(Entry{Method: r.Method, Path: r.URL.Path,
			Operation: call.Operation, At: at, Write: call.Write, Violation: cmp.Or(call.Violation, k.waits.violation(call.Scope, at))})
		if err != nil {
			k.failInternally(w, err)
			return
		}
		k.serve(w, r, p, call, fault, entryNumber)
	})
}

// serve executes a request with a fault. After the request was executed, it writes the status to
// the journal before it delays or sends the answer. A test can therefore read the status while the
// answer is still delayed.
func (k *Kit) serve(w http.ResponseWriter, r *http.Request, p Provider, call Call, f Fault, entryNumber int) {
	buffered := &bufferedResponse{header: http.Header{}, status: http.StatusOK}
	switch f.Kind {
	case DropBefore:
		panic(http.ErrAbortHandler)
	case Status:
		if slices.Contains(call.WorkAt, f.Status) {
			p.ServeHTTP(&bufferedResponse{header: http.Header{}}, r)
		}
		p.Fail(buffered, r, f.Status, f.RetryAfter)
	case HTML:
		buffered.header.Set("Content-Type", "text/html")
		buffered.WriteHeader(cmp.Or(f.Status, http.StatusOK))
		_, _ = buffered.Write([]byte("<html><body><h1>Attention required</h1></body></html>\n"))
	case WrongShape:
		WriteJSON(buffered, http.StatusOK, map[string]any{"unexpected": []any{}})
	case Delay:
		// The delay does not end with r.Context: a real server also executes the request of a
		// client that no longer waits.
		time.Sleep(f.delay())
		p.ServeHTTP(buffered, r)
	default:
		p.ServeHTTP(buffered, r)
	}
	if f.Kind == Truncate {
		buffered.body.Truncate(buffered.body.Len() / 2)
	}
	if err := k.journal.recordStatus(entryNumber, buffered.status); err != nil {
		k.failInternally(w, err)
		return
	}
	switch f.Kind {
	case DropAfter:
		panic(http.ErrAbortHandler)
	case DelayAfter:
		select {
		case <-time.After(f.delay()):
		case <-r.Context().Done():
		}
	}
	k.waits.observe(call.Scope, buffered.status, buffered.header, k.Now())
	buffered.send(w)
}

// takeFault removes one use of the planned fault for a call from the plan, and returns this fault.
// See takeDueFault.
func (k *Kit) takeFault(r *http.Request, c Call) (fault Fault, err error) {
	err = k.plan.Do(func(p *plan) { p.Faults, fault = takeDueFault(p.Faults, r, c) })
	return fault, err
}

// failInternally answers with 500 after an error of the simulator itself, such as a full disk.
func (k *Kit) failInternally(w http.ResponseWriter, err error) {
	if k.Log != nil {
		_, _ = fmt.Fprintf(k.Log, "simulator %s: %v\n", k.name, err)
	}
	http.Error(w, "the simulator failed, see its log", http.StatusInternalServerError)
}

// bufferedResponse collects a response, so that a fault can delay, change or drop it.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *bufferedResponse) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *bufferedResponse) WriteHeader(status int) { b.status = status }

// Write implements http.ResponseWriter.
func (b *bufferedResponse) Write(p []byte) (int, error) { return b.body.Write(p) }

func (b *bufferedResponse) send(w http.ResponseWriter) {
	for name, values := range b.header {
		w.Header()[name] = values
	}
	w.WriteHeader(b.status)
	_, _ = w.Write(b.body.Bytes())
}
