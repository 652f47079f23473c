// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"strconv"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

// exchange is one request and what became of it.
type exchange struct {
	id     string
	route  route
	known  bool   // the mux has a handler for it
	allow  string // the methods that the path has, when it has not this one
	page   bool   // it belongs to Options.Pages
	caller access.Caller
	status int
	inside bool // it has a place under the process's ceiling
	// write is set for what carries an Idempotency-Key; lost says that
	// another request has it, replayed that its answer was given again.
	write          *write
	lost, replayed bool
	// refusal is what was answered instead of a result, cause the error
	// behind it, which only the log sees.
	refusal *fault.Error
	cause   error
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// answer holds a response back until it is complete, so that a panic in the
// middle of one still becomes a clean 500. Answers are bounded: the longest
// list has 100 tenants, the largest file is a script of half a megabyte.
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

// send writes the answer out.
func (a *answer) send(w http.ResponseWriter) {
	a.WriteHeader(http.StatusOK)
	maps.Copy(w.Header(), a.header)
	if a.status != http.StatusNotModified && a.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(a.body.Len()))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // a caller who went away is no error of ours
}
