// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Call is what a provider says of one request.
type Call struct {
	// Operation names it where one path serves many, "" when the path does.
	Operation string
	// Write says that the call may change something.
	Write bool
	// Host is the path prefix of the host that the request is for, where
	// one simulator serves several, such as "/graph".
	Host string
	// WorkAt lists planned statuses that a provider answers only after it
	// has done the work, such as a gateway's 504.
	WorkAt []int
}

// Provider is what is particular to one simulator.
type Provider interface {
	// Call says what a request is. The body was read already.
	Call(r *http.Request, body []byte) Call
	// Fail answers with a planned status in the provider's own form.
	// retryAfter is in seconds, 0 for none.
	Fail(w http.ResponseWriter, r *http.Request, status, retryAfter int)
	// ServeHTTP does the work.
	http.Handler
}

// Kit is the part that all simulators have in common. A simulator opens one,
// keeps its own state in Files, tells the time by Now, and serves
//
//	kit.Handler(provider, control)
type Kit struct {
	Options

	name    string
	host    string
	journal *journal
	plan    *File[plan]

	clockMu sync.Mutex
	ahead   atomic.Int64
}

// plan is what the control interface has arranged.
type plan struct {
	Ahead  time.Duration `json:"ahead"`
	Faults []Fault       `json:"faults"`
}

// Open starts the shared part of the simulator of the provider with the id
// name, and goes on from what is in the data folder.
func Open(name string, o Options) (*Kit, error) {
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	at, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("where the simulator is reached: %w", err)
	}
	k := &Kit{Options: o, name: name, host: at.Host}
	if k.plan, err = OpenFile(filepath.Join(o.DataDir, "plan.json"), plan{}); err != nil {
		return nil, err
	}
	if k.journal, err = openJournal(filepath.Join(o.DataDir, "calls.jsonl")); err != nil {
		return nil, err
	}
	k.plan.View(func(p *plan) { k.ahead.Store(int64(p.Ahead)) })
	return k, nil
}

// OpenState is Open for a simulator that keeps all its state in one file of its
// data folder. fresh is the state to start with, at a time of the clock.
func OpenState[T any](name, file string, o Options, fresh func(now time.Time) T) (*Kit, *File[T], error) {
	k, err := Open(name, o)
	if err != nil {
		return nil, nil, err
	}
	f, err := OpenFile(filepath.Join(o.DataDir, file), fresh(k.Now()))
	return k, f, err
}

// Host is the host and port of the simulator's URL, to which links lead that it
// makes.
func (k *Kit) Host() string { return k.host }

// Handler serves the provider's API with the planned faults in front of it,
// and below /_control/ the shared control calls and, for the rest, control.
func (k *Kit) Handler(p Provider, control http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/_control/", k.controls(control))
	mux.Handle("/", k.around(p))
	return mux
}
