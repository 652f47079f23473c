// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

const statusMembers = "spf_status dkim_status dmarc_status mx_status"

// TestDomainShapes walks a domain from its addition to DKIM.
func TestDomainShapes(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).connected(nil)
	zone := h.newZone()
	list := h.get(h.path("/domains"))
	has(t, "empty list", list.object, "tenant_id domains count")
	sees(t, list.object, object{"tenant_id": h.guid, "domains": "[]", "count": 0})

	h.adds(zone)
	h.expect("POST", h.domain(zone, "/enable-dkim"), nil, 400, "dkim_not_ready")
	h.expect("POST", h.domain(zone, "/verify"), nil, 400, "verification_failed")
	h.publish(zone)
	verified := h.post(h.domain(zone, "/verify"), nil)
	has(t, "verify", verified.object, "status domain_name is_verified message")
	sees(t, verified.object, object{"status": "verified", "domain_name": zone, "is_verified": true})
	h.post(h.domain(zone, "/verify"), nil) // safe to repeat
	if next := h.nextStep(); next != "enable_dkim" {
		t.Errorf("next step %v", next)
	}

	h.signs(zone)
	h.showsDNS(zone)
	if next := h.nextStep(); next != "create_mailboxes" {
		t.Errorf("next step %v", next)
	}
}

// adds checks the answer of an addition, of its repetition and of the list.
func (h holding) adds(zone string) {
	t := h.t
	t.Helper()
	got := h.post(h.path("/domains"), object{"domain": strings.ToUpper(zone) + "."})
	has(t, "add", got.object, "status tenant_id domain verification_dns_records service_configuration_records live_dns_status dkim_verification_state")
	has(t, "domain", got.at("domain"), "domain_name is_default is_verified")
	has(t, "live_dns_status", got.at("live_dns_status"), statusMembers)
	has(t, "dkim_verification_state", got.at("dkim_verification_state"), "status message")
	sees(t, got.object, object{
		"status": "added", "tenant_id": h.guid, "domain.domain_name": zone, "domain.is_verified": false, "domain.is_default": false,
		"live_dns_status.spf_status": "missing", "live_dns_status.dkim_status": "missing", "live_dns_status.dmarc_status": "missing",
		"live_dns_status.mx_status": "missing", "dkim_verification_state.status": "pending",
	})
	proofs := got.objects("verification_dns_records")
	if len(proofs) == 0 || !strings.HasPrefix(proofs[0].text("text"), "MS=ms") || proofs[0].text("label") != zone {
		t.Errorf("verification records %v", proofs)
	}
	for _, r := range proofs {
		recordShape(t, r)
	}
	again := h.post(h.path("/domains"), object{"domain": zone})
	sees(t, again.object, object{"status": "exists", "domain.domain_name": zone, "domain.is_verified": false})
	list := h.get(h.path("/domains"))
	entries := list.objects("domains")
	if len(entries) != 1 || list.at("count") != 1.0 {
		t.Fatalf("list %s", list.raw)
	}
	has(t, "list entry", entries[0], "id domain_name is_default is_verified last_checked "+statusMembers)
	sees(t, entries[0], object{"domain_name": zone, "is_verified": false, "spf_status": "missing", "mx_status": "missing"})
}

// signs publishes the mail records and enables DKIM.
func (h holding) signs(zone string) {
	t := h.t
	t.Helper()
	before := h.get(h.domain(zone, "/dkim-status"))
	has(t, "dkim-status", before.object, "domain_name dkim_status selectors ready_to_enable last_checked")
	has(t, "selectors", before.at("selectors"), "selector1 selector2")
	sees(t, before.object, object{"dkim_status": "pending", "ready_to_enable": false, "selectors.selector1": "missing", "selectors.selector2": "missing"})
	h.expect("POST", h.domain(zone, "/enable-dkim"), nil, 400, "dkim_not_ready")
	h.publish(zone)
	h.eventually("the selectors are seen", func() bool {
		return h.get(h.domain(zone, "/dkim-status")).at("ready_to_enable") == true
	})
	sees(t, h.get(h.domain(zone, "/dkim-status")).object, object{
		"dkim_status": "ready", "selectors.selector1": "propagated", "selectors.selector2": "propagated"})
	signed := h.post(h.domain(zone, "/enable-dkim"), nil)
	has(t, "enable-dkim", signed.object, "status domain_name dkim_status message")
	sees(t, signed.object, object{"status": "enabled", "domain_name": zone, "dkim_status": "enabled"})
	h.post(h.domain(zone, "/enable-dkim"), nil) // safe to repeat
	sees(t, h.get(h.domain(zone, "/dkim-status")).object, object{"dkim_status": "enabled"})
	h.synced()
}

// showsDNS checks both views of the stored DNS.
func (h holding) showsDNS(zone string) {
	t := h.t
	t.Helper()
	byName := h.get(h.domain(zone, "/dns"))
	has(t, "dns", byName.object, "tenant_id domain_name is_default is_verified dns_status verification_dns_records service_configuration_records last_checked")
	has(t, "dns_status", byName.at("dns_status"), "spf dkim dmarc mx")
	mx := "none"
	for _, r := range byName.objects("service_configuration_records") {
		if r["recordType"] == "domainDnsMxRecord" {
			mx = strings.TrimSuffix(r.text("mailExchange"), ".") + "."
		}
	}
	want := object{"domain_name": zone, "is_verified": true, "dns_status.dkim": "healthy", "dns_status.mx": mx,
		"dns_status.spf": "v=spf1 include:spf.protection.outlook.com -all", "dns_status.dmarc": "missing"}
	sees(t, byName.object, want)

	entry := h.get(h.path("/domains")).objects("domains")[0]
	sees(t, entry, object{"dkim_status": "healthy", "mx_status": mx, "is_verified": true})
	byID := h.get("/v1/domains/" + entry.text("id") + "/dns")
	has(t, "dns by id", byID.object, "domain_id tenant_resource_id tenant_id domain_name is_default is_verified dkim_enabled dns_status "+
		"verification_dns_records service_configuration_records dkim_dns_records last_checked")
	want["domain_id"], want["tenant_id"], want["dkim_enabled"] = entry["id"], h.guid, true
	want["tenant_resource_id"] = h.get(h.path("")).at("id")
	sees(t, byID.object, want)
	if keys := byID.objects("dkim_dns_records"); len(keys) != 2 || keys[0].text("label") != "selector1._domainkey" || keys[1].text("label") != "selector2._domainkey" {
		t.Errorf("dkim_dns_records %v", keys)
	}
	for _, name := range []string{"verification_dns_records", "service_configuration_records", "dkim_dns_records"} {
		for _, r := range byID.objects(name) {
			recordShape(t, r)
		}
	}
}

func recordShape(t *testing.T, r object) {
	t.Helper()
	members, known := map[string]string{
		"domainDnsTxtRecord": "text", "domainDnsMxRecord": "mailExchange preference", "domainDnsCnameRecord": "canonicalName",
	}[r.text("recordType")]
	if !known {
		t.Errorf("record %v", r)
	}
	has(t, "record", r, "recordType label ttl "+members)
}

func TestDomainNames(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).newTenant(nil).connect()
	for body, code := range map[string]string{
		"example":              "invalid_domain",
		"":                     "invalid_domain",
		"co.uk":                "invalid_domain",
		"github.io":            "invalid_domain",
		"-a.example":           "invalid_domain",
		"a..example":           "invalid_domain",
		"a b.example":          "invalid_domain",
		"ann@a.example":        "invalid_domain",
		"http://a.example":     "invalid_domain",
		"10.0.0.1":             "invalid_domain",
		"onmicrosoft.com":      "builtin_domain_not_allowed",
		"x.OnMicrosoft.com":    "builtin_domain_not_allowed",
		"a.b.onmicrosoft.com.": "builtin_domain_not_allowed",
	} {
		got := h.expect("POST", h.path("/domains"), object{"domain": body}, 400, code)
		if got.at("errors") == nil && code == "invalid_request" {
			t.Errorf("%q: no errors: %s", body, got.raw)
		}
	}
	for _, body := range []any{object{}, object{"domain": 7}, object{"domain": nil}, object{"domain": "a.example", "x": 1}, []string{"a.example"}} {
		got := h.expect("POST", h.path("/domains"), body, 400, "invalid_request")
		if len(got.objects("errors")) == 0 {
			t.Errorf("%v: no places are named: %s", body, got.raw)
		}
	}
	got := h.post(h.path("/domains"), object{"domain": "notonmicrosoft-" + h.guid[:8] + ".com"})
	sees(t, got.object, object{"status": "added"})
	sees(t, h.post(h.path("/domains"), object{"domain": "Bücher.example"}).object, object{"domain.domain_name": "xn--bcher-kva.example"})
}

// TestTwelveDomains: the thirteenth is refused, also when many race for the
// last place, and what exists takes no new place.
func TestTwelveDomains(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).newTenant(nil).connect()
	name := func(i int) string { return fmt.Sprintf("d%d-%s.example", i, h.guid[:8]) }
	var racing sync.WaitGroup
	answers := make([]reply, 16)
	for i := range answers {
		racing.Go(func() {
			answers[i], _ = h.try("POST", h.ready.APIURL+h.path("/domains"), h.key, object{"domain": name(i)})
		})
	}
	racing.Wait()
	added := ""
	for i, got := range answers {
		if err := documented(t, "POST", h.path("/domains"), got); err != nil {
			t.Errorf("%v\n%s", err, got.raw)
		}
		switch {
		case got.status == 200 && got.text("status") == "added":
			added = name(i)
		case got.status != 400 || got.code() != "domain_limit_reached":
			t.Errorf("domain %d: %d %s", i, got.status, got.raw)
		}
	}
	if list := h.get(h.path("/domains")); list.at("count") != 12.0 {
		t.Errorf("%v domains", list.at("count"))
	}
	if there := h.control("GET", "/tenants/"+h.guid, nil).objects("domains"); len(there) != 12 {
		t.Errorf("%d domains at the platform", len(there))
	}
	sees(t, h.post(h.path("/domains"), object{"domain": added}).object, object{"status": "exists"})
	h.expect("POST", h.path("/domains"), object{"domain": "one-more-" + name(0)}, 400, "domain_limit_reached")
	sees(t, h.get(h.path("")).object, object{"domain_count": 12, "readiness.domains_total": 12})
}

// TestDomainOfAnotherTenant: whoever verified a domain first has it, and the
// other learns that wherever the platform says so.
func TestDomainOfAnotherTenant(t *testing.T) {
	t.Parallel()
	c := common(t)
	holder, late := c.newCaller(nil).connected(nil), c.newCaller(nil).connected(nil)
	zone := holder.newZone()
	holder.post(holder.path("/domains"), object{"domain": zone})
	late.post(late.path("/domains"), object{"domain": zone})
	late.publish(zone)
	late.post(late.domain(zone, "/verify"), nil)

	holder.publish(zone)
	holder.expect("POST", holder.domain(zone, "/verify"), nil, 409, "domain_unavailable")
	sees(t, holder.get(holder.domain(zone, "/dns")).object, object{"is_verified": false})

	third := c.newCaller(nil).newTenant(nil)
	third.behave(object{"elsewhere": []string{zone}, "elsewhere_at": "add"})
	third.connect()
	third.expect("POST", third.path("/domains"), object{"domain": zone}, 409, "domain_unavailable")
	sees(t, third.get(third.path("/domains")).object, object{"count": 0})
}
