// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// faultInjector makes requests to a simulator fail. It is part of the proxy in front of the
// simulator. If the simulator can plan faults, the failures from Throttles to LosesAnswer come from
// the simulator itself, because only the simulator knows the provider's error format.
type faultInjector struct {
	authHosts   []string // the hosts of the simulator's sign-in links
	redirectURL string   // the target of injected redirects, which no client may request

	requests atomic.Int64 // the number of requests
	writes   atomic.Int64 // the number of requests with a method other than GET and HEAD

	mu         sync.Mutex
	planned    simulate.Fault // the planned fault, if the simulator does not cause it itself
	failure    contract.Failure
	firstPages map[string][]byte // keyed by path, used while failure is contract.RepeatsFirstPage
}

// Fail makes the provider's API fail as failure says, until lift is called. A failure from
// Throttles to LosesAnswer also ends after 1,000 calls. Fail is used as SendingFixture.Fail.
func (s *Simulator) Fail(t T, failure contract.Failure) (lift func()) {
	t.Helper()
	planStatus := func(code, wait int) func() {
		return s.planFault(t, simulate.Fault{Kind: simulate.Status, Status: code, RetryAfter: wait})
	}
	switch failure {
	case contract.Throttles:
		return planStatus(http.StatusTooManyRequests, int(contract.ThrottleWait.Seconds()))
	case contract.IsDown:
		return planStatus(http.StatusServiceUnavailable, 0)
	case contract.Breaks:
		return planStatus(http.StatusInternalServerError, 0)
	case contract.LosesRequest:
		return s.planFault(t, simulate.Fault{Kind: simulate.DropBefore})
	case contract.LosesAnswer:
		return s.planFault(t, simulate.Fault{Kind: simulate.DropAfter})
	}
	s.faults.setFailure(failure)
	return func() { s.faults.setFailure(0) }
}

func (f *faultInjector) setFailure(failure contract.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure, f.firstPages = failure, map[string][]byte{}
}

func (f *faultInjector) currentFailure() contract.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

// setPlanned replaces the planned fault. The zero Fault plans no fault. Otherwise the kind must be
// Status, DropBefore, DropAfter or HTML.
func (f *faultInjector) setPlanned(fault simulate.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.planned = fault
}

// takePlanned returns the planned fault if it applies to r. It counts r as a request and, if the
// method of r is neither GET nor HEAD, as a write.
func (f *faultInjector) takePlanned(r *http.Request) (fault simulate.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	f.requests.Add(1)
	if !isRead {
		f.writes.Add(1)
	}
	if f.planned.Times > 0 && (!f.planned.WritesOnly || !isRead) {
		f.planned.Times--
		fault = f.planned
	}
	return fault
}

// serve serves one request of the provider's API through next, with the planned fault or the
// current failure.
func (f *faultInjector) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	switch fault := f.takePlanned(r); fault.Kind {
	case simulate.Status:
		if fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
		}
		w.WriteHeader(fault.Status)
		return
	case simulate.DropBefore:
		panic(http.ErrAbortHandler)
	case simulate.DropAfter:
		next.ServeHTTP(newResponseBuffer(), r)
		panic(http.ErrAbortHandler)
	case simulate.HTML:
		writeHTMLPage(w)
		return
	}
	failure := f.currentFailure()
	if failure == 0 {
		next.ServeHTTP(w, r)
		return
	}
	switch failure {
	case contract.Hangs:
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices that a connection is closed only after the body was read
		<-r.Context().Done()
		return
	case contract.Redirects:
		http.Redirect(w, r, f.redirectURL, http.StatusTemporaryRedirect)
		return
	case contract.AnswersWithoutEnd:
		writeEndlessly(w, r)
		return
	}
	response := newResponseBuffer()
	next.ServeHTTP(response, r)
	body := response.body.Bytes()
	switch failure {
	case contract.AnswersHTML:
		writeHTMLPage(w)
		return
	case contract.Truncates:
		body = body[:len(body)/2]
	case contract.AnswersWrongShape:
		body = []byte(`{"welcome":"to another service"}`)
	case contract.RepeatsFirstPage:
		body = f.repeatFirstPage(r, body)
	case contract.ReturnsForeignLinks:
		body = f.replaceAuthHosts(body)
	}
	for name, values := range response.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(response.status)
	_, _ = w.Write(body)
}

// writeHTMLPage answers with an HTML page, like a proxy in front of the provider.
func writeHTMLPage(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<html><body>Checking your browser</body></html>")
}

// repeatFirstPage returns the answer to the first GET of the path of r, even if r asks for a later
// page. It returns body unchanged if r is not a GET.
func (f *faultInjector) repeatFirstPage(r *http.Request, body []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method != http.MethodGet {
		return body
	}
	if f.firstPages[r.URL.Path] == nil {
		f.firstPages[r.URL.Path] = bytes.Clone(body)
	}
	return f.firstPages[r.URL.Path]
}

// replaceAuthHosts replaces the host of every sign-in link in body by a host that is not allowed.
func (f *faultInjector) replaceAuthHosts(body []byte) []byte {
	text := string(body)
	for _, host := range f.authHosts {
		text = strings.ReplaceAll(text, "//"+host, "//login.microsoftonline.com.evil.example")
		text = strings.ReplaceAll(text, `\/\/`+host, `\/\/login.microsoftonline.com.evil.example`)
	}
	return []byte(text)
}
