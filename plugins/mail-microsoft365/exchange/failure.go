// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// Failure is the failure of a cmdlet. Unwrap returns its outcome.
type Failure struct {
	Outcome *outcome.Error
	Class   Class
	Status  int
	Type    string // the .NET type without its namespace
	text    string // the message in lower case. It may quote customer data, so it is only searched and never logged.
}

func (f *Failure) Error() string { return f.Outcome.Error() }

// Unwrap returns the outcome.
func (f *Failure) Unwrap() error { return f.Outcome }

// Is reports whether err is a Failure of one of the classes.
func Is(err error, classes ...Class) bool {
	var f *Failure
	return errors.As(err, &f) && slices.Contains(classes, f.Class)
}

// MessageContains reports whether err is a Failure whose message contains this lower-case text.
func MessageContains(err error, words string) bool {
	var f *Failure
	return errors.As(err, &f) && strings.Contains(f.text, words)
}

// Status returns the HTTP status of the Failure in err, or 0 if err contains no Failure.
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

// detailForm matches a message of the form `<optional id>|<.NET type>|<text>`.
var detailForm = regexp.MustCompile(`(?s)^(?:Ex[0-9A-F]{6})?\|([A-Za-z0-9_.+]+)\|(.*)$`)

// parseError returns the code and the exception of an error response. It returns the innermost
// exception if it can, because the outer exceptions only say "Invalid Operation".
func parseError(body []byte) (code string, thrown exception) {
	var outer errorBody
	var object errorObject
	_ = json.Unmarshal(body, &outer) // the body may be NUL bytes or a proxy's page
	if json.Unmarshal(outer.Error, &object) != nil {
		_ = json.Unmarshal(outer.Error, &code) // in the OAuth form, error is only the code
		return code, exception{}
	}
	if object.Inner != nil && object.Inner.Internal != nil && *object.Inner.Internal != (exception{}) {
		thrown = *object.Inner.Internal
	}
	for _, d := range object.Details {
		if thrown.Type != "" {
			break
		}
		if found := parseDetail(d.Message); thrown.Message == "" || found.Type != "" {
			thrown = found
		}
	}
	if thrown == (exception{}) {
		thrown = parseDetail(object.Message)
	}
	return object.Code, thrown
}

// parseDetail reads a message that may have the form of detailForm.
func parseDetail(text string) exception {
	if m := detailForm.FindStringSubmatch(text); m != nil {
		return exception{Type: m[1], Message: m[2]}
	}
	return exception{Message: text}
}

// failureFromResponse returns an outcome or a *Failure for a response with an error status.
func failureFromResponse(resp call.Response) error {
	code, e := parseError(resp.Body)
	f := newFailure(resp.Status, e)
	// The statuses of call.StatusError determine the outcome, even if the body contains an
	// exception.
	if statusErr := call.StatusError(resp, call.Cause("exchange", f.Type)); statusErr != nil {
		return statusErr
	}
	f.Outcome = f.outcome(resp, code != "")
	f.Outcome.Cause = call.Cause("exchange", strconv.Itoa(resp.Status), code, f.Type)
	return f
}

// reportedFailure returns the Failure of a cmdlet that failed with status 200. raw is the value of
// the member @adminapi.errors, usually a list of texts. reportedFailure reads only the first
// element of a list. If this element or raw is empty, the cmdlet did not fail and the result is
// nil.
func reportedFailure(raw json.RawMessage) error {
	text := strings.TrimSpace(string(raw))
	var lines []json.RawMessage
	if json.Unmarshal(raw, &lines) == nil && len(lines) > 0 {
		text = string(lines[0])
	}
	switch text {
	case "", "null", "[]", "{}":
		return nil
	}
	_ = json.Unmarshal([]byte(text), &text) // a value that is not a JSON string is searched as it is
	f := newFailure(http.StatusOK, parseDetail(text))
	f.Outcome = f.outcome(call.Response{Status: http.StatusOK}, true)
	f.Outcome.Cause = call.Cause("exchange", "200", "adminapi.errors", f.Type)
	return f
}

func newFailure(status int, e exception) *Failure {
	f := &Failure{Status: status, Type: e.Type[strings.LastIndexByte(e.Type, '.')+1:]}
	f.text = strings.ReplaceAll(strings.ToLower(e.Message), "\u2019", "'")
	f.Class = classify(f.Type, f.text)
	if status == http.StatusNotFound && f.Class == NotFound && !strings.HasSuffix(f.Type, objectNotFound) {
		f.Class = Unknown // for a missing object the status would be 400, so the tenant in the path does not exist
	}
	return f
}

// outcome returns the default outcome of the failure. Callers may handle a class differently.
// fromEndpoint is true if Exchange sent the response, and not a proxy.
func (f *Failure) outcome(resp call.Response, fromEndpoint bool) *outcome.Error {
	o := call.Broken()
	switch {
	case f.Class == Throttled:
		o.Kind, o.Detail = outcome.Throttled, "the mail platform throttles the requests of this service"
	case f.Class == Transient:
		o.Kind, o.Detail = outcome.Down, "the mail platform is out of service"
	case f.Class == Dehydrated:
		return call.NotReady("the mail server is still being prepared")
	case resp.Status == http.StatusUnauthorized || resp.Status == http.StatusForbidden:
		return call.Refuse(fault.AccessDenied, "the mail server's grant is missing")
	case resp.Status == http.StatusNotFound && f.Class == Unknown && fromEndpoint:
		return call.Refuse(fault.AccessDenied, "the mail server no longer has the tenant")
	case call.IsDefinite(resp.Status, fromEndpoint):
		return call.RefuseUnspecified()
	}
	o.RetryAfter = sdk.RetryAfter(resp.Header, time.Now())
	return o
}
