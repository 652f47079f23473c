// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// faults spoil what a simulator answers, as what stands before a provider does.
// What the provider itself does wrong the simulator knows best.
type faults struct {
	hosts     []string // that its links lead to
	elsewhere string   // where nobody may follow
	fail      func(simulate.Fault) (lift func())

	mu    sync.Mutex
	how   contract.Failure
	first map[string][]byte // the first page of each path, while it repeats
}

// Fail is the world's function of that name.
func (s *Simulator) Fail(t testing.TB, how contract.Failure) (lift func()) {
	t.Helper()
	status := func(code, wait int) func() {
		return s.plan(t, simulate.Fault{Kind: simulate.Status, Status: code, RetryAfter: wait})
	}
	switch how {
	case contract.Throttles:
		return status(http.StatusTooManyRequests, int(contract.ThrottleWait.Seconds()))
	case contract.IsDown:
		return status(http.StatusServiceUnavailable, 0)
	case contract.Breaks:
		return status(http.StatusInternalServerError, 0)
	case contract.LosesRequest:
		return s.plan(t, simulate.Fault{Kind: simulate.DropBefore})
	case contract.LosesAnswer:
		return s.plan(t, simulate.Fault{Kind: simulate.DropAfter})
	}
	s.faults.set(how)
	return func() { s.faults.set(0) }
}

func (f *faults) set(how contract.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.how, f.first = how, map[string][]byte{}
}

func (f *faults) now() contract.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.how
}

func (f *faults) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	how := f.now()
	if how == 0 {
		next.ServeHTTP(w, r)
		return
	}
	switch how {
	case contract.Hangs:
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
		<-r.Context().Done()
		return
	case contract.Redirects:
		http.Redirect(w, r, f.elsewhere, http.StatusTemporaryRedirect)
		return
	case contract.Floods:
		flood(w, r)
		return
	}
	out := httptest.NewRecorder()
	next.ServeHTTP(out, r)
	body := out.Body.Bytes()
	switch how {
	case contract.Babbles:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body>Checking your browser</body></html>")
		return
	case contract.Truncates:
		body = body[:len(body)/2]
	case contract.Misshapes:
		body = []byte(`{"welcome":"to another service"}`)
	case contract.Repeats:
		body = f.repeated(r, body)
	case contract.Strays:
		body = f.astray(body)
	}
	for name, values := range out.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(out.Code)
	_, _ = w.Write(body)
}

// flood answers until the caller has enough.
func flood(w http.ResponseWriter, r *http.Request) {
	part := bytes.Repeat([]byte("[[[["), 1<<14)
	for r.Context().Err() == nil {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

// repeated is the first answer to a path, whatever page is asked for.
func (f *faults) repeated(r *http.Request, body []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method != http.MethodGet {
		return body
	}
	if f.first[r.URL.Path] == nil {
		f.first[r.URL.Path] = bytes.Clone(body)
	}
	return f.first[r.URL.Path]
}

// astray puts another host into links.
func (f *faults) astray(body []byte) []byte {
	text := string(body)
	for _, host := range f.hosts {
		if host = strings.TrimSpace(host); host != "" {
			text = strings.ReplaceAll(text, "//"+host, "//login.microsoftonline.com.evil.example")
			text = strings.ReplaceAll(text, `\/\/`+host, `\/\/login.microsoftonline.com.evil.example`)
		}
	}
	return []byte(text)
}
