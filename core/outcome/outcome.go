// SPDX-License-Identifier: Apache-2.0

// Package outcome classifies failed calls to providers.
//
// Error is a failed call to a provider. Its Kind says why the call failed and whether it had an
// effect. Use cases, circuit breakers and workers decide by the Kind. Callers of the API see only
// the fault.Error that Unwrap returns.
package outcome

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
)

// Kind says why a call failed and whether it had an effect at the provider.
type Kind int

const (
	// Refused means that the provider rejected the call, for a reason with a published code.
	// Nothing changed there, and a retry does not help.
	Refused Kind = iota + 1
	// NotReady means that the provider has not finished an asynchronous task. Nothing changed
	// there. A later retry helps.
	NotReady
	// Throttled means that the provider limits the rate of calls. Nothing changed there.
	Throttled
	// Down means that the provider could not be reached, that its circuit breaker is open, or that
	// the provider reports an outage. Nothing changed there.
	Down
	// Broken means that the provider returned an internal error or an invalid answer. A read
	// changed nothing. After a write it must be treated like Unknown.
	Broken
	// Unknown means that the request was sent and no answer arrived. The caller must read the
	// object to find out whether the call had an effect.
	Unknown
)

// String returns the name of the kind in metrics and in the plugin protocol, "done" for 0.
func (k Kind) String() string {
	switch k {
	case Refused:
		return "refused"
	case NotReady:
		return "not_ready"
	case Throttled:
		return "throttled"
	case Down:
		return "down"
	case Broken:
		return "broken"
	case Unknown:
		return "unknown"
	default:
		return "done"
	}
}

// Error is a failed call to a provider.
type Error struct {
	Kind Kind
	// Code is the published error code. It is set for Refused, and may be set for NotReady. For the
	// other kinds Unwrap chooses a code.
	Code fault.Code
	// Detail is safe to show to a caller: it contains no provider text and no secret.
	Detail string
	// Cause is the class of the failure for logs and spans, such as the provider's error code or a
	// type name. It is never a message with customer data.
	Cause string
	// RetryAfter is the wait that the provider or its circuit breaker demands, 0 for none.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Cause != "" {
		return fmt.Sprintf("provider %s (%s): %s", e.Kind, e.Cause, e.Detail)
	}
	return fmt.Sprintf("provider %s: %s", e.Kind, e.Detail)
}

// Unwrap returns the fault.Error that callers of the API see.
func (e *Error) Unwrap() error {
	switch e.Kind {
	case Refused, NotReady:
		if e.Code.Name != "" {
			return &fault.Error{Code: e.Code, Detail: e.Detail, RetryAfter: e.RetryAfter}
		}
		return &fault.Error{Code: fault.ProviderTimeout, Detail: "the provider has not finished the operation yet"}
	case Throttled, Down:
		wait := e.RetryAfter
		if wait <= 0 {
			wait = 10 * time.Second
		}
		return &fault.Error{Code: fault.ProviderUnavailable, Detail: "the provider is not available right now", RetryAfter: wait}
	case Broken:
		return &fault.Error{Code: fault.ProviderError, Detail: "the provider answered with an error"}
	default:
		return &fault.Error{Code: fault.ProviderTimeout, Detail: "the provider did not answer in time"}
	}
}

// CauseTooLarge is the Cause when the answer exceeds the size that tenantry reads.
const CauseTooLarge = "answer_too_large"

// CauseHeldBack is the Cause of a Throttled outcome when the plugin did not send the next request
// of a call, because an earlier answer of the provider demanded a pause.
const CauseHeldBack = "held_back"

// CauseConnectionCut is the Cause of an Unknown outcome when the connection was closed before the
// answer. If the call was a read, it changed nothing and may be reported as Down.
const CauseConnectionCut = "connection_cut"

// CauseSetting is the prefix of the Cause when a setting of a connection is invalid. The plugin
// detects this before it calls the provider.
const CauseSetting = "setting "

// PluginCausePrefix is the prefix of the causes of failures of the plugin itself. With the kind
// Down, such a cause means that the plugin had no process for the call. Only the host creates
// outcomes of this kind with such a cause, and it does not accept them from a plugin.
const PluginCausePrefix = "plugin_"

// IsUnsent reports whether err means that the call or its next request was not sent: an earlier
// answer of the provider demanded a pause, a setting of the connection is invalid, or the plugin
// has no process.
func IsUnsent(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Throttled && e.Cause == CauseHeldBack || IsInvalidSetting(err) || IsWithoutProcess(err)
}

// IsWithoutProcess reports whether err means that the plugin had no process for the call: the
// plugin is missing or still starting, its next start is delayed after a failure, or the host was
// closed. Nothing was sent.
func IsWithoutProcess(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Down && strings.HasPrefix(e.Cause, PluginCausePrefix)
}

// IsInvalidSetting reports whether err means that a setting of the connection is invalid.
func IsInvalidSetting(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Refused && strings.HasPrefix(e.Cause, CauseSetting)
}

// IsTooLarge reports whether err means that an answer exceeded the size limit of the service, or a
// message exceeded the limit of the plugin protocol. A retry returns the same error.
func IsTooLarge(err error) bool {
	var e *Error
	return errors.As(err, &e) && strings.HasSuffix(e.Cause, "_too_large")
}

// KindOf returns the Kind of the provider error in err, or 0 if err is nil or contains none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// RetryAfter returns the RetryAfter of the provider error in err, or 0 if err is nil or contains
// none.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// ChangedNothing reports whether err proves that a write changed nothing at the provider. It is
// false for Unknown and Broken. It is also false for errors without a Kind, such as the error of a
// cancelled context.
func ChangedNothing(err error) bool {
	switch KindOf(err) {
	case Refused, NotReady, Throttled, Down:
		return true
	default:
		return false
	}
}
