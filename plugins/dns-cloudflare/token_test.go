// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"
)

// TestTokensThatEnded: verify answers for a token that is switched off or has
// ended, and its status says no.
func TestTokensThatEnded(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	for _, status := range []string{"disabled", "expired"} {
		w.control(t, http.MethodPut, "/token", map[string]string{"status": status}, nil)
		if n, err := w.Provider().Check(t.Context()); err == nil {
			t.Errorf("%s: %d zones", status, n)
		}
		if _, err := w.Provider().Zone(t.Context(), zone); err == nil {
			t.Errorf("a token that is %s finds zones", status)
		}
	}
	w.control(t, http.MethodPut, "/token", map[string]string{"status": "active"}, nil)
	if n, err := w.Provider().Check(t.Context()); err != nil || n != 1 {
		t.Errorf("active again: %d, %v", n, err)
	}
}
