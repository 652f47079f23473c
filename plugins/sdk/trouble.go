// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// maxWait bounds what a provider may ask us to wait.
const maxWait = 10 * time.Minute

// Misconfigured is the refusal of a connection whose setting makes no sense,
// before anybody is asked.
func Misconfigured(setting, detail string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: outcome.CauseSetting + setting, Detail: setting + ": " + detail}
}

// NotServed is the refusal of a connection whose setting the provider does not
// know.
func NotServed(setting, detail string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: "not_served", Detail: setting + ": " + detail}
}

// CredentialRefused is the refusal of a credential.
func CredentialRefused(cause string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Cause: cause, Detail: "the provider does not take the credential, or it does not allow this"}
}

// NotSupported is the refusal of what this provider cannot do, or not with this
// credential.
func NotSupported(capability string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.CapabilityMissing, Cause: "no " + capability, Detail: "the provider cannot do this, or not with this credential"}
}

// PlanInactive is the refusal of a credential that is right, by a provider that
// wants to be paid first.
func PlanInactive() error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Cause: "plan_inactive", Detail: "the account at the provider has no active plan"}
}

// RefusedBy is a refusal that has no published code: the request changed
// nothing, and the same one again would not either.
func RefusedBy(cause string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.ProviderError, Cause: cause, Detail: "the provider refused this"}
}

// BrokenBy is an answer that makes no sense.
func BrokenBy(cause string) error {
	return &outcome.Error{Kind: outcome.Broken, Cause: cause, Detail: "the provider answered with an error"}
}

// AnswerTooLarge is an answer of which more came than is read. The same call
// would end so again.
func AnswerTooLarge() error {
	return &outcome.Error{Kind: outcome.Broken, Cause: outcome.CauseTooLarge, Detail: "the provider's answer is too large"}
}

// UnknownEffect is a write of which nobody can tell whether it was done.
func UnknownEffect(cause string) error {
	return &outcome.Error{Kind: outcome.Unknown, Cause: cause, Detail: "the provider did not answer in time"}
}

// NoAnswer says what it means that a request brought no answer: one that never
// left changed nothing, of any other nobody knows.
func NoAnswer(err error) error {
	var dial *net.OpError
	var late net.Error
	switch {
	case errors.Is(err, ErrPrivateAddress):
		return &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: "private_address",
			Detail: "the host of this connection has no public address"}
	case errors.Is(err, ErrAnswerTooLarge):
		return AnswerTooLarge()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return UnknownEffect("no_answer")
	case errors.As(err, &dial) && dial.Op == "dial":
		return &outcome.Error{Kind: outcome.Down, Cause: "unreachable", Detail: "the provider cannot be reached"}
	case errors.As(err, &late) && late.Timeout():
		return UnknownEffect("no_answer")
	default:
		return UnknownEffect(outcome.CauseCut)
	}
}

// TroubleOf reads the statuses that mean the same everywhere: throttled, out of
// service, too slow, broken. It is nil for the others.
func TroubleOf(status int, h http.Header, now time.Time) error {
	o := &outcome.Error{Cause: "status " + strconv.Itoa(status), RetryAfter: retryAfter(h, now)}
	switch {
	case status == http.StatusTooManyRequests:
		o.Kind, o.Detail = outcome.Throttled, "the provider wants us to wait"
	case status == http.StatusServiceUnavailable:
		o.Kind, o.Detail = outcome.Down, "the provider is out of service"
	case status == http.StatusGatewayTimeout, status == http.StatusRequestTimeout:
		o.Kind, o.Detail = outcome.Unknown, "the provider did not answer in time"
	case status >= http.StatusInternalServerError:
		o.Kind, o.Detail = outcome.Broken, "the provider answered with an error"
	default:
		return nil
	}
	return o
}

func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(seconds, int(maxWait/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return max(0, min(wait, maxWait))
}
