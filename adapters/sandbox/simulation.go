// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// setClock moves the clock of simulators and service.
func (c *controller) setClock(r *http.Request) (any, error) {
	var in struct {
		Now     *time.Time `json:"now"`
		Advance *string    `json:"advance"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	var to time.Time
	switch {
	case (in.Now == nil) == (in.Advance == nil):
		return nil, badCall("give exactly one of now and advance")
	case in.Now != nil:
		to = *in.Now
	default:
		by, err := time.ParseDuration(*in.Advance)
		if err != nil || by < 0 || by > farthest {
			return nil, badCall(`advance is a duration forward such as "24h"`)
		}
		to = c.Now().Add(by)
	}
	if err := c.clock.set(to); err != nil {
		return nil, err
	}
	return done{}, c.tellTime(r.Context(), to)
}

// tellTime sets the clocks of the simulators.
func (w *World) tellTime(ctx context.Context, now time.Time) error {
	body, err := json.Marshal(map[string]time.Time{"now": now})
	if err != nil {
		return err
	}
	return w.tellAll(ctx, http.MethodPost, "/clock", body)
}

func (w *World) tellAll(ctx context.Context, method, path string, body []byte) error {
	var err error
	for _, s := range w.simulators {
		err = errors.Join(err, s.tell(ctx, method, path, body))
	}
	return err
}

// forget empties something at all simulators.
func (c *controller) forget(what string) call {
	return func(r *http.Request) (any, error) {
		return done{}, c.tellAll(r.Context(), http.MethodDelete, what, nil)
	}
}

// planFault passes a fault to the simulator that is to have it.
func (c *controller) planFault(r *http.Request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in struct {
		Provider string `json:"provider"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Provider == "" {
		return nil, badCall("body: an object that names its provider")
	}
	s, err := c.simulator(in.Provider)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return s.relay(r, "/faults")
}

// calls shows what a simulator was asked.
func (c *controller) calls(r *http.Request) (any, error) {
	provider := r.URL.Query().Get("provider")
	if provider == "" {
		return nil, badCall("provider is missing in the query")
	}
	s, err := c.simulator(provider)
	switch {
	case errors.Is(err, errNoneRuns):
		return []struct{}{}, nil // nothing was ever asked
	case err != nil:
		return nil, err
	}
	return s.relay(r, "/calls")
}
