// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// Failure is a cmdlet that failed.
type Failure struct {
	Outcome *outcome.Error
	Class   Class
	Status  int
	Type    string // the .NET type without its namespace
	text    string // in lower case; it may quote customers and is only ever searched
}

func (f *Failure) Error() string { return f.Outcome.Error() }

// Unwrap gives the outcome.
func (f *Failure) Unwrap() error { return f.Outcome }

// Says reports whether the text has these words, given in lower case.
func (f *Failure) Says(words string) bool { return strings.Contains(f.text, words) }

// Is reports whether err is a failure of one of the classes.
func Is(err error, classes ...Class) bool {
	var f *Failure
	if !errors.As(err, &f) {
		return false
	}
	for _, c := range classes {
		if f.Class == c {
			return true
		}
	}
	return false
}

// Says reports whether err is a failure whose text has these words, given in
// lower case.
func Says(err error, words string) bool {
	var f *Failure
	return errors.As(err, &f) && f.Says(words)
}

// Status returns the HTTP status of the failure in err, 0 without one.
func Status(err error) int {
	var f *Failure
	if errors.As(err, &f) {
		return f.Status
	}
	return 0
}

type errorBody struct {
	Error json.RawMessage `json:"error"`
}

type errorObject struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Message string `json:"message"`
	} `json:"details"`
	Inner *struct {
		Internal *exception `json:"internalexception"`
	} `json:"innererror"`
}

type exception struct {
	Message string `json:"message"`
	Type    string `json:"type"`
}

// detailForm is `<optional id>|<.NET type>|<text>`.
var detailForm = regexp.MustCompile(`(?s)^(?:Ex[0-9A-F]{6})?\|([A-Za-z0-9_.+]+)\|(.*)$`)

// parse finds the exception of an error answer: the innermost first, as the
// outer ones only say "Invalid Operation".
func parse(body []byte) (code string, e exception) {
	var outer errorBody
	var o errorObject
	_ = json.Unmarshal(body, &outer) // NUL bytes and pages of proxies are not JSON
	if json.Unmarshal(outer.Error, &o) != nil {
		_ = json.Unmarshal(outer.Error, &code) // the OAuth form: a code alone
		return code, exception{}
	}
	if o.Inner != nil && o.Inner.Internal != nil && *o.Inner.Internal != (exception{}) {
		e = *o.Inner.Internal
	}
	for _, d := range o.Details {
		if e.Type != "" {
			break
		}
		if found := detail(d.Message); e.Message == "" || found.Type != "" {
			e = found
		}
	}
	if e == (exception{}) {
		e = detail(o.Message)
	}
	return o.Code, e
}

// detail reads a text that may be in the three-part form.
func detail(text string) exception {
	if m := detailForm.FindStringSubmatch(text); m != nil {
		return exception{Type: m[1], Message: m[2]}
	}
	return exception{Message: text}
}

// failure reads an answer of an error status.
func failure(a call.Answer) error {
	code, e := parse(a.Body)
	f := newFailure(a.Status, e)
	// A server's error leaves its outcome open, whatever it is called inside.
	if trouble := call.Trouble(a, call.Cause("exchange", f.Type)); trouble != nil {
		return trouble
	}
	f.Outcome = f.outcome(a, code != "")
	f.Outcome.Cause = call.Cause("exchange", strconv.Itoa(a.Status), code, f.Type)
	return f
}

// reported reads the errors that a cmdlet wrote although the status is 200: a
// list of texts, or whatever else is not empty.
func reported(raw json.RawMessage) error {
	text := strings.TrimSpace(string(raw))
	var lines []json.RawMessage
	if json.Unmarshal(raw, &lines) == nil && len(lines) > 0 {
		text = string(lines[0])
	}
	switch text {
	case "", "null", "[]", "{}":
		return nil
	}
	_ = json.Unmarshal([]byte(text), &text) // else it is searched as it stands
	f := newFailure(http.StatusOK, detail(text))
	f.Outcome = f.outcome(call.Answer{Status: http.StatusOK}, true)
	f.Outcome.Cause = call.Cause("exchange", "200", "adminapi.errors", f.Type)
	return f
}

func newFailure(status int, e exception) *Failure {
	f := &Failure{Status: status, Type: e.Type[strings.LastIndexByte(e.Type, '.')+1:]}
	f.text = strings.ReplaceAll(strings.ToLower(e.Message), "\u2019", "'")
	f.Class = classify(f.Type, f.text)
	if status == http.StatusNotFound && f.Class == NotFound && !strings.HasSuffix(f.Type, objectNotFound) {
		f.Class = Unknown // the tenant in the path; a cmdlet misses its object with 400
	}
	return f
}

// outcome is what a failure means where no call has a meaning of its own.
// envelope says that the endpoint itself answered.
func (f *Failure) outcome(a call.Answer, envelope bool) *outcome.Error {
	o := call.Broken()
	switch {
	case f.Class == Throttled:
		o.Kind, o.Detail = outcome.Throttled, "the mail platform wants us to wait"
	case f.Class == Transient:
		o.Kind, o.Detail = outcome.Down, "the mail platform is out of service"
	case f.Class == Dehydrated:
		return call.NotReady("the mail server is still being prepared")
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return call.Refuse(fault.AccessDenied, "the mail server's grant is missing")
	case a.Status == http.StatusNotFound && f.Class == Unknown && envelope:
		return call.Refuse(fault.AccessDenied, "the tenant is gone from the mail server")
	case call.Definite(a.Status, envelope):
		return call.Failed()
	}
	o.RetryAfter = call.RetryAfter(a.Header, time.Now())
	return o
}
