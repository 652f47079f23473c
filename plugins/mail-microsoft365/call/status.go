// SPDX-License-Identifier: Apache-2.0

package call

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// Trouble reads the statuses that mean the same at all three hosts: throttled,
// out of service, broken, too slow. It returns nil for the others. cause is the
// host's name and, where it has one, its error code.
func Trouble(a Answer, cause string) error {
	o := &outcome.Error{Cause: strings.TrimSpace(strconv.Itoa(a.Status) + " " + cause), RetryAfter: RetryAfter(a.Header, time.Now())}
	switch {
	case a.Status == http.StatusTooManyRequests:
		o.Kind, o.Detail = outcome.Throttled, "the mail platform wants us to wait"
	case a.Status == http.StatusServiceUnavailable:
		o.Kind, o.Detail = outcome.Down, "the mail platform is out of service"
	case a.Status == http.StatusGatewayTimeout, a.Status == http.StatusRequestTimeout:
		// The work may have been done, or go on.
		o.Kind, o.Detail = outcome.Unknown, "the mail platform did not answer in time"
		return temporary{o}
	case a.Status >= http.StatusInternalServerError:
		o.Kind, o.Detail = outcome.Broken, "the mail platform answered with an error"
		return temporary{o}
	default:
		return nil
	}
	return o
}

// Broken is an answer that makes no sense or shows a fault of ours. Here and
// below, cause is made of our own words or comes from Cause or CauseOf.
func Broken(cause ...string) *outcome.Error {
	return &outcome.Error{Kind: outcome.Broken, Cause: strings.Join(cause, " "), Detail: "the mail platform answered with an error"}
}

// Failed is a definite refusal for a reason that has no published code: the
// request changed nothing, and the same one again would not either.
func Failed(cause ...string) *outcome.Error {
	return Refuse(fault.ProviderError, "the mail platform refused this", cause...)
}

// Definite reports whether an answer refuses the request for good: one of the
// statuses that mean just that, or another of a request's fault in the host's
// own form, which a proxy's page is not. Those that say more are read before.
func Definite(status int, readable bool) bool {
	switch status {
	case http.StatusBadRequest, http.StatusConflict:
		return true
	default:
		return readable && status >= http.StatusBadRequest && status < http.StatusInternalServerError
	}
}

// Refuse is a definite refusal with a published code.
func Refuse(code fault.Code, detail string, cause ...string) *outcome.Error {
	return &outcome.Error{Kind: outcome.Refused, Code: code, Detail: detail, Cause: strings.Join(cause, " ")}
}

// NotReady is work that the provider finishes in its own time.
func NotReady(detail string, cause ...string) *outcome.Error {
	return &outcome.Error{Kind: outcome.NotReady, Detail: detail, Cause: strings.Join(cause, " ")}
}

// Denied reports whether the provider no longer lets us in.
func Denied(err error) bool {
	return outcome.Of(err) == outcome.Refused && errors.Is(err, fault.AccessDenied)
}

// Cause joins codes and type names to a cause for logs. What is not the form
// of a code is left out: it may be a message with customer data.
func Cause(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" && len(p) <= 80 && strings.Trim(p, codeCharacters) == "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, " ")
}

const codeCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-"

// CauseOf returns the cause of the outcome in err, to keep it in another.
func CauseOf(err error) string {
	var o *outcome.Error
	if errors.As(err, &o) {
		return o.Cause
	}
	return ""
}
