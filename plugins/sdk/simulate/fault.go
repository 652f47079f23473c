// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Kind is the effect of a Fault on a call.
type Kind string

// The kinds of faults.
const (
	// Status answers with Fault.Status. It executes the request only if Call.WorkAt contains the
	// status.
	Status Kind = "status"
	// Delay waits, then executes the request.
	Delay Kind = "delay"
	// DelayAfter executes the request, then delays the answer.
	DelayAfter Kind = "delay_after"
	// DropBefore closes the connection without executing the request.
	DropBefore Kind = "drop_before"
	// DropAfter executes the request, then closes the connection without an answer.
	DropAfter Kind = "drop_after"
	// HTML answers with an HTML page, like a proxy, and does not execute the request. The status is
	// Fault.Status, or 200.
	HTML Kind = "html"
	// WrongShape answers 200 with JSON of a wrong structure, and does not execute the request.
	WrongShape Kind = "misshape"
	// Truncate executes the request and sends only the first half of the answer's body.
	Truncate Kind = "truncate"
)

// Fault is one planned fault. A test adds it with POST /_control/faults, before the calls that it
// affects. The fault skips the first Skip matching calls, and then affects Times matching calls.
type Fault struct {
	Provider   string `json:"provider,omitempty"`
	Match      string `json:"match,omitempty"` // "METHOD path-prefix"
	Operation  string `json:"operation,omitempty"`
	Kind       Kind   `json:"kind"`
	Status     int    `json:"status,omitempty"`
	RetryAfter int    `json:"retry_after,omitempty"` // in seconds
	DelayMS    int    `json:"delay_ms,omitempty"`
	Times      int    `json:"times"`
	Skip       int    `json:"skip,omitempty"`
	WritesOnly bool   `json:"writes_only,omitempty"`
}

func (f Fault) validate() error {
	kinds := []Kind{Status, Delay, DelayAfter, DropBefore, DropAfter, HTML, WrongShape, Truncate}
	method, prefix, hasPrefix := strings.Cut(f.Match, " ")
	switch {
	case !slices.Contains(kinds, f.Kind):
		return errors.New("kind must be status, delay, delay_after, drop_before, drop_after, html, misshape or truncate")
	case f.Kind == Status && (f.Status < 300 || f.Status > 599):
		return errors.New("status must be between 300 and 599")
	case f.Kind == HTML && f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return errors.New("status must be between 200 and 599")
	case f.Kind != Status && (f.Status != 0 && f.Kind != HTML || f.RetryAfter != 0):
		return errors.New("status is only for the kinds status and html, and retry_after only for the kind status")
	case (f.Kind == Delay || f.Kind == DelayAfter) != (f.DelayMS > 0):
		return errors.New("delay_ms must be positive for the kinds delay and delay_after, and 0 for other kinds")
	case f.Times < 1 || f.Skip < 0 || f.RetryAfter < 0 || f.DelayMS < 0:
		return errors.New("times must be at least 1; skip, retry_after and delay_ms must not be negative")
	case f.Match != "" && (!hasPrefix || method == "" || !strings.HasPrefix(prefix, "/")):
		return errors.New(`match must be "METHOD path-prefix"`)
	}
	return nil
}

func (f Fault) delay() time.Duration { return time.Duration(f.DelayMS) * time.Millisecond }

// matches reports whether the fault applies to a call. The path in Match may begin with the prefix
// Call.Host or omit it.
func (f Fault) matches(r *http.Request, c Call) bool {
	if f.WritesOnly && !c.Write {
		return false
	}
	if f.Operation != "" && !strings.EqualFold(f.Operation, c.Operation) {
		return false
	}
	if f.Match == "" {
		return true
	}
	method, prefix, _ := strings.Cut(f.Match, " ")
	pathBelowHost := strings.TrimPrefix(r.URL.Path, c.Host)
	return strings.EqualFold(method, r.Method) &&
		(strings.HasPrefix(r.URL.Path, prefix) || strings.HasPrefix(pathBelowHost, prefix))
}

// takeDueFault returns the faults that remain after a call, and the fault for that call, which is
// the zero Fault if no fault is due. The call reduces Skip of every matching fault whose Skip is
// not 0. The other matching faults are due. takeDueFault takes the oldest of them and reduces its
// Times.
func takeDueFault(faults []Fault, r *http.Request, c Call) ([]Fault, Fault) {
	var due *Fault
	for i := range faults {
		f := &faults[i]
		switch {
		case !f.matches(r, c):
		case f.Skip > 0:
			f.Skip--
		case due == nil:
			f.Times--
			due = f
		}
	}
	if due == nil {
		return faults, Fault{}
	}
	result := *due
	return slices.DeleteFunc(faults, func(f Fault) bool { return f.Times == 0 }), result
}
