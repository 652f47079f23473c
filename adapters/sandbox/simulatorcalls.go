// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

func (env *Environment) controlAll(ctx context.Context, method, path string, body []byte) error {
	var err error
	for _, s := range env.runningSimulators() {
		err = errors.Join(err, s.mustControlCall(ctx, method, path, body))
	}
	return err
}

// forward forwards a call, with its query, to the simulator. It returns the simulator's response.
func (s *simulator) forward(r *http.Request, path string) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	return s.controlCall(r.Context(), r.Method, path, body)
}

// deleteAtAll returns a call that sends DELETE path to all simulators.
func (c *controller) deleteAtAll(path string) call {
	return func(r *http.Request) (any, error) {
		return emptyResponse{}, c.controlAll(r.Context(), http.MethodDelete, path, nil)
	}
}

// planFault forwards a planned fault to the simulator of the provider that must fail.
func (c *controller) planFault(r *http.Request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in struct {
		Provider string `json:"provider"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Provider == "" {
		return nil, badRequest("body must be an object with a provider")
	}
	s, err := c.simulatorOf(in.Provider)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return s.forward(r, "/faults")
}

// listCalls returns the calls that the simulator of a provider received.
func (c *controller) listCalls(r *http.Request) (any, error) {
	provider := r.URL.Query().Get("provider")
	if provider == "" {
		return nil, badRequest("provider is missing in the query")
	}
	s, err := c.simulatorOf(provider)
	switch {
	case errors.Is(err, errNotSimulated):
		return []struct{}{}, nil // a provider without a simulator received no calls
	case err != nil:
		return nil, err
	}
	return s.forward(r, "/calls")
}

// kindSending is the kind of sending platforms in the plugin catalog.
const kindSending = "sending"

// sendingCustomers returns the credentials of one customer at each simulated sending platform,
// keyed by provider.
func (env *Environment) sendingCustomers() map[string]any {
	customers := map[string]any{}
	for _, s := range env.runningSimulators() {
		if s.kind == kindSending && len(s.ready.Sending) > 0 {
			customers[s.ready.Provider] = s.ready.Sending
		}
	}
	return customers
}

// forwardSending forwards a call below /sending/{provider} to the simulator of that provider. Such
// a call stands for an action of a person on the website of the platform.
func (env *Environment) forwardSending(r *http.Request) (any, error) {
	provider := r.PathValue("provider")
	s, err := env.simulatorOf(provider)
	if err != nil {
		return nil, err
	}
	if s.kind != kindSending {
		return nil, notFound("there is no such sending platform")
	}
	_, path, _ := strings.Cut(r.URL.EscapedPath(), "/sending/"+provider)
	return s.forward(r, path)
}
