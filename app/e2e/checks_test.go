// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// metric is the value of a sample by its name and one label, "" when there is
// none.
func (c client) metric(name, label, value string) string {
	c.t.Helper()
	sample := regexp.MustCompile(`(?m)^` + name + `\{[^}\n]*` + label + `="` + value + `"[^}\n]*\} (\S+)$`)
	found := sample.FindSubmatch(c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// zoneRecords are the records of a zone, in the form in which they can be put
// back.
func (c client) zoneRecords(zone string) (all []object) {
	c.t.Helper()
	if err := json.Unmarshal(c.control("GET", "/zones/"+zone+"/records", nil).raw, &all); err != nil {
		c.t.Fatal(err)
	}
	return all
}

// drifting is a healthy domain whose zone is edited while the service looks
// after it.
type drifting struct {
	holding
	zone, id string
	healthy  []object // its records
}

// dns is what is stored of the domain's DNS.
func (d drifting) dns() reply { return d.get("/v1/domains/" + d.id + "/dns") }

// becomes has the zone hold what passes, lets a day go by and waits until
// statuses and metrics say so.
func (d drifting) becomes(what string, passes func(object) bool, statuses map[string]bool, drifted map[string]string) {
	d.t.Helper()
	records := []object{}
	for _, r := range d.healthy {
		if passes(r) {
			records = append(records, r)
		}
	}
	d.control("PUT", "/zones/"+d.zone+"/records", records)
	before := d.dns().text("last_checked")
	d.control("POST", "/clock", object{"advance": "24h"})
	d.eventually(what, func() bool {
		got := d.dns()
		for name, there := range statuses {
			if text := fmt.Sprint(got.at("dns_status." + name)); (text != "missing") != there {
				return false
			}
		}
		for kind, count := range drifted {
			if d.metric("tenantry_domains_drifted", "kind", kind) != count {
				return false
			}
		}
		return got.text("last_checked") > before
	})
}

// TestHealthThatStays: nobody calls, and what is stored of a domain follows its
// zone; what was right and no longer is shows in the metrics.
func TestHealthThatStays(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return alone(t) }, func(t *testing.T, c caller) {
		h := c.newCaller(nil).automatic().connected(nil)
		zone, id := h.hosted()
		begun := h.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
		h.ends(fmt.Sprint(begun.at("run.id")))
		d := drifting{h, zone, id, h.zoneRecords(zone)}
		all := map[string]bool{"spf": true, "dkim": true, "mx": true, "dmarc": true}
		none := map[string]string{"spf_gone": "0", "dkim_broken": "0", "mx_moved": "0"}
		with := func(kind string) map[string]string {
			one := maps.Clone(none)
			one[kind] = "1"
			return one
		}
		without := func(status string) map[string]bool {
			rest := maps.Clone(all)
			rest[status] = false
			return rest
		}
		any := func(object) bool { return true }
		d.becomes("a day later all is well", any, all, none)
		d.becomes("SPF is gone", func(r object) bool { return !strings.Contains(r.text("content"), "v=spf1") }, without("spf"), with("spf_gone"))
		d.becomes("DKIM is broken", func(r object) bool { return !strings.Contains(r.text("name"), "_domainkey") }, without("dkim"), with("dkim_broken"))
		d.becomes("the MX is gone", func(r object) bool { return r.text("type") != "MX" }, without("mx"), with("mx_moved"))
		d.becomes("all is well again", any, all, none)
		if count, err := strconv.Atoi(d.metric("tenantry_domain_checks_total", "result", "reliable")); count < 5 {
			t.Errorf("%d reliable reads are counted: %v", count, err)
		}
		if metrics := d.do("GET", d.ready.AdminURL+"/metrics", "", nil).raw; strings.Contains(string(metrics), zone) {
			t.Error("a domain is in the metrics")
		}
	})
}
