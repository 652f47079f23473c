// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"net/http"
	"strings"
)

// kindSending is that of sending platforms in the plugin catalog.
const kindSending = "sending"

// customers tells what a customer has at each sending platform that is
// simulated here.
func (w *World) customers() map[string]any {
	out := map[string]any{}
	for _, s := range w.simulators {
		if s.kind == kindSending && len(s.ready.Sending) > 0 {
			out[s.ready.Provider] = s.ready.Sending
		}
	}
	return out
}

// atPlatform hands a call below /sending/{provider} to that platform's
// simulator: what somebody does there by hand.
func (w *World) atPlatform(r *http.Request) (any, error) {
	provider := r.PathValue("provider")
	s, err := w.simulator(provider)
	if err != nil {
		return nil, err
	}
	if s.kind != kindSending {
		return nil, missing("there is no such sending platform")
	}
	_, path, _ := strings.Cut(r.URL.EscapedPath(), "/sending/"+provider)
	return s.relay(r, path)
}
