// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"strings"
	"testing"
)

// sellsAt is the sending platform of everybody in the matrix.
const sellsAt = "instantly"

// sell gives all accounts an integration with an open session of their mailbox,
// and a what else the conditions name.
func (p *population) sell(t *testing.T) {
	t.Helper()
	for _, e := range []*estate{&p.a.estate, &p.b.estate, &p.trial.estate, &p.spare.estate, &p.shrunk.estate, &p.lapsed.estate} {
		lapsed := e == &p.lapsed.estate
		if lapsed {
			e.plan(object{"plan": "complete", "active": true})
		}
		e.ids["free"] = e.get(e.path("/mailboxes")).objects("mailboxes")[1].text("id")
		if e != &p.shrunk.estate { // which may begin no session
			e.integrates()
		} else {
			e.ids["integration_id"], e.ids["session_id"] = e.post("/v1/integrations", e.credentialAt(sellsAt)).text("id"), noSuchID
		}
		if lapsed {
			e.plan(object{"plan": "complete", "active": false})
		}
	}
	a := p.a
	p.ids["other integration"] = a.post("/v1/integrations", a.credentialAt(sellsAt)).text("id")
	gone := a.post("/v1/integrations", a.credentialAt(sellsAt)).text("id")
	a.expect("DELETE", "/v1/integrations/"+gone, nil, 200, "")
	p.ids["deleted integration"] = gone
	p.ids["address"] = a.get(a.path("/mailboxes")).objects("mailboxes")[0].text("primary_smtp")
	p.ids["managed mailbox"] = p.managedMailbox()
	p.ids["found mailbox"] = p.foundMailbox()
}

// managedMailbox is one that the service made in a tenant of somebody else's.
func (p *population) managedMailbox() string {
	h := p.managed
	zone := h.verified()
	h.publish(zone)
	h.post(h.path("/mailboxes"), boxes(zone, "ada"))
	return h.get(h.path("/mailboxes")).objects("mailboxes")[0].text("id")
}

// foundMailbox is one that discovery finds: the service made it, forgot it with
// its tenant, and finds it again.
func (p *population) foundMailbox() string {
	h := p.a.connected(nil)
	zone := h.verified()
	h.post(h.path("/mailboxes"), boxes(zone, "ada"))
	h.expect("DELETE", h.path(""), nil, 200, "")
	h.connect()
	h.synced()
	return h.get(h.path("/mailboxes")).objects("mailboxes")[0].text("id")
}

// sellsAttempts are the conditions that only integrations have.
func (p *population) sellsAttempts(a attempt, condition string) []attempt {
	switch condition {
	case "unknown_integration":
		return a.variants("integration_id", noSuchID)
	case "foreign_integration", "own_mailbox_under_foreign_integration":
		return a.variants("integration_id", p.b.ids["integration_id"])
	case "deleted_own_integration":
		return a.variants("integration_id", p.ids["deleted integration"])
	case "malformed_integration_id":
		return a.variants("integration_id", p.malformed("integration_id")...)
	case "mailbox_of_unassigned_managed_tenant":
		return a.variants("mailbox_id", p.ids["managed mailbox"])
	case "mailbox_address_instead_of_uuid":
		return a.variants("mailbox_id", p.ids["address"])
	case "own_discovered_mailbox_not_service_provisioned":
		return a.variants("mailbox_id", p.ids["found mailbox"])
	case "mailbox_connected_or_pending_elsewhere", "own_session_of_other_integration":
		return a.variants("integration_id", p.ids["other integration"])
	case "unknown_session_id":
		return a.variants("session_id", noSuchID, "x", strings.Repeat("9", 300))
	case "foreign_session_id":
		return a.variants("session_id", p.b.ids["session_id"])
	case "own_session_of_other_mailbox":
		return a.variants("mailbox_id", a.ids["free"])
	}
	return nil
}

// sparedSale is an attempt on an integration that may go, with a mailbox that
// nothing holds.
func (p *population) sparedSale(a attempt, op operation) attempt {
	begins := strings.HasSuffix(op.path, "/init")
	if !begins && op.method != "DELETE" {
		return a
	}
	a.ids = maps.Clone(a.ids)
	a.ids["mailbox_id"] = a.ids["free"]
	for _, i := range a.by.get("/v1/integrations").objects("integrations") {
		if id := i.text("id"); begins && id != a.by.ids["integration_id"] && id != p.ids["other integration"] {
			a.by.expect("DELETE", "/v1/integrations/"+id, nil, 200, "")
		}
	}
	a.ids["integration_id"] = a.by.post("/v1/integrations", a.by.credentialAt(sellsAt)).text("id")
	return a
}
