// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// Failure is an error response of Graph, except 408, 429 and 5xx. Unwrap returns its outcome.
type Failure struct {
	Outcome *outcome.Error
	Status  int
	Code    string
	// codes are the codes of the error and of its details. targets are the properties that the
	// details name.
	codes, targets []string
	// text contains the messages, codes and targets in lower case. It may quote customer data, so
	// it is only searched and never logged.
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

// failureFromResponse returns the error for an error response: the outcome of call.StatusError for
// 408, 429 and 5xx, and a *Failure for all other statuses. The member "error" is an object, or a
// string in the OAuth form.
func failureFromResponse(resp call.Response) error {
	var body errorBody
	var object errorObject
	_ = json.Unmarshal(resp.Body, &body) // the body may be a proxy's page
	if json.Unmarshal(body.Error, &object) != nil {
		_ = json.Unmarshal(body.Error, &object.Code)
	}
	if statusErr := call.StatusError(resp, call.Cause("graph", object.Code)); statusErr != nil {
		return statusErr
	}
	words := []string{object.Message, body.Text}
	f := &Failure{Status: resp.Status, Code: object.Code}
	for _, d := range append(object.Details, object.errorDetail) {
		words = append(words, d.Code, d.Target, d.Message)
		f.codes, f.targets = append(f.codes, d.Code), append(f.targets, d.Target)
	}
	f.text = strings.ToLower(strings.Join(words, "\n"))
	switch {
	case resp.Status == http.StatusUnauthorized || resp.Status == http.StatusForbidden:
		f.Outcome = call.Refuse(fault.AccessDenied, "the mail platform no longer allows the service to do this")
	case call.IsDefinite(resp.Status, object.Code != ""):
		f.Outcome = call.RefuseUnspecified()
	default:
		f.Outcome = call.Broken()
	}
	f.Outcome.Cause = call.Cause("graph", statusText(resp.Status), object.Code)
	return f
}

func statusText(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// Status returns the HTTP status of the Failure in err, or 0 if err contains no Failure.
func Status(err error) int {
	var f *Failure
	if errors.As(err, &f) {
		return f.Status
	}
	return 0
}

// IsUnreadable reports whether an error response has no code, so that its reason is unknown. The
// response may be cut off, or come from a proxy.
func IsUnreadable(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.Code == ""
}

// hasCode reports whether the Failure in err, or one of its details, has one of the codes.
func hasCode(err error, codes ...string) bool {
	var f *Failure
	return errors.As(err, &f) && slices.ContainsFunc(codes, func(code string) bool { return slices.Contains(f.codes, code) })
}

// RefusesProperty reports whether Graph refuses the value of a property. Such an answer has status
// 400 and names the property in its details.
func RefusesProperty(err error, property string) bool {
	var f *Failure
	return errors.As(err, &f) && f.Status == http.StatusBadRequest &&
		slices.ContainsFunc(f.targets, func(target string) bool { return strings.EqualFold(target, property) })
}

// ObjectExists reports whether Graph refuses a write because an object with the same key exists.
// Some answers have a specific code. Others have the general code of invalid requests. In these,
// ObjectExists searches for a specific text.
func ObjectExists(err error) bool {
	return hasCode(err, "Request_MultipleObjectsWithSameKeyValue", "ConflictingObjects", "ObjectConflict") ||
		Status(err) == http.StatusBadRequest && MessageContains(err, "conflicting object", "another object with the same value")
}

// LostRace reports whether Graph refuses a write with a 409 for which ObjectExists is false. Such
// an answer is assumed to mean that a concurrent write was first, so a later attempt can succeed.
func LostRace(err error) bool {
	return Status(err) == http.StatusConflict && !ObjectExists(err)
}

// MessageContains reports whether the Failure in err contains one of the lower-case texts in its
// messages, codes or targets. Graph uses the same code for most refusals, so only the text
// distinguishes them.
func MessageContains(err error, words ...string) bool {
	var f *Failure
	return errors.As(err, &f) && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(f.text, w) })
}
