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
	"github.com/tenantry/tenantry/plugins/sdk"
)

// StatusError returns an outcome for the statuses that have the same meaning at Graph and Exchange:
// 408, 429 and 5xx. It returns nil for all other statuses. cause names the API and, if the response
// has one, its error code or exception type.
func StatusError(resp Response, cause string) error {
	failure := &outcome.Error{Cause: strings.TrimSpace(strconv.Itoa(resp.Status) + " " + cause), RetryAfter: sdk.RetryAfter(resp.Header, time.Now())}
	switch {
	case resp.Status == http.StatusTooManyRequests:
		failure.Kind, failure.Detail = outcome.Throttled, "the mail platform throttles the service's requests"
	case resp.Status == http.StatusServiceUnavailable:
		failure.Kind, failure.Detail = outcome.Down, "the mail platform is out of service"
	case resp.Status == http.StatusGatewayTimeout, resp.Status == http.StatusRequestTimeout:
		// The platform may have executed the request, or may still be executing it.
		failure.Kind, failure.Detail = outcome.Unknown, "the mail platform did not answer in time"
		return retryableRead{failure}
	case resp.Status >= http.StatusInternalServerError:
		failure.Kind, failure.Detail = outcome.Broken, "the mail platform answered with an error"
		return retryableRead{failure}
	default:
		return nil
	}
	return failure
}

// Broken returns an outcome for an unexpected response or a defect of the plugin. The cause is
// logged, so it must contain only constant words and error codes (see Cause). This also applies to
// RefuseUnspecified, Refuse and NotReady.
func Broken(cause ...string) *outcome.Error {
	return &outcome.Error{Kind: outcome.Broken, Cause: strings.Join(cause, " "), Detail: "the mail platform answered with an error"}
}

// RefuseUnspecified returns a refusal for a reason that has no error code in tenantry. The request
// changed nothing and would fail again.
func RefuseUnspecified(cause ...string) *outcome.Error {
	return Refuse(fault.ProviderError, "the mail platform refused this", cause...)
}

// IsDefinite reports whether a response is a definite refusal: the same request would be refused
// again. Status 400 and 409 are always definite. Any other 4xx status is definite only if readable
// is true, which means that the body has the error format of the host. A response without that
// format may come from a proxy. Callers handle responses with a more specific meaning themselves.
func IsDefinite(status int, readable bool) bool {
	switch status {
	case http.StatusBadRequest, http.StatusConflict:
		return true
	default:
		return readable && status >= http.StatusBadRequest && status < http.StatusInternalServerError
	}
}

// Refuse returns a refusal with an error code of tenantry.
func Refuse(code fault.Code, detail string, cause ...string) *outcome.Error {
	return &outcome.Error{Kind: outcome.Refused, Code: code, Detail: detail, Cause: strings.Join(cause, " ")}
}

// NotReady returns an outcome for work that the provider has not finished yet.
func NotReady(detail string, cause ...string) *outcome.Error {
	return &outcome.Error{Kind: outcome.NotReady, Detail: detail, Cause: strings.Join(cause, " ")}
}

// IsDenied reports whether err is a refusal with AccessDenied.
func IsDenied(err error) bool {
	return outcome.KindOf(err) == outcome.Refused && errors.Is(err, fault.AccessDenied)
}

// Cause joins error codes and type names to a cause for logs. It omits parts that do not look like
// a code, because they may be messages with customer data.
func Cause(parts ...string) string {
	var result []string
	for _, p := range parts {
		if p != "" && len(p) <= 80 && strings.Trim(p, codeCharacters) == "" {
			result = append(result, p)
		}
	}
	return strings.Join(result, " ")
}

const codeCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-"

// CauseOf returns the cause of the outcome in err, or "" if err contains no outcome.
func CauseOf(err error) string {
	var result *outcome.Error
	if errors.As(err, &result) {
		return result.Cause
	}
	return ""
}
