// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"
	"time"
)

// TestEventsTellWhatHappened follows the log of an account through the life of a tenant. The
// methods of caller compare each response, and so each event, with the OpenAPI document.
func TestEventsTellWhatHappened(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		tenant := c.newTenant(object{"name": "Log Ltd"}).connect()
		tenant.mustSync()
		pageAfterSync := c.get("/v1/events?limit=100&tenant_id=" + tenant.guid)
		if events := pageAfterSync.objects("events"); len(events) == 0 || events[0].text("type") != "tenant.connected" {
			t.Fatalf("the log begins with %s, want tenant.connected", pageAfterSync.raw)
		}
		cursor := pageAfterSync.text("next_cursor")
		requested := time.Now()
		emptyPage := c.get("/v1/events?wait_seconds=1&after=" + cursor)
		if len(emptyPage.objects("events")) != 0 || time.Since(requested) < time.Second {
			t.Errorf("without events, the request was answered after %s with %s, want no events after at least 1 s", time.Since(requested), emptyPage.raw)
		}
		tenant.expect("DELETE", tenant.path(""), nil, 200, "")
		var typesAfterCursor []string
		for _, e := range c.get("/v1/events?limit=100&after=" + cursor).objects("events") {
			typesAfterCursor = append(typesAfterCursor, e.text("type"))
		}
		if len(typesAfterCursor) == 0 || typesAfterCursor[len(typesAfterCursor)-1] != "tenant.removed" || slices.Contains(typesAfterCursor, "tenant.connected") {
			t.Errorf("the events of the deletion are %q, want tenant.removed as the last and no tenant.connected", typesAfterCursor)
		}
	})
}

// TestIndirectRemovalsAreEvents checks the events of a mailbox that an administrator deletes at the
// platform, and of a policy whose domain is removed. It reads the events with a key that the
// operator limits to events of the tenant.
func TestIndirectRemovalsAreEvents(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		limited := c.newLimitedTenant(5, "ada")
		limited.post(limited.path("/mailbox-limits"), object{"daily_send_limit": 3, "domain_scope": limited.zone})
		created := limited.control("POST", "/accounts/"+limited.id+"/keys", object{"name": "reader", "scopes": []string{"events:read"}, "tenant_ids": []string{limited.guid}})
		reader := limited.caller
		reader.key = created.text("api_key")
		reader.expect("GET", limited.path(""), nil, 403, "insufficient_scope")
		cursor := reader.get("/v1/events?after=now").text("next_cursor")

		address := limited.mailboxes[0].text("primary_smtp")
		limited.control("DELETE", "/tenants/"+limited.guid+"/mailboxes/"+address, nil)
		limited.mustSync()
		limited.control("POST", "/clock", object{"advance": "16m"}) // a mailbox that is missing for 15 minutes no longer exists
		limited.mustSync()
		limited.expect("DELETE", limited.path("/domains/"+limited.zone), nil, 200, "")
		types := []string{}
		for _, e := range reader.eventsAfter(cursor) {
			if e.text("type") != "tenant.readiness_changed" {
				types = append(types, e.text("type"))
			}
		}
		if want := []string{"mailbox.vanished", "policy.removed", "domain.removed"}; !slices.Equal(types, want) {
			t.Errorf("the events are %q, want %q", types, want)
		}
	})
}
