// SPDX-License-Identifier: Apache-2.0

// Package fault holds every refusal that tenantry publishes: a code, its kind
// and the words that its page under /docs/errors shows.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind groups codes by whose move is next. An adapter maps it to its own
// protocol; httpapi turns it into an HTTP status.
type Kind int

// The kinds, in the order of the HTTP statuses they become.
const (
	Invalid Kind = iota + 1
	Unauthenticated
	PaymentRequired
	Forbidden
	NotFound
	MethodNotAllowed
	NotAcceptable
	Conflict
	TooLarge
	UnsupportedMedia
	RateLimited
	Internal
	BadGateway
	Unavailable
	Timeout
)

// Code is one published refusal. Title is its short name for people, About
// says what happened and what to do next.
type Code struct {
	Name  string
	Kind  Kind
	Title string
	About string
}

// Error makes a Code usable with errors.Is.
func (c Code) Error() string { return c.Name }

// With refuses with c and says why, in words safe to show the caller.
func (c Code) With(format string, args ...any) error {
	return &Error{Code: c, Detail: fmt.Sprintf(format, args...)}
}

// At refuses with c and names the places in the request that are to blame.
func (c Code) At(detail string, fields ...Field) error {
	return &Error{Code: c, Detail: detail, Fields: fields}
}

// RetryIn refuses with c and says when trying again may help.
func (c Code) RetryIn(wait time.Duration, format string, args ...any) error {
	return &Error{Code: c, Detail: fmt.Sprintf(format, args...), RetryAfter: wait}
}

// Showing refuses with c and carries what the caller has to look at.
func (c Code) Showing(what any, format string, args ...any) error {
	return &Error{Code: c, Detail: fmt.Sprintf(format, args...), Shows: what}
}

// Field is one place in a request (`body.domain`, `query.limit`) and what is
// wrong there. It never carries the rejected value, which may be a secret.
type Field struct {
	Location string
	Message  string
}

// Error is a refusal on its way to the caller. All of it is safe to show.
type Error struct {
	Code       Code
	Detail     string
	Fields     []Field
	RetryAfter time.Duration
	// Shows are values of core that the refusal is about, of a kind that
	// follows from the code, nil for most. An adapter gives them its own form.
	Shows any
}

func (e *Error) Error() string { return e.Code.Name + ": " + e.Detail }

// Unwrap makes errors.Is(err, fault.TenantNotFound) hold.
func (e *Error) Unwrap() error { return e.Code }

// Of finds the refusal in err. Anything that is not a refusal becomes
// InternalError with no detail, so that nothing inside leaks out.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var c Code
	if errors.As(err, &c) {
		return &Error{Code: c, Detail: c.Title}
	}
	return &Error{Code: InternalError, Detail: "something went wrong on our side"}
}
