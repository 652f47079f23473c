// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	planMembers       = "domain_id domain_name dns_provider read desired_records observed_records actions blocking_changes safe_to_apply checked_at"
	actionMembers     = "action record_type name desired observed reason notes message blocking"
	automationMembers = "provider provider_supported connection_present safe_to_apply manual_action_required action_required_code message"
)

// newDomainAt creates a verified domain whose zone is at a DNS provider of the sandbox.
func (tenant accountTenant) newDomainAt(provider string) (zone, id string) {
	tenant.t.Helper()
	zone = fmt.Sprintf("planned-%d.test", uniqueNumber.Add(1))
	tenant.control("POST", "/zones", object{"name": zone, "provider": provider})
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	tenant.publishRecords(zone)
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	for _, d := range tenant.get(tenant.path("/domains")).objects("domains") {
		if d.text("domain_name") == zone {
			id = d.text("id")
		}
	}
	return zone, id
}

// putConflictingRecords replaces the records of a zone. Some of the new records conflict with the
// desired records of the plan. One is the verification record with the content verificationText.
func (tenant accountTenant) putConflictingRecords(zone string, verificationText any) {
	tenant.t.Helper()
	txtRecord := func(name, content string) object {
		return object{"type": "TXT", "name": name, "content": content, "ttl": 600}
	}
	tenant.control("PUT", "/zones/"+zone+"/records", []object{
		txtRecord(zone, verificationText.(string)), txtRecord(zone, "v=spf1 a ip4:192.0.2.7 ~all"), txtRecord(zone, "google-site-verification=x"), txtRecord("_dmarc."+zone, "v=DMARC1; p=reject; adkim=s"),
		{"type": "MX", "name": zone, "content": "mail." + zone, "priority": 1, "ttl": 600}, {"type": "A", "name": "mail." + zone, "content": "192.0.2.7", "ttl": 600},
		txtRecord("selector1._domainkey."+zone, "v=DKIM1; k=rsa; p=MIIB"),
		{"type": "CNAME", "name": "selector2._domainkey." + zone, "content": "s2.esp.example", "ttl": 600},
		{"type": "CNAME", "name": "autodiscover." + zone, "content": "autodiscover.else.example", "ttl": 600},
	})
}

// getUntilReliable repeats a GET request until isReliable returns true for the response. A read of
// the DNS is unreliable or times out if a name server or the DNS provider answers too late, as on a
// busy machine.
func (c caller) getUntilReliable(path string, isReliable func(got reply) bool) (got reply) {
	c.t.Helper()
	c.eventually("GET "+path+" is answered from a reliable read", func() bool {
		got = c.call("GET", path, nil)
		isTemporary := got.code() == "provider_timeout" || got.code() == "service_unavailable"
		return !isTemporary && (got.status != http.StatusOK || isReliable(got))
	})
	c.checkReply(got, "GET", path, nil, http.StatusOK, "")
	return got
}

// reliablePlan returns the DNS plan of a domain, made from a reliable read.
func (c caller) reliablePlan(domainID string) reply {
	c.t.Helper()
	return c.getUntilReliable("/v1/domains/"+domainID+"/dns/plan", func(got reply) bool { return got.valueAt("read.reliable") == true })
}

// reliableAutomation returns the automation of a domain's DNS. It repeats the request while the
// required action is dns_read_unreliable.
func (c caller) reliableAutomation(domainID string) reply {
	c.t.Helper()
	return c.getUntilReliable("/v1/domains/"+domainID+"/dns/automation", func(got reply) bool {
		return got.valueAt("automation.action_required_code") != "dns_read_unreliable"
	})
}

// syncUntilDomainIs syncs until the first domain in the list has these values. A sync keeps the
// stored DNS statuses if a name server answers too late, as on a busy machine.
func (tenant accountTenant) syncUntilDomainIs(want object) {
	tenant.t.Helper()
	var entry object
	defer func() {
		if tenant.t.Failed() {
			tenant.t.Logf("the first domain is %v, want %v", entry, want)
		}
	}()
	tenant.eventually("a sync reads the wanted DNS statuses", func() bool {
		tenant.mustSync()
		entry = tenant.get(tenant.path("/domains")).objects("domains")[0]
		for name, value := range want {
			if fmt.Sprint(entry[name]) != fmt.Sprint(value) {
				return false
			}
		}
		return true
	})
}

// TestDNSPlanReportsConflicts checks that a plan names each conflict, the change and the reason,
// and that reading the plan writes nothing.
func TestDNSPlanReportsConflicts(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone, id := tenant.newDomainAt("cloudflare")
	verificationText := tenant.get(tenant.domainPath(zone, "/dns")).objects("verification_dns_records")[0]["text"]
	tenant.putConflictingRecords(zone, verificationText)
	zoneBefore := tenant.control("GET", "/zones/"+zone+"/records", nil).raw
	storedBefore := tenant.get("/v1/domains/" + id + "/dns").raw

	plan := tenant.reliablePlan(id)
	checkMembers(t, "plan", plan.object, planMembers)
	checkMembers(t, "dns_provider", plan.valueAt("dns_provider"), "id name nameservers detected supported")
	checkMembers(t, "read", plan.valueAt("read"), "reliable reason nameservers_asked nameservers_agreeing")
	checkValues(t, plan.object, object{
		"domain_id": id, "domain_name": zone, "dns_provider.id": "cloudflare", "dns_provider.name": "Cloudflare", "dns_provider.detected": true,
		"dns_provider.supported": true, "dns_provider.nameservers": "[ada.ns.cloudflare.com bob.ns.cloudflare.com]", "read.reliable": true,
		"read.nameservers_asked": 2, "read.nameservers_agreeing": 2, "safe_to_apply": false,
	})
	mx, spf := "", "v=spf1 a ip4:192.0.2.7 include:spf.protection.outlook.com ~all"
	for _, d := range plan.objects("desired_records") {
		checkMembers(t, "desired record", d, "purpose record_type name content ttl")
		if d.text("purpose") == "mx" {
			mx = d.text("content")
		}
	}
	if !strings.HasPrefix(mx, "0 ") || strings.HasSuffix(mx, ".") {
		t.Errorf("the desired MX record is %q, want the preference 0 and a name without a final dot", mx)
	}
	want := []object{
		{"action": "preserve", "record_type": "TXT", "name": zone, "desired": verificationText, "reason": "present", "blocking": false},
		{"action": "conflict", "record_type": "MX", "name": zone, "desired": mx, "observed": "[1 mail." + zone + "]", "reason": "mx_other_provider", "blocking": true},
		{"action": "update", "record_type": "TXT", "name": zone, "desired": spf, "observed": "[v=spf1 a ip4:192.0.2.7 ~all]", "reason": "spf_merged", "blocking": false},
		{"action": "conflict", "record_type": "CNAME", "name": "autodiscover." + zone, "observed": "[autodiscover.else.example]", "reason": "autodiscover_taken", "blocking": false},
		{"action": "preserve", "record_type": "TXT", "name": "_dmarc." + zone, "reason": "dmarc_present", "notes": "[dmarc_strict]", "blocking": false},
		{"action": "conflict", "record_type": "CNAME", "name": "selector1._domainkey." + zone, "observed": "[v=DKIM1; k=rsa; p=MIIB]", "reason": "dkim_txt_present", "blocking": true},
		{"action": "conflict", "record_type": "CNAME", "name": "selector2._domainkey." + zone, "observed": "[s2.esp.example]", "reason": "dkim_cname_taken", "blocking": true},
	}
	actions := plan.objects("actions")
	if len(actions) != len(want) {
		t.Fatalf("the plan has %d actions, want %d: %s", len(actions), len(want), plan.raw)
	}
	var wantBlocking []string
	for i, a := range actions {
		checkMembers(t, "action", a, actionMembers)
		checkValues(t, a, want[i])
		if len(a.text("message")) < 20 {
			t.Errorf("the message of the reason %s is too short: %q", a.text("reason"), a.text("message"))
		}
		if a["blocking"] == true {
			wantBlocking = append(wantBlocking, a.text("reason"))
		}
	}
	var gotBlocking []string
	for _, a := range plan.objects("blocking_changes") {
		checkMembers(t, "blocking change", a, actionMembers)
		gotBlocking = append(gotBlocking, a.text("reason"))
	}
	if !slices.Equal(gotBlocking, wantBlocking) {
		t.Errorf("the reasons in blocking_changes are %v, want %v", gotBlocking, wantBlocking)
	}
	for _, o := range plan.objects("observed_records") {
		checkMembers(t, "observed record", o, "record_type name contents ttl")
		if o.text("name") == zone && o.text("record_type") == "TXT" && len(o["contents"].([]any)) != 3 {
			t.Errorf("the observed TXT records of the zone are %v, want 3 contents", o)
		}
	}

	automation := tenant.reliableAutomation(id)
	checkMembers(t, "readiness", automation.object, "domain_id automation")
	checkMembers(t, "automation", automation.valueAt("automation"), automationMembers)
	checkValues(t, automation.object, object{"domain_id": id, "automation.provider": "cloudflare", "automation.provider_supported": true, "automation.connection_present": false,
		"automation.safe_to_apply": false, "automation.manual_action_required": true, "automation.action_required_code": "dns_connection_required"})

	if after := tenant.control("GET", "/zones/"+zone+"/records", nil).raw; !bytes.Equal(after, zoneBefore) {
		t.Errorf("the zone was changed from\n%s\nto\n%s", zoneBefore, after)
	}
	if after := tenant.get("/v1/domains/" + id + "/dns").raw; !bytes.Equal(after, storedBefore) {
		t.Errorf("the stored DNS was changed from\n%s\nto\n%s", storedBefore, after)
	}
}

// TestDNSPlanForAnUnsupportedProviderIsAppliedByAPerson checks that a zone at an unsupported
// provider has a plan, which a person must apply.
func TestDNSPlanForAnUnsupportedProviderIsAppliedByAPerson(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone, id := tenant.newDomainAt("manual")
	tenant.control("PUT", "/zones/"+zone+"/records", []object{})
	plan := tenant.reliablePlan(id)
	checkValues(t, plan.object, object{"dns_provider.id": nil, "dns_provider.name": "sandbox-registrar.test", "dns_provider.detected": true, "dns_provider.supported": false,
		"safe_to_apply": true, "blocking_changes": "[]"})
	for _, a := range plan.objects("actions") {
		checkValues(t, a, object{"action": "create", "reason": "missing", "observed": "[]"})
	}
	if bucket := plan.header.Get("X-RateLimit-Bucket") + " " + plan.header.Get("X-RateLimit-Limit"); bucket != "expensive 30" {
		t.Errorf("the request counts in the bucket and limit %q, want expensive 30", bucket)
	}
	automation := tenant.getUntilReliable("/v1/domains/"+id+"/dns/automation", func(got reply) bool { // an unreliable read makes the plan unsafe
		return got.valueAt("automation.safe_to_apply") == true
	})
	checkValues(t, automation.object, object{"automation.provider": nil, "automation.provider_supported": false, "automation.action_required_code": "dns_provider_unsupported",
		"automation.manual_action_required": true})

	// Apply the plan by hand.
	records := []object{}
	for _, d := range plan.objects("desired_records") {
		record := object{"type": d["record_type"], "name": d["name"], "content": d["content"], "ttl": d["ttl"]}
		if preference, exchange, isMX := strings.Cut(d.text("content"), " "); isMX && d.text("record_type") == "MX" {
			record["priority"], record["content"] = int(preference[0]-'0'), exchange
		}
		records = append(records, record)
	}
	tenant.control("PUT", "/zones/"+zone+"/records", records)
	for _, a := range tenant.reliablePlan(id).objects("actions") {
		checkValues(t, a, object{"action": "preserve", "reason": "present"})
	}
	tenant.syncUntilDomainIs(object{"domain_name": zone, "dkim_status": "healthy", "dmarc_status": "v=DMARC1; p=none", "spf_status": "v=spf1 include:spf.protection.outlook.com -all"})
	tenant.control("PUT", "/zones/"+zone+"/records", records[:1])
	tenant.syncUntilDomainIs(object{"dkim_status": "missing", "dmarc_status": "missing", "spf_status": "missing", "mx_status": "missing"})
}

// TestDNSPlanOfForeignDomainCallsNoProvider checks that requests for the DNS plan of a different
// account's domain are answered 404 without provider calls.
func TestDNSPlanOfForeignDomainCallsNoProvider(t *testing.T) {
	t.Parallel()
	c := privateSandbox(t)
	_, id := c.newAccount(nil).newConnectedTenant(nil).newDomainAt("cloudflare")
	stranger := c.newAccount(nil)
	c.control("DELETE", "/calls", nil)
	callsBefore := providerCalls(c.client)
	for _, path := range []string{"/dns/plan", "/dns/automation"} {
		stranger.expect("GET", "/v1/domains/"+id+path, nil, 404, "domain_not_found")
		stranger.expect("GET", "/v1/domains/"+noSuchID+path, nil, 404, "domain_not_found")
	}
	for _, provider := range []string{"microsoft365", "cloudflare"} {
		if calls := c.control("GET", "/calls?provider="+provider, nil).raw; strings.TrimSpace(string(calls)) != "[]" {
			t.Errorf("the provider %s was called: %s", provider, calls)
		}
	}
	for call, n := range providerCalls(c.client) {
		if n != callsBefore[call] {
			t.Errorf("the provider call %s was made, want no calls", call)
		}
	}
}

func (c *cloudflareFake) zoneRecords(t *testing.T, zone string) string {
	t.Helper()
	answer, err := http.Get(c.zoneURL(zone) + "/records")
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the simulator answers %s, want the records of the zone (%v)", answer.Status, err)
	}
	return string(raw)
}

// TestDNSPlanUsesTheProviderConnection checks that a plan is made from the provider's records if
// the account has a connection to the zone. It also checks the actions that problems with the
// connection or the zone require.
func TestDNSPlanUsesTheProviderConnection(t *testing.T) {
	t.Parallel()
	zone := fmt.Sprintf("held-%d.test", uniqueNumber.Add(1))
	cloudflare, fixture := newCloudflareFake(t, zone), newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := append(fixture.env(t.TempDir(), ""), "TENANTRY_LIMITS=off", cloudflare.env())
	account, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	_, api := fixture.serve(env)
	tenant := accountTenant{caller: caller{api, account, "ann@example.com", key}}
	tenant.guid, tenant.admin = fixture.newTenant(api)
	newAdministrator(t, tenant.admin).connect(api, key)
	tenant.mustSync()
	must(t, fixture.zones.Add(zone, "cloudflare"))
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	tenant.publishRecords(zone)
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	id := tenant.get(tenant.path("/domains")).objects("domains")[0].text("id")
	checkAutomation := func(subject string, want object) {
		t.Helper()
		got := tenant.reliableAutomation(id)
		for name, value := range want {
			checkValues(t, got.object, object{"automation." + name: value})
		}
		if t.Failed() {
			t.Fatalf("%s: the automation is %s", subject, got.raw)
		}
	}
	checkAutomation("no connection", object{"provider": "cloudflare", "connection_present": false, "action_required_code": "dns_connection_required", "manual_action_required": true})

	fixture.runCommand(env, "dns-connection", "add", "--account", account, "--provider", "cloudflare", "--credential-file", credentialFile(t, cloudflare.token))
	checkAutomation("connected", object{"connection_present": true, "safe_to_apply": true, "action_required_code": nil, "manual_action_required": false})
	// The name servers return the published records, but the provider's API has no records yet.
	if records := cloudflare.zoneRecords(t, zone); strings.TrimSpace(records) != "[]" {
		t.Fatalf("the provider has the records %s, want none", records)
	}
	for _, a := range tenant.reliablePlan(id).objects("actions") {
		checkValues(t, a, object{"action": "create", "reason": "missing", "observed": "[]"})
	}

	records, err := json.Marshal([]object{{"type": "MX", "name": zone, "content": "mail." + zone, "priority": 5, "ttl": 1}})
	must(t, err)
	putToSimulator(t, cloudflare.zoneURL(zone)+"/records", string(records))
	before := cloudflare.zoneRecords(t, zone)
	checkAutomation("a conflict", object{"connection_present": true, "safe_to_apply": false, "action_required_code": "dns_conflict"})
	putToSimulator(t, cloudflare.zoneURL(zone), `{"status":"moved"}`)
	checkAutomation("moved away", object{"connection_present": true, "action_required_code": "dns_connection_required"})
	putToSimulator(t, cloudflare.zoneURL(zone), `{"status":"active"}`)
	cloudflare.revoked.Store(true)
	checkAutomation("a rejected credential", object{"connection_present": true, "action_required_code": "dns_credential_rejected"})
	cloudflare.revoked.Store(false)
	if after := cloudflare.zoneRecords(t, zone); after != before {
		t.Errorf("the zone was changed from\n%s\nto\n%s", before, after)
	}
}
