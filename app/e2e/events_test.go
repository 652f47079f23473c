// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"
	"time"
)

// TestEventsTellWhatHappened follows the log of an account through the life of a tenant. The client
// compares each response, and so each event, with the OpenAPI document.
func TestEventsTellWhatHappened(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		tenant := c.newTenant(object{"name": "Log Ltd"}).connect()
		tenant.expect("POST", tenant.path("/sync"), nil, 200, "")
		first := c.get("/v1/events?limit=100&tenant_id=" + tenant.guid)
		if events := first.objects("events"); len(events) == 0 || events[0].text("type") != "tenant.connected" {
			t.Fatalf("the log begins with %s", first.raw)
		}
		cursor := first.text("next_cursor")
		start := time.Now()
		empty := c.get("/v1/events?wait_seconds=1&after=" + cursor)
		if len(empty.objects("events")) != 0 || time.Since(start) < time.Second {
			t.Errorf("without events, the answer after %s was %s", time.Since(start), empty.raw)
		}
		tenant.expect("DELETE", tenant.path(""), nil, 200, "")
		var last []string
		for _, e := range c.get("/v1/events?limit=100&after=" + cursor).objects("events") {
			last = append(last, e.text("type"))
		}
		if len(last) == 0 || last[len(last)-1] != "tenant.removed" || slices.Contains(last, "tenant.connected") {
			t.Errorf("the events of the deletion are %q", last)
		}
	})
}
