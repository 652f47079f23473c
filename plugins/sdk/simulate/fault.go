// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Kind is what a planned fault does to a call.
type Kind string

// The kinds of faults.
const (
	// Status answers with a status of the plan's choice, without the work.
	Status Kind = "status"
	// Delay waits, then does the work.
	Delay Kind = "delay"
	// DelayAfter does the work, then waits with the answer.
	DelayAfter Kind = "delay_after"
	// DropBefore cuts the connection without doing the work.
	DropBefore Kind = "drop_before"
	// DropAfter does the work and loses the answer.
	DropAfter Kind = "drop_after"
	// HTML answers with a page, as a proxy in between does, without the work;
	// by 200 unless the plan has another status.
	HTML Kind = "html"
	// Misshape answers 200 with JSON of another shape, without the work.
	Misshape Kind = "misshape"
	// Truncate does the work and cuts the answer in half.
	Truncate Kind = "truncate"
)

// Fault is one planned fault: the next Times matching calls after letting
// Skip of them pass.
type Fault struct {
	Provider   string `json:"provider,omitempty"`
	Match      string `json:"match,omitempty"` // "METHOD path-prefix"
	Operation  string `json:"operation,omitempty"`
	Kind       Kind   `json:"kind"`
	Status     int    `json:"status,omitempty"`
	RetryAfter int    `json:"retry_after,omitempty"`
	DelayMS    int    `json:"delay_ms,omitempty"`
	Times      int    `json:"times"`
	Skip       int    `json:"skip,omitempty"`
	WritesOnly bool   `json:"writes_only,omitempty"`
}

// check says what is wrong with a plan.
func (f Fault) check() error {
	kinds := []Kind{Status, Delay, DelayAfter, DropBefore, DropAfter, HTML, Misshape, Truncate}
	method, prefix, two := strings.Cut(f.Match, " ")
	switch {
	case !slices.Contains(kinds, f.Kind):
		return errors.New("kind is status, delay, delay_after, drop_before, drop_after, html, misshape or truncate")
	case f.Kind == Status && (f.Status < 300 || f.Status > 599):
		return errors.New("status is between 300 and 599")
	case f.Kind == HTML && f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return errors.New("status is between 200 and 599")
	case f.Kind != Status && (f.Status != 0 && f.Kind != HTML || f.RetryAfter != 0):
		return errors.New("status belongs to the kinds status and html, retry_after to status")
	case (f.Kind == Delay || f.Kind == DelayAfter) != (f.DelayMS > 0):
		return errors.New("delay_ms belongs to the kinds delay and delay_after, and is more than 0")
	case f.Times < 1 || f.Skip < 0 || f.RetryAfter < 0 || f.DelayMS < 0:
		return errors.New("times is at least 1; skip, retry_after and delay_ms are not negative")
	case f.Match != "" && (!two || method == "" || !strings.HasPrefix(prefix, "/")):
		return errors.New(`match is "METHOD path-prefix"`)
	}
	return nil
}

// delay is how long the fault waits.
func (f Fault) delay() time.Duration { return time.Duration(f.DelayMS) * time.Millisecond }

// matches reports whether the fault is meant for a call. A path may be named
// with or without the prefix of the host that the simulator serves under it.
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
	below := strings.TrimPrefix(r.URL.Path, c.Host)
	return strings.EqualFold(method, r.Method) &&
		(strings.HasPrefix(r.URL.Path, prefix) || strings.HasPrefix(below, prefix))
}

// next takes the fault for one call off the plan. Each fault counts the calls
// that match it by itself; of several that are due, the oldest acts and the
// others wait for the next call.
func next(faults []Fault, r *http.Request, c Call) ([]Fault, *Fault) {
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
		return faults, nil
	}
	taken := *due
	return slices.DeleteFunc(faults, func(f Fault) bool { return f.Times == 0 }), &taken
}
