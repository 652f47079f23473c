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

// maxBody is more than any provider call of ours needs.
const maxBody = 4 << 20

// around journals each call and applies the fault that is planned for it.
func (k *Kit) around(p Provider) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			return // the caller went away within its own request
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		call := p.Call(r, body)
		r.Body = io.NopCloser(bytes.NewReader(body))

		fault, err := k.take(r, call)
		if err != nil {
			k.broken(w, err)
			return
		}
		n, err := k.journal.asked(Entry{Method: r.Method, Path: r.URL.Path,
			Operation: call.Operation, At: k.Now(), Write: call.Write})
		if err != nil {
			k.broken(w, err)
			return
		}
		k.serve(w, r, p, call, fault, n)
	})
}

// serve does the work and what the fault does to it. The status is in the
// journal as soon as the work is done, so that whoever waits for an effect can
// see it while the answer is still held back.
func (k *Kit) serve(w http.ResponseWriter, r *http.Request, p Provider, call Call, f Fault, n int) {
	out := &answer{header: http.Header{}, status: http.StatusOK}
	switch f.Kind {
	case DropBefore:
		panic(http.ErrAbortHandler)
	case Status:
		if slices.Contains(call.WorkAt, f.Status) {
			p.ServeHTTP(&answer{header: http.Header{}}, r)
		}
		p.Fail(out, r, f.Status, f.RetryAfter)
	case HTML:
		out.header.Set("Content-Type", "text/html")
		out.WriteHeader(cmp.Or(f.Status, http.StatusOK))
		_, _ = out.Write([]byte("<html><body><h1>Attention required</h1></body></html>\n"))
	case Misshape:
		Reply(out, http.StatusOK, map[string]any{"unexpected": []any{}})
	case Delay:
		// The work is done late even for a caller who gave up meanwhile: a
		// request that has arrived is not taken back.
		time.Sleep(f.delay())
		p.ServeHTTP(out, r)
	default:
		p.ServeHTTP(out, r)
	}
	if f.Kind == Truncate {
		out.body.Truncate(out.body.Len() / 2)
	}
	if err := k.journal.answered(n, out.status); err != nil {
		k.broken(w, err)
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
	out.send(w)
}

// take gives the fault for a call, the zero value for none.
func (k *Kit) take(r *http.Request, c Call) (Fault, error) {
	var taken Fault
	err := k.plan.Do(func(p *plan) {
		var due *Fault
		if p.Faults, due = next(p.Faults, r, c); due != nil {
			taken = *due
		}
	})
	return taken, err
}

// broken is for a fault of the simulator itself, such as a full disk.
func (k *Kit) broken(w http.ResponseWriter, err error) {
	if k.Log != nil {
		_, _ = fmt.Fprintf(k.Log, "simulator %s: %v\n", k.name, err)
	}
	http.Error(w, "the simulator is broken, see its log", http.StatusInternalServerError)
}

// answer holds a response back until the faults let it go.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answer) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}
