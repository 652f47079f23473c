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

// Failure is an error response of Graph. It unwraps to its outcome.
type Failure struct {
	Outcome *outcome.Error
	Status  int
	Code    string
	// text contains the message, codes and targets in lower case. It may quote customer data, so it
	// is only searched and never logged.
	text string
}

func (f *Failure) Error() string { return f.Outcome.Error() }

// Unwrap returns the outcome.
func (f *Failure) Unwrap() error { return f.Outcome }

type errorBody struct {
	Error json.RawMessage `json:"error"`
	Text  string          `json:"error_description"` // used in the OAuth form
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

// failureFromResponse turns an error response into an outcome or a *Failure. The member "error" is
// an object, or a string in the OAuth form.
func failureFromResponse(a call.Response) error {
	var body errorBody
	var object errorObject
	_ = json.Unmarshal(a.Body, &body) // a proxy's page is not JSON
	if json.Unmarshal(body.Error, &object) != nil {
		_ = json.Unmarshal(body.Error, &object.Code)
	}
	if statusErr := call.StatusError(a, call.Cause("graph", object.Code)); statusErr != nil {
		return statusErr
	}
	words := []string{object.Message, body.Text}
	for _, d := range append(object.Details, object.errorDetail) {
		words = append(words, d.Code, d.Target, d.Message)
	}
	f := &Failure{Status: a.Status, Code: object.Code, text: strings.ToLower(strings.Join(words, "\n"))}
	switch {
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		f.Outcome = call.Refuse(fault.AccessDenied, "the mail platform no longer lets us do this")
	case call.IsDefinite(a.Status, object.Code != ""):
		f.Outcome = call.RefuseUnspecified()
	default:
		f.Outcome = call.Broken()
	}
	f.Outcome.Cause = call.Cause("graph", statusText(a.Status), object.Code)
	return f
}

func statusText(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// Status returns the HTTP status of the Failure in err, or 0 if err contains none.
func Status(err error) int {
	var f *Failure
	if errors.As(err, &f) {
		return f.Status
	}
	return 0
}

// MessageContains reports whether the Failure in err contains one of the lower-case texts in its
// message, codes or targets. Graph uses one code for most conflicts, so only the text tells them
// apart.
func MessageContains(err error, words ...string) bool {
	var f *Failure
	if !errors.As(err, &f) {
		return false
	}
	for _, w := range words {
		if strings.Contains(f.text, w) {
			return true
		}
	}
	return false
}
