// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
)

// TestManagedTenant: an assigned tenant works as a connected one. A withdrawn
// one is denied to sync and unknown to the rest; a deleted one is unknown.
func TestManagedTenant(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(object{"tenant_slots": 1})
	h := c.newTenant(nil)
	h.control("POST", "/managed", object{"tenant_id": h.guid, "account_id": c.id})
	h.synced()
	sees(t, h.get(h.path("")).object, object{"connected_by": nil, "exchange_bootstrap_status": "ready"})
	c.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached") // it takes a slot
	zone := h.verified()
	h.post(h.path("/mailboxes"), boxes(zone, "ada"))
	mailbox := h.path("/mailboxes/" + h.get(h.path("/mailboxes")).objects("mailboxes")[0].text("id"))
	byID := "/v1/domains/" + h.get(h.path("/domains")).objects("domains")[0].text("id") + "/dns"

	h.control("DELETE", "/managed/"+h.guid, nil)
	h.expect("POST", h.path("/sync"), nil, 403, "access_denied")
	for _, tt := range []struct {
		method, path string
		body         any
	}{
		{"GET", h.path(""), nil}, {"DELETE", h.path(""), nil}, {"GET", h.path("/domains"), nil},
		{"POST", h.path("/domains"), object{"domain": "a.example"}}, {"POST", h.domain(zone, "/verify"), nil},
		{"POST", h.domain(zone, "/enable-dkim"), nil}, {"GET", h.domain(zone, "/dkim-status"), nil}, {"GET", h.domain(zone, "/dns"), nil},
		{"GET", h.path("/mailboxes"), nil}, {"POST", h.path("/mailboxes"), boxes(zone, "max")},
		{"PATCH", mailbox, object{"daily_send_limit": 5}}, {"GET", mailbox + "/usage", nil},
	} {
		h.expect(tt.method, tt.path, tt.body, 404, "tenant_not_found")
	}
	h.expect("GET", byID, nil, 404, "domain_not_found")
	c.listsTenants()
	common(t).newCaller(nil).expect("POST", h.path("/sync"), nil, 404, "tenant_not_found") // no oracle

	h.control("POST", "/managed", object{"tenant_id": h.guid, "account_id": c.id})
	h.synced()
	h.expect("DELETE", h.path(""), nil, 200, "")
	h.expect("POST", h.path("/sync"), nil, 404, "tenant_not_found")
}
