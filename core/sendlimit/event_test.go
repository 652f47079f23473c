// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/sendlimit"
)

func TestMessages(t *testing.T) {
	for want, e := range map[string]sendlimit.Event{
		"Mailbox blocked: sent 26, limit 25":  {Action: sendlimit.Blocked, Sent: 26, Limit: 25},
		"Mailbox unblocked: sent 0, limit 25": {Action: sendlimit.Unblocked, Limit: 25},
	} {
		if got := e.Message(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
