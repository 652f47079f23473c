// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// Failure is an error answer of Graph.
type Failure struct {
	Outcome *outcome.Error
	Status  int
	Code    string
	// words are message, codes and targets in lower case. They may quote
	// customers and are only ever searched.
	words string
}

func (f *Failure) Error() string { return f.Outcome.Error() }

// Unwrap gives the outcome.
func (f *Failure) Unwrap() error { return f.Outcome }

type errorBody struct {
	Error json.RawMessage `json:"error"`
	Text  string          `json:"error_description"` // the OAuth form
}

type errorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Target  string `json:"target"`
}

type errorObject struct {
	errorDetail
	Details []errorDetail `json:"details"`
}

// failure reads an error answer, whose error is an object, or a text in the
// OAuth form.
func failure(a call.Answer) error {
	var body errorBody
	var object errorObject
	_ = json.Unmarshal(a.Body, &body) // pages of proxies are not JSON
	if json.Unmarshal(body.Error, &object) != nil {
		_ = json.Unmarshal(body.Error, &object.Code)
	}
	if trouble := call.Trouble(a, call.Cause("graph", object.Code)); trouble != nil {
		return trouble
	}
	words := []string{object.Message, body.Text}
	for _, d := range append(object.Details, object.errorDetail) {
		words = append(words, d.Code, d.Target, d.Message)
	}
	f := &Failure{Status: a.Status, Code: object.Code, words: strings.ToLower(strings.Join(words, "\n"))}
	switch {
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		f.Outcome = call.Refuse(fault.AccessDenied, "the mail platform no longer lets us do this")
	case call.Definite(a.Status, object.Code != ""):
		f.Outcome = call.Failed()
	default:
		f.Outcome = call.Broken()
	}
	f.Outcome.Cause = call.Cause("graph", statusText(a.Status), object.Code)
	return f
}

func statusText(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// Status returns the status of the error answer in err, 0 when there is none.
func Status(err error) int {
	var f *Failure
	if errors.As(err, &f) {
		return f.Status
	}
	return 0
}

// Says reports whether the error answer in err has one of the words in its
// message, codes or targets. Graph gives most conflicts one code, so the words
// are all there is to tell them apart.
func Says(err error, words ...string) bool {
	var f *Failure
	if !errors.As(err, &f) {
		return false
	}
	for _, w := range words {
		if strings.Contains(f.words, w) {
			return true
		}
	}
	return false
}
