// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
)

// Outcome is the error of a failed call to a provider. A method may return an error that wraps it.
// The functions of this package create the common outcomes.
type Outcome = outcome.Error

// OutcomeKind says why a call failed and what is known about its effect.
type OutcomeKind = outcome.Kind

// The kinds of outcomes. docs/plugins.md says when to use each kind.
const (
	Refused   = outcome.Refused
	NotReady  = outcome.NotReady
	Throttled = outcome.Throttled
	Down      = outcome.Down
	Broken    = outcome.Broken
	Unknown   = outcome.Unknown
)

// OutcomeOf returns the Outcome that err is or wraps, otherwise the zero Outcome. A plugin that
// sends several requests for one call can use it to decide how to continue. Tests can compare
// outcomes, as in OutcomeOf(err) == OutcomeOf(NoZone()).
func OutcomeOf(err error) Outcome {
	var o *Outcome
	if errors.As(err, &o) {
		return *o
	}
	return Outcome{}
}

// NewSecret returns a Secret with the given text.
func NewSecret(value string) Secret { return secret.New(value) }

// Misconfigured returns a refusal for a connection with an invalid setting. The plugin returns it
// without a call to the provider.
func Misconfigured(setting, detail string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: outcome.CauseSetting + setting, Detail: setting + ": " + detail}
}

// NotServed returns a refusal for a setting whose value does not work at the provider. The plugin
// learns this from the provider, unlike with Misconfigured. A DNS plugin also returns NotServed,
// with the name of a record set as setting, if other data of the zone prevents a write of the set.
func NotServed(setting, detail string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: "not_served", Detail: setting + ": " + detail}
}

// CredentialRefused returns the error for a credential that the provider does not accept, or that
// does not permit the call.
func CredentialRefused(cause string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Cause: cause, Detail: "the provider does not accept the credential, or the credential does not allow this"}
}

// NotSupported returns a refusal for a capability that the provider does not have, or does not
// offer for this credential.
func NotSupported(capability string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.CapabilityMissing, Cause: "no " + capability, Detail: "the provider cannot do this, or not with this credential"}
}

// PlanInactive returns the error for a valid credential of an account that has no active plan at
// the provider.
func PlanInactive() error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Cause: "plan_inactive", Detail: "the account at the provider has no active plan"}
}

// RequestRefused returns the error for a call that the provider refused for a reason that has no
// error code of its own. The request changed nothing, and the provider would refuse it again.
func RequestRefused(cause string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.ProviderError, Cause: cause, Detail: "the provider refused this"}
}

// BrokenAnswer returns the error for an answer that cannot be parsed, or that reports an internal
// error of the provider.
func BrokenAnswer(cause string) error {
	return &outcome.Error{Kind: outcome.Broken, Cause: cause, Detail: "the provider answered with an error"}
}

// AnswerTooLarge returns the error for an answer that is longer than its limit. The same call would
// fail again.
func AnswerTooLarge() error {
	return &outcome.Error{Kind: outcome.Broken, Cause: outcome.CauseTooLarge, Detail: "the provider's answer is too large"}
}

// UnknownEffect returns the error for a call that may or may not have had an effect.
func UnknownEffect(cause string) error {
	return &outcome.Error{Kind: outcome.Unknown, Cause: cause, Detail: "the provider did not answer in time"}
}

// TransportError classifies the error of a request that got no complete answer:
//
//   - An Outcome that err is or wraps, such as a refusal by Waits, is returned unchanged.
//   - Refused: ErrPrivateAddress. Broken: ErrHostNotNamed. Nothing was sent.
//   - Down: the connection could not be opened.
//   - AnswerTooLarge: ErrAnswerTooLarge.
//   - UnknownEffect: every other error. Also a cancellation or a timeout before the connection was
//     open.
func TransportError(err error) error {
	var opErr *net.OpError
	var netErr net.Error
	var outcomeErr *outcome.Error
	switch {
	case errors.As(err, &outcomeErr): // not sent because of Waits, or the status is 101
		return outcomeErr
	case errors.Is(err, ErrPrivateAddress):
		return &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: "private_address",
			Detail: "the host of this connection has no public address"}
	case errors.Is(err, ErrHostNotNamed):
		return &outcome.Error{Kind: outcome.Broken, Cause: "host_not_named", Detail: "the plugin may not connect to this host"}
	case errors.Is(err, ErrAnswerTooLarge):
		return AnswerTooLarge()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return UnknownEffect("no_answer")
	case errors.As(err, &opErr) && opErr.Op == "dial":
		return &outcome.Error{Kind: outcome.Down, Cause: "unreachable", Detail: "the provider cannot be reached"}
	case errors.As(err, &netErr) && netErr.Timeout():
		return UnknownEffect("no_answer")
	default:
		return UnknownEffect(outcome.CauseConnectionCut)
	}
}

// StatusError returns the error for the HTTP statuses that have the same meaning at every provider:
// 408, 429, and 500 or higher. It returns nil for other statuses. now is the current time.
// StatusError needs it for a Retry-After with a date.
func StatusError(status int, h http.Header, now time.Time) error {
	failure := &outcome.Error{Cause: "status " + strconv.Itoa(status), RetryAfter: RetryAfter(h, now)}
	switch {
	case status == http.StatusTooManyRequests:
		failure.Kind, failure.Detail = outcome.Throttled, "the provider wants us to wait"
	case status == http.StatusServiceUnavailable:
		failure.Kind, failure.Detail = outcome.Down, "the provider is out of service"
	case status == http.StatusGatewayTimeout, status == http.StatusRequestTimeout:
		failure.Kind, failure.Detail = outcome.Unknown, "the provider did not answer in time"
	case status >= http.StatusInternalServerError:
		failure.Kind, failure.Detail = outcome.Broken, "the provider answered with an error"
	default:
		return nil
	}
	return failure
}
