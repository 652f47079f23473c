// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// chooseLagMS returns a lag for replicas of the mail platform, in milliseconds. In a soak the lag
// is random.
func chooseLagMS(r *rand.Rand) int {
	if soak.Enabled() {
		return 200 + r.IntN(8000)
	}
	return 1500
}

// TestTenantWorksWhileReplicasOfThePlatformLag takes a tenant through a journey. Meanwhile reads at
// Graph and Exchange return an old state, so that they miss recent writes. Either lists lag, or
// reads of one object, or all reads, or every second read. Each object is created once, each
// mailbox gets one password, and no sync deletes a row. A soak tests all four kinds of lagging
// reads, other runs test two.
func TestTenantWorksWhileReplicasOfThePlatformLag(t *testing.T) {
	t.Parallel()
	c, random := privateSandbox(t), soak.Rand(t)
	for _, laggingReads := range soak.Sample(t, []string{"lists", "objects", "all", "alternate"}, 2) {
		t.Run(laggingReads, func(t *testing.T) {
			c := c.withT(t)
			c.control("DELETE", "/calls", nil)
			lagging := func(ms int, laggingReads string) object {
				replicas := object{"lag_ms": ms, "answers": laggingReads}
				return object{"graph_replicas": replicas, "exchange_replicas": replicas}
			}
			j := newJourney(c, nil, lagging(chooseLagMS(random), laggingReads))
			j.onboard()
			// A sync during other requests can miss a new mailbox. The service then hides the
			// mailbox until the next sync.
			waitForAll := func() {
				j.eventually("all mailboxes are listed", func() bool {
					j.syncFully()
					return len(j.mailboxIDs()) == 4
				})
			}
			waitForAll()
			renamed := j.mailboxIDs()["ada@"+j.zones[0]]
			j.rename(renamed)
			waitForAll()

			// The lagging replica does not show the next mailbox until the clock moves. The mailbox
			// can be created, because only lists lag. A sync that misses the mailbox must not
			// delete its row, and a repeated request must not set a second password.
			j.setBehaviour(lagging(600_000, "lists"))
			j.step(func() { j.provision(j.zones[1], "grete") })
			j.setBehaviour(lagging(600_000, laggingReads))
			ids := j.mailboxIDs()
			if len(ids) != 5 {
				t.Fatalf("the stored mailboxes are %v, want 5", ids)
			}
			for range 2 {
				j.step(j.syncFully)
			}
			for email := range ids {
				localPart, zone, _ := strings.Cut(email, "@")
				got := j.call("POST", j.path("/mailboxes"), mailboxesBody(zone, localPart))
				if got.code() == "provider_timeout" && localPart == "grete" {
					continue // no read shows the mailbox
				}
				checkValues(t, got.object, object{"created_count": 0, "exists_count": 1})
			}
			j.checkCreatedOnce()
			j.setBehaviour(lagging(chooseLagMS(random), laggingReads))
			c.control("POST", "/clock", object{"advance": "601s"})
			j.checkLimits(ids)
			j.eventually("a sync sees all changes", func() bool {
				j.syncFully()
				return maps.Equal(j.mailboxIDs(), ids) && j.countVerifiedDomains() == 2 &&
					j.get(j.path("/mailboxes/"+renamed+"/usage")).text("display_name") == "Ada Lovelace"
			})
			checkValues(t, j.get(j.path("/mailboxes/"+renamed+"/usage")).object, object{"daily_send_limit": 7})
			j.remove(ids)
		})
	}
}

// TestRulesAreChangedWhileReplicasLag blocks and unblocks a mailbox and then removes the limit,
// while reads at Exchange return an old state. After each change of the limit the platform has
// exactly the right rule, and after its removal no rule. The test then creates the rule again while
// lists do not show it. When the tenant is removed, the platform must lose this rule too.
func TestRulesAreChangedWhileReplicasLag(t *testing.T) {
	t.Parallel()
	c := privateSandbox(t)
	for _, laggingReads := range []string{"lists", "objects", "all", "alternate"} {
		t.Run(laggingReads, func(t *testing.T) {
			limited := c.withT(t).newLimitedTenant(5, "ada", "max")
			lag := func(laggingReads string) {
				limited.setBehaviour(object{"exchange_replicas": object{"lag_ms": endlessLagMS, "answers": laggingReads}})
			}
			enforceLimit := func(perDay int, blocked ...any) {
				t.Helper()
				limited.post(limited.path("/mailbox-limits"), object{"daily_send_limit": perDay})
				limited.runEnforcement("done", "not_ready") // not_ready while reads do not show the change
				rules := limited.control("GET", "/tenants/"+limited.guid, nil).objects("rules")
				if len(rules) != 1 || !reflect.DeepEqual(rules[0]["blocks"], append([]any{}, blocked...)) {
					t.Errorf("with the limit %d the platform holds %v, want a rule that blocks %v", perDay, rules, blocked)
				}
			}
			ada := limited.mailboxes[0]["primary_smtp"]
			lag(laggingReads)
			limited.send(0, 6)
			enforceLimit(5, ada)
			enforceLimit(25)
			enforceLimit(5, ada)
			limited.expect("DELETE", limited.path("/mailbox-limits"), nil, http.StatusOK, "")
			limited.checkPlatformRules(0)

			limited.setBehaviour(object{"exchange_replicas": object{"lag_ms": 0}})
			lag("lists") // from now on, lists show no rule
			enforceLimit(5, ada)
			limited.expect("DELETE", limited.path(""), nil, http.StatusOK, "")
			limited.checkPlatformRules(0)
		})
	}
}

// checkCreatedOnce checks that the platform created each domain and each mailbox once, and that
// each mailbox got one password.
func (j *journey) checkCreatedOnce() {
	j.t.Helper()
	counts, passwords := j.countExecuted(), 0
	wantCounts := map[string]int{"domain.create": 2, "domain.verify": 2, "New-Mailbox": 5}
	for operation := range counts {
		if strings.HasPrefix(operation, "user.update ") {
			passwords++
			wantCounts[operation] = 1
		}
	}
	for operation, want := range wantCounts {
		if counts[operation] != want {
			j.t.Errorf("%s was done %d times, want %d", operation, counts[operation], want)
		}
	}
	if passwords != 5 {
		j.t.Errorf("%d mailboxes got a password, want 5", passwords)
	}
}

func (j *journey) countVerifiedDomains() (n int) {
	j.t.Helper()
	for _, d := range j.get(j.path("/domains")).objects("domains") {
		if d["is_verified"] == true {
			n++
		}
	}
	return n
}

// TestHiddenDomainIsAddedAgain runs a sync that misses a verified domain, because all reads at
// Graph return the state before the domain was added. A request then adds the domain again, while
// reads lag. If reads of the domain itself do not show it, the request fails first and later
// succeeds with the same Idempotency-Key. The domain keeps its id, its verification and its limit.
func TestHiddenDomainIsAddedAgain(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t)
	for _, laggingReads := range []string{"all", "objects", "lists", "alternate"} {
		t.Run(laggingReads, func(t *testing.T) {
			t.Parallel()
			tenant := c.withT(t).newAccount(nil).newConnectedTenant(nil)
			tenant.lagGraph(endlessLagMS, "") // the replica keeps the state of this moment, without the domain
			zone := tenant.newVerifiedDomain()
			tenant.post(tenant.path("/mailbox-limits"), object{"daily_send_limit": 20, "domain_scope": zone})
			before := tenant.get(tenant.path("/domains")).objects("domains")
			tenant.lagGraph(endlessLagMS, "all")
			tenant.mustSync()
			if hidden := tenant.get(tenant.path("/domains")); len(before) != 1 || hidden.valueAt("count") != 0.0 {
				t.Fatalf("the domains are %v before and %s after the sync, want one before and none after", before, hidden.raw)
			}

			tenant.lagGraph(endlessLagMS, laggingReads)
			add := func() reply {
				got, err := tenant.tryWithKey(t.Name(), "POST", tenant.ready.APIURL+tenant.path("/domains"), tenant.key, object{"domain": zone})
				must(t, err)
				return got
			}
			got := add()
			if laggingReads == "all" || laggingReads == "objects" {
				if got.code() != "provider_timeout" {
					t.Errorf("while reads of the domain do not show it: got %d %s, want provider_timeout", got.status, got.raw)
				}
				tenant.lagGraph(0, "")
				got = add()
			}
			checkValues(t, got.object, object{"status": "exists", "domain.domain_name": zone, "domain.is_verified": true})
			tenant.lagGraph(0, "")
			after := tenant.get(tenant.path("/domains")).objects("domains")
			if len(after) != 1 || after[0].text("id") != before[0].text("id") || after[0]["is_verified"] != true {
				t.Errorf("the domains are %v, want the verified domain with its id from %v", after, before)
			}
			tenant.publishRecords(zone)
			tenant.post(tenant.domainPath(zone, "/verify"), nil)
			tenant.publishRecords(zone)
			tenant.post(tenant.domainPath(zone, "/enable-dkim"), nil)
			checkValues(t, tenant.get(tenant.path("/mailbox-limits?domain_scope="+zone)).object, object{"daily_send_limit": 20})
		})
	}
}

// TestRunWaitsForAHiddenDomain checks that a provisioning job waits while no read at Graph shows
// its domain, and completes after that. Meanwhile a second run of the domain is refused. A request
// that needs the domain at Graph fails meanwhile, and succeeds later with the same Idempotency-Key.
func TestRunWaitsForAHiddenDomain(t *testing.T) {
	t.Parallel()
	run := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil).newWaitingRun()
	domainID := run.get("/v1/dns/provisioning-runs/" + run.id).objects("jobs")[0].text("domain_id")
	run.expect("POST", "/v1/domains/"+domainID+"/dns/provision", nil, http.StatusConflict, "domain_provisioning_already_active")
	enable := func() reply {
		got, err := run.tryWithKey(t.Name(), "POST", run.ready.APIURL+run.domainPath(run.zone, "/enable-dkim"), run.key, nil)
		must(t, err)
		return got
	}
	if got := enable(); got.code() != "domain_not_found" {
		t.Errorf("while reads of the domain do not show it: got %d %s, want domain_not_found", got.status, got.raw)
	}
	run.lagGraph(0, "")
	run.expectCompleted()
	checkValues(t, enable().object, object{"status": "enabled"})
}

// endlessLagMS is a lag of a replica, in milliseconds, that is longer than a test.
const endlessLagMS = 3_600_000

// lagGraph sets the lag of a replica of Graph, and which reads this replica answers.
func (tenant accountTenant) lagGraph(ms int, laggingReads string) {
	tenant.t.Helper()
	tenant.setBehaviour(object{"graph_replicas": object{"lag_ms": ms, "answers": laggingReads}})
}
