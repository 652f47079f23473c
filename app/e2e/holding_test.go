// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// holding is a simulated tenant and the account that holds it or is about to.
type holding struct {
	caller
	guid, admin string
}

// newTenant makes one more simulated tenant that finishes everything at once.
func (c caller) newTenant(setup object) holding {
	c.t.Helper()
	if setup == nil {
		setup = object{}
	}
	made := c.control("POST", "/tenants", setup)
	h := holding{c, made.text("tenant_id"), made.text("admin")}
	h.behave(object{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0})
	return h
}

func (h holding) with(t *testing.T) holding {
	h.t = t
	return h
}

func (h holding) behave(knobs object) {
	h.t.Helper()
	h.control("POST", "/tenants/"+h.guid+"/behaviour", knobs)
}

func (h holding) path(rest string) string { return "/v1/tenants/" + h.guid + rest }

// connect has the administrator walk through the pages.
func (h holding) connect() holding {
	h.t.Helper()
	h.control("POST", "/tenants/"+h.guid+"/consent", object{"api_key": h.key})
	return h
}

// synced is a sync that must complete.
func (h holding) synced() reply {
	h.t.Helper()
	got := h.post(h.path("/sync"), nil)
	if got.text("status") != "completed" {
		h.t.Errorf("sync: %s", got.raw)
	}
	return got
}

// connected is a tenant that is connected and prepared.
func (c caller) connected(setup object) holding {
	c.t.Helper()
	h := c.newTenant(setup).connect()
	h.synced()
	return h
}

func (h holding) nextStep() any {
	h.t.Helper()
	return h.get(h.path("")).at("readiness.next_step")
}

func (h holding) domain(name, rest string) string { return h.path("/domains/" + name + rest) }

// newZone makes a zone in the simulated DNS.
func (c caller) newZone() string {
	c.t.Helper()
	name := fmt.Sprintf("zone-%d.test", serial.Add(1))
	c.control("POST", "/zones", object{"name": name, "provider": "manual"})
	return name
}

// publish writes what the API asked for into a zone.
func (h holding) publish(zone string) {
	h.t.Helper()
	dns := h.get(h.domain(zone, "/dns"))
	records := []object{}
	for _, r := range append(dns.objects("verification_dns_records"), dns.objects("service_configuration_records")...) {
		name := strings.TrimSuffix(r.text("label"), ".")
		if name != zone && !strings.HasSuffix(name, "."+zone) {
			name += "." + zone
		}
		entry := object{"name": name, "ttl": 300}
		switch r.text("recordType") {
		case "domainDnsTxtRecord":
			entry["type"], entry["content"] = "TXT", r["text"]
		case "domainDnsCnameRecord":
			entry["type"], entry["content"] = "CNAME", r["canonicalName"]
		case "domainDnsMxRecord":
			entry["type"], entry["content"], entry["priority"] = "MX", r["mailExchange"], r["preference"]
		}
		if !strings.HasSuffix(r.text("mailExchange"), ".invalid") {
			records = append(records, entry)
		}
	}
	h.control("PUT", "/zones/"+zone+"/records", records)
}

// verified adds a new zone to the tenant as a domain and verifies it.
func (h holding) verified() string {
	h.t.Helper()
	zone := h.newZone()
	h.post(h.path("/domains"), object{"domain": zone})
	h.publish(zone)
	h.post(h.domain(zone, "/verify"), nil)
	return zone
}

// boxes is the body that provisions mailboxes with these local parts.
func boxes(domain string, locals ...string) object {
	list := []object{}
	for _, local := range locals {
		list = append(list, object{"name": strings.ToUpper(local[:1]) + local[1:], "email": local + "@" + domain})
	}
	return object{"domain": domain, "account_password": "Correct-Horse-7", "mailboxes": list}
}
