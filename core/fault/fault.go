// SPDX-License-Identifier: Apache-2.0

// Package fault defines the errors that the API publishes. Each error has a Code, with a kind, a
// title and the text of its page under /docs/errors.
//
// Use cases return an *Error, which Code.With and other methods of Code create. ErrorOf returns the
// *Error in any error. The codes are listed in codes.go.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the class of an error. The HTTP API maps each kind to a status.
type Kind int

// The kinds, in the order of their HTTP statuses.
const (
	Invalid Kind = iota + 1
	Unauthenticated
	PaymentRequired
	Forbidden
	NotFound
	MethodNotAllowed
	NotAcceptable
	Conflict
	Gone
	TooLarge
	UnsupportedMedia
	RateLimited
	Internal
	BadGateway
	Unavailable
	Timeout
)

// Code is one published error. Title is its short name for people. About describes what happened
// and what to do next.
type Code struct {
	Name  string
	Kind  Kind
	Title string
	About string
}

// Error implements error, so that a Code can be the target of errors.Is.
func (c Code) Error() string { return c.Name }

// With returns an Error with code c. The detail must be safe to show to the caller.
func (c Code) With(format string, args ...any) error {
	return &Error{Code: c, Detail: fmt.Sprintf(format, args...)}
}

// At returns an Error with code c and the invalid fields.
func (c Code) At(detail string, fields ...Field) error {
	return &Error{Code: c, Detail: detail, Fields: fields}
}

// RetryIn returns an Error with code c and the time after which a retry may succeed.
func (c Code) RetryIn(retryAfter time.Duration, format string, args ...any) error {
	return &Error{Code: c, Detail: fmt.Sprintf(format, args...), RetryAfter: retryAfter}
}

// WithValues returns an Error with code c and with values that the API shows to the caller.
func (c Code) WithValues(values any, format string, args ...any) error {
	return &Error{Code: c, Detail: fmt.Sprintf(format, args...), Values: values}
}

// Field is one invalid field of a caller's input, such as mailboxes[2].email, with the problem. It
// never contains the rejected value, which may be a secret. Package httpapi locates the field in
// the request.
type Field struct {
	Name    string
	Message string
}

// Error is a published error with its details. All fields are safe to show to the caller.
type Error struct {
	Code       Code
	Detail     string
	Fields     []Field
	RetryAfter time.Duration
	// Values holds values that explain the error, nil for most errors. Their type depends on the
	// code.
	Values any
}

func (e *Error) Error() string { return e.Code.Name + ": " + e.Detail }

// Unwrap returns the code, so that errors.Is(err, fault.TenantNotFound) holds.
func (e *Error) Unwrap() error { return e.Code }

// fromStore marks an error that depends only on stored data, see FromStore.
type fromStore struct{ error }

func (s fromStore) Unwrap() error { return s.error }

// FromStore marks err as an error that depends only on the data that tenantry stores, and not on a
// provider's answer or the live DNS. A concurrent request can change the stored data at any time. A
// marked error is therefore not replayed to later requests with the same Idempotency-Key. FromStore
// returns nil if err is nil.
func FromStore(err error) error {
	if err == nil {
		return nil
	}
	return fromStore{err}
}

// IsFromStore reports whether err was marked by FromStore.
func IsFromStore(err error) bool {
	var s fromStore
	return errors.As(err, &s)
}

// ErrorOf returns the published error in err. Any other error becomes InternalError with a general
// detail, so that no internal text is shown.
func ErrorOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var c Code
	if errors.As(err, &c) {
		return &Error{Code: c, Detail: c.Title}
	}
	return &Error{Code: InternalError, Detail: "the service failed unexpectedly"}
}

// keyAdvice says which Idempotency-Key a corrected request may have.
const keyAdvice = "A new Idempotency-Key always works. The used one works too, unless an answer of a provider or the live DNS led to this error."

// Again returns a text for the caller that says whether and how to retry the same request.
func (c Code) Again() string {
	if c == KeyInProgress {
		return Unavailable.retryAdvice()
	}
	return c.Kind.retryAdvice()
}

// retryAdvice returns the text of Code.Again for a kind.
func (k Kind) retryAdvice() string {
	switch k {
	case Invalid:
		return "Not unchanged: the same request fails again until the problem described above is fixed. " + keyAdvice
	case Unauthenticated:
		return "Not with these credentials. Nothing was changed. Once the header is correct, you can send the same request with the same Idempotency-Key."
	case PaymentRequired:
		return "Yes, after the account's plan has changed. Nothing was changed, so you can use the same Idempotency-Key."
	case Forbidden:
		return "Yes, after the permission is restored. Until then every such request fails with this error."
	case NotFound, MethodNotAllowed, NotAcceptable, TooLarge, UnsupportedMedia:
		return "No. Nothing was changed; correct the request first."
	case Conflict:
		return "Yes, after the state described above has changed. " + keyAdvice
	case Gone:
		return "No: an expired cursor stays expired. Nothing was changed."
	case Unavailable, RateLimited:
		return "Yes: wait for the number of seconds in the `Retry-After` header, then use the same Idempotency-Key."
	case Timeout:
		return "Yes, with the same Idempotency-Key, after a few seconds. Completed work is detected and not repeated."
	default: // Internal and BadGateway
		return "Yes, with the same Idempotency-Key, a few times and with increasing delays. Completed work is detected and not repeated."
	}
}
