// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const statusMembers = "spf_status dkim_status dmarc_status mx_status"

// TestDomainGoesFromAdditionToDKIM adds a domain, verifies it and enables DKIM. It checks the
// responses of each step.
func TestDomainGoesFromAdditionToDKIM(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newZone()
	list := tenant.get(tenant.path("/domains"))
	checkMembers(t, "empty list", list.object, "tenant_id domains count")
	checkValues(t, list.object, object{"tenant_id": tenant.guid, "domains": "[]", "count": 0})

	tenant.checkAdd(zone)
	tenant.expect("POST", tenant.domainPath(zone, "/enable-dkim"), nil, 400, "dkim_not_ready")
	tenant.expect("POST", tenant.domainPath(zone, "/verify"), nil, 400, "verification_failed")
	tenant.publishRecords(zone)
	verified := tenant.post(tenant.domainPath(zone, "/verify"), nil)
	checkMembers(t, "verify", verified.object, "status domain_name is_verified message")
	checkValues(t, verified.object, object{"status": "verified", "domain_name": zone, "is_verified": true})
	tenant.post(tenant.domainPath(zone, "/verify"), nil) // safe to repeat
	if next := tenant.nextStep(); next != "enable_dkim" {
		t.Errorf("the next step is %v, want enable_dkim", next)
	}

	tenant.checkEnableDKIM(zone)
	tenant.checkDNSViews(zone)
	if next := tenant.nextStep(); next != "create_mailboxes" {
		t.Errorf("the next step is %v, want create_mailboxes", next)
	}
}

// checkAdd adds a domain twice. It checks both responses and the list of domains.
func (tenant accountTenant) checkAdd(zone string) {
	t := tenant.t
	t.Helper()
	added := tenant.post(tenant.path("/domains"), object{"domain": strings.ToUpper(zone) + "."})
	checkMembers(t, "add", added.object, "status tenant_id domain verification_dns_records service_configuration_records live_dns_status dkim_verification_state")
	checkMembers(t, "domain", added.valueAt("domain"), "domain_name is_default is_verified")
	checkMembers(t, "live_dns_status", added.valueAt("live_dns_status"), statusMembers)
	checkMembers(t, "dkim_verification_state", added.valueAt("dkim_verification_state"), "status message")
	checkValues(t, added.object, object{
		"status": "added", "tenant_id": tenant.guid, "domain.domain_name": zone, "domain.is_verified": false, "domain.is_default": false,
		"live_dns_status.spf_status": "missing", "live_dns_status.dkim_status": "missing", "live_dns_status.dmarc_status": "missing",
		"live_dns_status.mx_status": "missing", "dkim_verification_state.status": "pending",
	})
	verificationRecords := added.objects("verification_dns_records")
	if len(verificationRecords) == 0 || !strings.HasPrefix(verificationRecords[0].text("text"), "MS=ms") || verificationRecords[0].text("label") != zone {
		t.Errorf("the verification records are %v, want first a TXT record of the zone with MS=ms", verificationRecords)
	}
	for _, r := range verificationRecords {
		checkRecordMembers(t, r)
	}
	repeated := tenant.post(tenant.path("/domains"), object{"domain": zone})
	checkValues(t, repeated.object, object{"status": "exists", "domain.domain_name": zone, "domain.is_verified": false})
	list := tenant.get(tenant.path("/domains"))
	entries := list.objects("domains")
	if len(entries) != 1 || list.valueAt("count") != 1.0 {
		t.Fatalf("the list of domains is %s, want 1 domain", list.raw)
	}
	checkMembers(t, "list entry", entries[0], "id domain_name is_default is_verified last_checked "+statusMembers)
	checkValues(t, entries[0], object{"domain_name": zone, "is_verified": false, "spf_status": "missing", "mx_status": "missing"})
}

// checkEnableDKIM publishes the mail records, enables DKIM and checks the responses.
func (tenant accountTenant) checkEnableDKIM(zone string) {
	t := tenant.t
	t.Helper()
	pending := tenant.get(tenant.domainPath(zone, "/dkim-status"))
	checkMembers(t, "dkim-status", pending.object, "domain_name dkim_status selectors ready_to_enable last_checked")
	checkMembers(t, "selectors", pending.valueAt("selectors"), "selector1 selector2")
	checkValues(t, pending.object, object{"dkim_status": "pending", "ready_to_enable": false, "selectors.selector1": "missing", "selectors.selector2": "missing"})
	tenant.expect("POST", tenant.domainPath(zone, "/enable-dkim"), nil, 400, "dkim_not_ready")
	tenant.publishRecords(zone)
	ready := tenant.getUntilReliable(tenant.domainPath(zone, "/dkim-status"), func(got reply) bool { return got.valueAt("ready_to_enable") == true })
	checkValues(t, ready.object, object{
		"dkim_status": "ready", "selectors.selector1": "propagated", "selectors.selector2": "propagated"})
	enabled := tenant.post(tenant.domainPath(zone, "/enable-dkim"), nil)
	checkMembers(t, "enable-dkim", enabled.object, "status domain_name dkim_status message")
	checkValues(t, enabled.object, object{"status": "enabled", "domain_name": zone, "dkim_status": "enabled"})
	tenant.post(tenant.domainPath(zone, "/enable-dkim"), nil) // safe to repeat
	checkValues(t, tenant.get(tenant.domainPath(zone, "/dkim-status")).object, object{"dkim_status": "enabled"})
	tenant.syncUntilDomainIs(object{"dkim_status": "healthy"})
}

// checkDNSViews checks the stored DNS of a domain as the API shows it by name, by id and in the
// list.
func (tenant accountTenant) checkDNSViews(zone string) {
	t := tenant.t
	t.Helper()
	byName := tenant.get(tenant.domainPath(zone, "/dns"))
	checkMembers(t, "dns", byName.object, "tenant_id domain_name is_default is_verified dns_status verification_dns_records service_configuration_records last_checked")
	checkMembers(t, "dns_status", byName.valueAt("dns_status"), "spf dkim dmarc mx")
	mx := "none"
	for _, r := range byName.objects("service_configuration_records") {
		if r["recordType"] == "domainDnsMxRecord" {
			mx = strings.TrimSuffix(r.text("mailExchange"), ".") + "."
		}
	}
	want := object{"domain_name": zone, "is_verified": true, "dns_status.dkim": "healthy", "dns_status.mx": mx,
		"dns_status.spf": "v=spf1 include:spf.protection.outlook.com -all", "dns_status.dmarc": "missing"}
	checkValues(t, byName.object, want)

	entry := tenant.get(tenant.path("/domains")).objects("domains")[0]
	checkValues(t, entry, object{"mx_status": mx, "is_verified": true})
	byID := tenant.get("/v1/domains/" + entry.text("id") + "/dns")
	checkMembers(t, "dns by id", byID.object, "domain_id tenant_resource_id tenant_id domain_name is_default is_verified dkim_enabled dns_status "+
		"verification_dns_records service_configuration_records dkim_dns_records last_checked")
	want["domain_id"], want["tenant_id"], want["dkim_enabled"] = entry["id"], tenant.guid, true
	want["tenant_resource_id"] = tenant.get(tenant.path("")).valueAt("id")
	checkValues(t, byID.object, want)
	if dkimRecords := byID.objects("dkim_dns_records"); len(dkimRecords) != 2 || dkimRecords[0].text("label") != "selector1._domainkey" || dkimRecords[1].text("label") != "selector2._domainkey" {
		t.Errorf("dkim_dns_records are %v, want the records of both selectors", dkimRecords)
	}
	for _, name := range []string{"verification_dns_records", "service_configuration_records", "dkim_dns_records"} {
		for _, r := range byID.objects(name) {
			checkRecordMembers(t, r)
		}
	}
}

func checkRecordMembers(t *testing.T, r object) {
	t.Helper()
	members, known := map[string]string{
		"domainDnsTxtRecord": "text", "domainDnsMxRecord": "mailExchange preference", "domainDnsCnameRecord": "canonicalName",
	}[r.text("recordType")]
	if !known {
		t.Errorf("the record has an unknown type: %v", r)
	}
	checkMembers(t, "record", r, "recordType label ttl "+members)
}

func TestInvalidDomainNamesAreRefused(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newTenant(nil).connect()
	for name, code := range map[string]string{
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
		tenant.expect("POST", tenant.path("/domains"), object{"domain": name}, 400, code)
	}
	for _, body := range []any{object{}, object{"domain": 7}, object{"domain": nil}, object{"domain": "a.example", "x": 1}, []string{"a.example"}} {
		got := tenant.expect("POST", tenant.path("/domains"), body, 400, "invalid_request")
		if len(got.objects("errors")) == 0 {
			t.Errorf("%v: no invalid members are named: %s", body, got.raw)
		}
	}
	got := tenant.post(tenant.path("/domains"), object{"domain": "notonmicrosoft-" + tenant.guid[:8] + ".com"})
	checkValues(t, got.object, object{"status": "added"})
	checkValues(t, tenant.post(tenant.path("/domains"), object{"domain": "Bücher.example"}).object, object{"domain.domain_name": "xn--bcher-kva.example"})
}

// TestTenantHasAtMostTwelveDomains checks that the thirteenth domain is refused, even if requests
// are concurrent. A request to add an existing domain needs no further slot.
func TestTenantHasAtMostTwelveDomains(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newTenant(nil).connect()
	domainName := func(i int) string { return fmt.Sprintf("d%d-%s.example", i, tenant.guid[:8]) }
	var requests sync.WaitGroup
	answers := make([]reply, 16)
	for i := range answers {
		requests.Go(func() {
			answers[i], _ = tenant.retryWhileUnavailable(rand.Text(), "POST", tenant.path("/domains"), tenant.key, object{"domain": domainName(i)})
		})
	}
	requests.Wait()
	addedDomain := ""
	for i, got := range answers {
		if err := checkDocumented(t, "POST", tenant.path("/domains"), got); err != nil {
			t.Errorf("the answer differs from the OpenAPI document: %v\n%s", err, got.raw)
		}
		switch {
		case got.status == 200 && got.text("status") == "added":
			addedDomain = domainName(i)
		case got.status != 400 || got.code() != "domain_limit_reached":
			t.Errorf("the addition of domain %d is answered %d %s, want added or domain_limit_reached", i, got.status, got.raw)
		}
	}
	if list := tenant.get(tenant.path("/domains")); list.valueAt("count") != 12.0 {
		t.Errorf("the API lists %v domains, want 12", list.valueAt("count"))
	}
	if atPlatform := tenant.control("GET", "/tenants/"+tenant.guid, nil).objects("domains"); len(atPlatform) != 12 {
		t.Errorf("the platform has %d domains, want 12", len(atPlatform))
	}
	checkValues(t, tenant.post(tenant.path("/domains"), object{"domain": addedDomain}).object, object{"status": "exists"})
	tenant.expect("POST", tenant.path("/domains"), object{"domain": "one-more-" + domainName(0)}, 400, "domain_limit_reached")
	checkValues(t, tenant.get(tenant.path("")).object, object{"domain_count": 12, "readiness.domains_total": 12})
}

// TestDomainOfADifferentTenantIsRefused checks that the tenant which verifies a domain first keeps
// it. A different tenant gets domain_unavailable from the operation in which the platform refuses
// the domain.
func TestDomainOfADifferentTenantIsRefused(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t)
	slower, faster := c.newAccount(nil).newConnectedTenant(nil), c.newAccount(nil).newConnectedTenant(nil)
	zone := slower.newZone()
	slower.post(slower.path("/domains"), object{"domain": zone})
	faster.post(faster.path("/domains"), object{"domain": zone})
	faster.publishRecords(zone)
	faster.post(faster.domainPath(zone, "/verify"), nil)

	slower.publishRecords(zone)
	slower.expect("POST", slower.domainPath(zone, "/verify"), nil, 409, "domain_unavailable")
	checkValues(t, slower.get(slower.domainPath(zone, "/dns")).object, object{"is_verified": false})

	refusedAtAdd := c.newAccount(nil).newTenant(nil)
	refusedAtAdd.setBehaviour(object{"elsewhere": []string{zone}, "elsewhere_at": "add"})
	refusedAtAdd.connect()
	refusedAtAdd.expect("POST", refusedAtAdd.path("/domains"), object{"domain": zone}, 409, "domain_unavailable")
	checkValues(t, refusedAtAdd.get(refusedAtAdd.path("/domains")).object, object{"count": 0})
}

// metricValue returns the value of a metric for one value of a label, or "" if it is not exported.
func (c client) metricValue(name, label, value string) string {
	c.t.Helper()
	sample := regexp.MustCompile(`(?m)^` + name + `\{[^}\n]*` + label + `="` + value + `"[^}\n]*\} (\S+)$`)
	found := sample.FindSubmatch(c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// zoneRecords returns the records of a zone in the form that the control interface accepts.
func (c client) zoneRecords(zone string) (records []object) {
	c.t.Helper()
	must(c.t, json.Unmarshal(c.control("GET", "/zones/"+zone+"/records", nil).raw, &records))
	return records
}

// monitoredDomain is a domain whose zone the test edits while the service checks it.
type monitoredDomain struct {
	accountTenant
	zone, id string
	healthy  []object // the records of the healthy zone
}

// dns returns the stored DNS of the domain.
func (d monitoredDomain) dns() reply { return d.get("/v1/domains/" + d.id + "/dns") }

// expectAfterDay publishes the healthy records for which isKept returns true, and moves the clock
// by a day. It waits until the service has read the zone, and the stored statuses and the drift
// metrics are as wanted. After an incomplete read, as on a busy machine, it moves the clock again,
// because the service reads a domain once a day.
func (d monitoredDomain) expectAfterDay(subject string, isKept func(object) bool, wantPresent map[string]bool, wantDrifts map[string]string) {
	d.t.Helper()
	records := []object{}
	for _, r := range d.healthy {
		if isKept(r) {
			records = append(records, r)
		}
	}
	d.control("PUT", "/zones/"+d.zone+"/records", records)
	checkedBefore, reliableBefore, seenIncomplete := d.dns().text("last_checked"), d.readCount("reliable"), d.incompleteReads()
	d.control("POST", "/clock", object{"advance": "24h"})
	d.eventually(subject, func() bool {
		if now := d.incompleteReads(); now > seenIncomplete {
			seenIncomplete = now
			d.control("POST", "/clock", object{"advance": "24h"})
		}
		got := d.dns()
		for name, present := range wantPresent {
			if text := fmt.Sprint(got.valueAt("dns_status." + name)); (text != "missing") != present {
				return false
			}
		}
		for kind, count := range wantDrifts {
			if d.metricValue("tenantry_domains_drifted", "kind", kind) != count {
				return false
			}
		}
		return got.text("last_checked") > checkedBefore && d.readCount("reliable") > reliableBefore
	})
}

// readCount returns the number of reads of zones with this result.
func (d monitoredDomain) readCount(result string) int {
	d.t.Helper()
	count, _ := strconv.Atoi(d.metricValue("tenantry_domain_checks_total", "result", result))
	return count
}

func (d monitoredDomain) incompleteReads() int {
	d.t.Helper()
	return d.readCount("unreliable") + d.readCount("silent")
}

// TestDomainHealthIsMonitored checks that the stored DNS statuses follow the zone without requests,
// and that the metrics count the domains whose records disappear.
func TestDomainHealthIsMonitored(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		tenant := c.newAccount(nil).withDNSConnection().newConnectedTenant(nil)
		zone, id := tenant.newHostedDomain()
		started := tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
		tenant.waitForRun(fmt.Sprint(started.valueAt("run.id")))
		d := monitoredDomain{tenant, zone, id, tenant.zoneRecords(zone)}
		allPresent := map[string]bool{"spf": true, "dkim": true, "mx": true, "dmarc": true}
		noDrift := map[string]string{"spf_gone": "0", "dkim_broken": "0", "mx_moved": "0"}
		oneDrift := func(kind string) map[string]string {
			counts := maps.Clone(noDrift)
			counts[kind] = "1"
			return counts
		}
		missing := func(status string) map[string]bool {
			statuses := maps.Clone(allPresent)
			statuses[status] = false
			return statuses
		}
		keepAll := func(object) bool { return true }
		d.expectAfterDay("a day later all is well", keepAll, allPresent, noDrift)
		d.expectAfterDay("SPF is gone", func(r object) bool { return !strings.Contains(r.text("content"), "v=spf1") }, missing("spf"), oneDrift("spf_gone"))
		d.expectAfterDay("DKIM is broken", func(r object) bool { return !strings.Contains(r.text("name"), "_domainkey") }, missing("dkim"), oneDrift("dkim_broken"))
		d.expectAfterDay("the MX is gone", func(r object) bool { return r.text("type") != "MX" }, missing("mx"), oneDrift("mx_moved"))
		d.expectAfterDay("all is well again", keepAll, allPresent, noDrift)
		if metrics := d.do("GET", d.ready.AdminURL+"/metrics", "", nil).raw; strings.Contains(string(metrics), zone) {
			t.Errorf("the metrics contain the domain %s", zone)
		}
	})
}
