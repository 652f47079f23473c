// SPDX-License-Identifier: Apache-2.0

// Package outcome says how a call to a provider ended when it did not end in
// an answer. Use cases, breakers and workers decide on the kind; callers of
// the API see only the refusal it stands for.
package outcome

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
)

// Kind is what we know about the call and its effect.
type Kind int

const (
	// Refused: the provider said no, for a reason with a published code.
	// Nothing changed there, and trying again does not help.
	Refused Kind = iota + 1
	// NotReady: the provider has not finished something it does in its own
	// time. Nothing changed there; trying again later helps.
	NotReady
	// Throttled: the provider wants us to wait. Nothing changed there.
	Throttled
	// Down: the provider could not be reached, its circuit is open, or it
	// says that it is out of service. Nothing changed there.
	Down
	// Broken: the provider answered with a fault of its own or with nonsense.
	// A read changed nothing; after a write treat it like Unknown.
	Broken
	// Unknown: the request left and no answer came. It is neither failed nor
	// done; the next step looks by natural key.
	Unknown
)

// String gives the kind's name as metrics and the wire use it.
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

// Error is a provider call that brought no answer.
type Error struct {
	Kind Kind
	// Code is the published refusal. It is set for Refused and NotReady;
	// for the other kinds Unwrap supplies it.
	Code fault.Code
	// Detail is safe to show a caller: no provider text, no secret.
	Detail string
	// Cause is the provider's own classification for logs and metrics
	// (an error code or type name, never a message with customer data).
	Cause string
	// RetryAfter says when the provider, or its circuit, expects us back.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Cause != "" {
		return fmt.Sprintf("provider %s (%s): %s", e.Kind, e.Cause, e.Detail)
	}
	return fmt.Sprintf("provider %s: %s", e.Kind, e.Detail)
}

// Unwrap gives the refusal that callers of the API see.
func (e *Error) Unwrap() error {
	switch e.Kind {
	case Refused, NotReady:
		if e.Code.Name != "" {
			return &fault.Error{Code: e.Code, Detail: e.Detail, RetryAfter: e.RetryAfter}
		}
		return &fault.Error{Code: fault.ProviderTimeout, Detail: "the provider has not finished its part yet"}
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

// CauseTooLarge is the cause of a provider's answer that is larger than what is
// read of one.
const CauseTooLarge = "answer_too_large"

// CauseCut is the cause of an unknown outcome of which the connection was cut
// before its answer. A read of that kind changed nothing: whoever knows that it
// was one may call it Down.
const CauseCut = "connection_cut"

// CauseSetting begins the cause of a refusal of a connection whose setting makes
// no sense, which was seen before anybody was asked.
const CauseSetting = "setting "

// TooLarge reports whether err is an answer that is too large, for us or for
// the way from the plugin: asking again brings the same.
func TooLarge(err error) bool {
	var e *Error
	return errors.As(err, &e) && strings.HasSuffix(e.Cause, "_too_large")
}

// Of tells how err ended: the kind of the provider error in it, or zero when
// err is nil or holds none.
func Of(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// Settled reports whether err leaves no doubt about the effect of a write:
// nothing changed at the provider. Unknown, Broken and anything that is not a
// provider's answer (a cancelled context, a dead plugin) leave doubt.
func Settled(err error) bool {
	switch Of(err) {
	case Refused, NotReady, Throttled, Down:
		return true
	default:
		return false
	}
}
