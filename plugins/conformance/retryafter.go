// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// RetryAfter checks that the plugin of a sending platform sends nothing with a credential while a
// Retry-After applies to this credential, not even for a different workspace of the credential. It
// runs the plugin's code against the plugin's simulator.
func RetryAfter(t T, open opener, p sdk.Plugin) {
	t.Helper()
	env := SimulateSending(t, open, p.Sending)
	env.FailOnce(map[string]any{"kind": "status", "status": http.StatusTooManyRequests, "retry_after": 300})
	for call, workspace := range []string{"", "", "2"} {
		_, err := env.With(map[string]string{"workspace_id": workspace}).Check(t.Context())
		if result := sdk.OutcomeOf(err); result.Kind != sdk.Throttled || result.RetryAfter <= 0 || result.RetryAfter > 5*time.Minute {
			t.Errorf("call %d returned %v, want throttled with the rest of the Retry-After of 5 minutes", call+1, err)
		}
	}
	if sent := len(env.Requests()); sent != 1 {
		t.Errorf("%d requests were sent, want only the one that was refused", sent)
	}
	if p.Waits == nil {
		t.Error("Plugin.Waits is not set, so the host cannot share the waits with other processes")
	}
}
