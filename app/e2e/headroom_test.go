// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
)

const headroomMembers = "external_recipient_limit sends_today sends_today_at remaining utilization_pct email_licenses estimated_at"

// TestHeadroom: what a tenant's mailboxes sent on its day, against the limit
// that its bought licences give it.
func TestHeadroom(t *testing.T) {
	t.Parallel()
	c := alone(t)
	c.control("POST", "/clock", object{"now": "2031-03-10T10:00:00Z"})
	l := c.limited(25, "ada", "max")
	headroom := func(want object) object {
		t.Helper()
		got := l.get(l.path("")).at("readiness.headroom")
		has(t, "headroom", got, headroomMembers)
		o, _ := got.(map[string]any)
		sees(t, o, want)
		return o
	}
	first := headroom(object{"external_recipient_limit": 10000, "email_licenses": 1, "sends_today": 0, "sends_today_at": nil, "remaining": 10000, "utilization_pct": 0})

	l.sends(0, 120)
	l.sends(1, 5)
	l.run()
	counted := l.get(l.path("/mailboxes")).objects("mailboxes")[0]["sends_today_at"]
	if counted == nil {
		t.Fatal("nobody was counted")
	}
	headroom(object{"external_recipient_limit": 10000, "sends_today": 125, "sends_today_at": counted, "remaining": 9875, "utilization_pct": 1.3, "estimated_at": first["estimated_at"]})

	// Only a trial is left, which the next sync finds, unless it may not look.
	l.behave(object{"licenses": object{"paid": 0, "trial": 25}})
	l.control("POST", "/faults", object{"provider": "microsoft365", "operation": "directory.list-subscriptions", "kind": "status", "status": 403, "times": 99})
	c.control("POST", "/clock", object{"advance": "1h"})
	l.synced()
	headroom(object{"external_recipient_limit": 10000, "email_licenses": 1, "estimated_at": first["estimated_at"]})
	l.control("DELETE", "/faults", nil)
	l.synced()
	if later := headroom(object{"external_recipient_limit": 5000, "email_licenses": 0, "sends_today": 125, "remaining": 4875, "utilization_pct": 2.5}); later["estimated_at"] == first["estimated_at"] {
		t.Errorf("estimated anew at %v", later["estimated_at"])
	}

	// The next day begins with nothing sent, before anybody has counted.
	c.control("POST", "/clock", object{"advance": "14h"})
	headroom(object{"sends_today": 0, "sends_today_at": nil, "remaining": 5000, "utilization_pct": 0})
	for _, entry := range c.get("/v1/tenants").objects("tenants") {
		has(t, "list entry", entry, summaryMembers)
	}
}
