// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the PostgreSQL driver

	"github.com/tenantry/tenantry/adapters/testserver"
)

func (c caller) setPlan(plan object) {
	c.t.Helper()
	c.control("POST", "/accounts/"+c.id+"/plan", plan)
}

// TestLapsedPlanAnswers402 checks that all operations and an unknown route answer 402 while the
// plan is inactive. Afterwards the account still has its tenant.
func TestLapsedPlanAnswers402(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(object{"tenant_slots": 1}).newTenant(nil).connect()
	tenant.setPlan(object{"plan": "complete", "active": false})
	d, err := publishedDocument()
	must(t, err)
	fillParameters := strings.NewReplacer("{tenant_id}", tenant.guid, "{domain_name}", "a.example", "{domain_id}", tenant.guid, "{mailbox_id}", tenant.guid)
	for _, op := range d.operations {
		tenant.expect(op.method, fillParameters.Replace(op.path), nil, 402, "no_api_plan")
	}
	tenant.expect("GET", "/v1/nothing", nil, 402, "no_api_plan")
	tenant.setPlan(object{"plan": "complete", "active": true})
	tenant.checkTenants(tenant.guid)
	tenant.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached") // the account's only slot is still in use
}

// TestTenantSlotsAreEnforced checks that a connect link needs a free slot. After a downgrade, new
// domains, mailboxes and connect links are refused.
func TestTenantSlotsAreEnforced(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(object{"tenant_slots": 2})
	tenant := c.newConnectedTenant(nil)
	zone, secondTenant := tenant.newVerifiedDomain(), c.newTenant(nil).connect()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	c.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
	// All slots of the account are in use. A new domain needs no free slot.
	tenant.post(tenant.path("/domains"), object{"domain": tenant.newZone()})

	c.setPlan(object{"plan": "complete", "active": true, "tenant_slots": 1})
	tenant.expect("POST", tenant.path("/domains"), object{"domain": tenant.newZone()}, 402, "tenant_limit_reached")
	tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(zone, "max"), 402, "tenant_limit_reached")
	tenant.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
	tenant.mustSync()
	tenant.get(tenant.path("/domains"))
	tenant.get(tenant.domainPath(zone, "/dns"))
	tenant.get(tenant.domainPath(zone, "/dkim-status"))
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	mailbox := tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0].text("id")
	tenant.expect("PATCH", tenant.path("/mailboxes/"+mailbox), object{"daily_send_limit": 5}, 200, "")
	tenant.get(tenant.path("/mailboxes/" + mailbox + "/usage"))
	tenant.checkTenants(secondTenant.guid, tenant.guid)

	tenant.expect("DELETE", secondTenant.path(""), nil, 200, "")
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "max"))
}

// TestRevokedConsentAllowsANewLink checks that an account gets a connect link although a tenant
// with revoked consent uses the account's only slot. The tenant without consent can be connected
// again, but a new tenant cannot.
func TestRevokedConsentAllowsANewLink(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(object{"tenant_slots": 1})
	tenant := c.newConnectedTenant(nil)
	tenant.control("POST", "/tenants/"+tenant.guid+"/revoke", object{})
	tenant.expect("POST", tenant.path("/sync"), nil, 403, "access_denied")
	c.get("/v1/tenants/connect-url")
	newTenant := c.newTenant(nil)
	refused := c.do("POST", c.ready.ControlURL+"/tenants/"+newTenant.guid+"/consent", "", object{"api_key": c.key})
	checkValues(t, refused.object, object{"page_status": 402})
	tenant.connect()
	tenant.mustSync()
	c.checkTenants(tenant.guid)
}

// TestPlansHaveTenantSlots checks that each plan has a tenant slot, and that legacy_trial has 5.
func TestPlansHaveTenantSlots(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t)
	for _, plan := range []string{"api_starter", "api_growth", "api_scale", "complete", "legacy_trial"} {
		c.newAccount(object{"plan": plan}).get("/v1/tenants/connect-url")
	}
	trialAccount := c.newAccount(object{"plan": "legacy_trial"})
	for range 5 {
		trialAccount.newTenant(nil).connect()
	}
	trialAccount.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
}

const concurrentRequests = 50

// replicaPair is two servers with one PostgreSQL database and one keyset.
type replicaPair struct {
	*serviceFixture
	servers [2]client
	key     string
	db      *sql.DB
}

// newReplicaPair starts two servers with one account that has this plan and number of tenant slots.
func newReplicaPair(t *testing.T, plan string, slots int) *replicaPair {
	t.Helper()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	database := testserver.Database(t)
	env := fixture.env(t.TempDir(), database)
	fixture.runCommand(env, "migrate")
	pair := &replicaPair{serviceFixture: fixture}
	_, pair.key = fixture.newAccount(env, "owner@example.com", plan, slots)
	for i := range pair.servers {
		_, pair.servers[i] = fixture.serve(env)
		pair.servers[i].ready.APIKey = pair.key
	}
	var err error
	if pair.db, err = sql.Open("pgx", database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pair.db.Close() })
	return pair
}

// sendConcurrently sends concurrentRequests requests at once, alternating between the servers. It
// returns the number of responses by status and code.
func (pair *replicaPair) sendConcurrently(send func(i int, c client) reply) map[string]int {
	pair.t.Helper()
	answers, gate := make([]reply, concurrentRequests), make(chan struct{})
	var requests sync.WaitGroup
	for i := range concurrentRequests {
		requests.Go(func() {
			<-gate
			answers[i] = send(i, pair.servers[i%2])
		})
	}
	close(gate)
	requests.Wait()
	counts := map[string]int{}
	for _, a := range answers {
		counts[fmt.Sprint(a.status, " ", a.code())]++
	}
	return counts
}

// post sends a POST request as retryWhileUnavailable does.
func (pair *replicaPair) post(c client, path string, body any) reply {
	pair.t.Helper()
	got, err := c.retryWhileUnavailable(rand.Text(), "POST", path, pair.key, body)
	if err != nil {
		pair.t.Error(err)
	}
	return got
}

func (pair *replicaPair) queryInt(query string) (n int) {
	pair.t.Helper()
	must(pair.t, pair.db.QueryRow(query).Scan(&n))
	return n
}

// checkEqual compares two values by their text.
func (pair *replicaPair) checkEqual(subject string, got, want any) {
	pair.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		pair.t.Errorf("%s: got %v, want %v", subject, got, want)
	}
}

// countPlatformWrites counts the successful requests to an operation of the platform.
func (pair *replicaPair) countPlatformWrites(method, path, cmdlet string) (n int) {
	for _, call := range pair.recordedRequests() {
		if call.method == method && call.path == path && call.status < 300 && (cmdlet == "" || call.cmdlet() == cmdlet) {
			n++
		}
	}
	return n
}

// TestResourceLimitsHoldAcrossTwoServers sends 50 concurrent requests to two servers, to create
// more mailboxes, domains and tenants than are allowed. Afterwards the database has exactly the
// allowed number of each. The test also adds one domain 50 times: the domain is created once.
func TestResourceLimitsHoldAcrossTwoServers(t *testing.T) {
	t.Parallel()
	pair := newReplicaPair(t, "complete", 3)
	server := pair.servers[0]
	tenant, admin := pair.newTenant(server)
	newAdministrator(t, admin).connect(server, pair.key)
	path := "/v1/tenants/" + tenant
	pair.checkEqual("sync", server.callAPI("POST", path+"/sync").text("status"), "completed")

	t.Run("mailboxes", func(t *testing.T) {
		zone := pair.newVerifiedDomain(accountTenant{caller: seededAccount(t, server.ready), guid: tenant})
		got := pair.sendConcurrently(func(i int, c client) reply {
			return pair.post(c, path+"/mailboxes", mailboxesBody(zone, fmt.Sprintf("box%d", i)))
		})
		pair.checkEqual("answers", got, map[string]int{"200 ": 3, "400 mailbox_limit_reached": concurrentRequests - 3})
		pair.checkEqual("in the database", pair.queryInt("SELECT count(*) FROM mailboxes"), 3)
		pair.checkEqual("at the platform", len(server.control("GET", "/tenants/"+tenant, nil).objects("mailboxes")), 3)
		pair.checkEqual("created at the platform", pair.countPlatformWrites("POST", "/exchange/adminapi/beta/"+tenant+"/InvokeCommand", "New-Mailbox"), 3)
	})
	t.Run("the same domain", func(t *testing.T) {
		got := pair.sendConcurrently(func(_ int, c client) reply { return pair.post(c, path+"/domains", object{"domain": "same.test"}) })
		pair.checkEqual("answers", got, map[string]int{"200 ": concurrentRequests})
		pair.checkEqual("in the database", pair.queryInt("SELECT count(*) FROM domains WHERE name = 'same.test'"), 1)
		pair.checkEqual("created at the platform", pair.countPlatformWrites("POST", "/graph/v1.0/domains", ""), 2) // same.test, and the domain of the mailboxes
	})
	t.Run("domains", func(t *testing.T) { // the tenant has 2 of the 12 domains that it can have
		got := pair.sendConcurrently(func(i int, c client) reply {
			return pair.post(c, path+"/domains", object{"domain": fmt.Sprintf("domain-%d.test", i)})
		})
		pair.checkEqual("answers", got, map[string]int{"200 ": 10, "400 domain_limit_reached": concurrentRequests - 10})
		pair.checkEqual("in the database", pair.queryInt("SELECT count(*) FROM domains"), 12)
		pair.checkEqual("at the platform", len(server.control("GET", "/tenants/"+tenant, nil).objects("domains")), 12)
		pair.checkEqual("created at the platform", pair.countPlatformWrites("POST", "/graph/v1.0/domains", ""), 12)
	})
	t.Run("tenants", pair.checkTenantLimit)
}

// checkTenantLimit lets 50 administrators confirm at once. The account has three slots, and its
// first tenant uses one of them.
func (pair *replicaPair) checkTenantLimit(t *testing.T) {
	administrators := make([]*administrator, concurrentRequests)
	for i := range administrators {
		c := pair.servers[i%2]
		_, admin := pair.newTenant(c)
		administrators[i] = newAdministrator(t, admin)
		administrators[i].openConfirmation(c, pair.key)
	}
	got := pair.sendConcurrently(func(i int, _ client) reply {
		// The confirmation is sent to the server that did not serve the page.
		administrators[i].submitWhileUnavailable(t, "connect", pair.servers[(i+1)%2].ready.APIURL)
		return reply{status: administrators[i].status}
	})
	pair.checkEqual("answers", got, map[string]int{"200 ": 2, "402 ": concurrentRequests - 2})
	pair.checkEqual("in the database", pair.queryInt("SELECT count(*) FROM tenants"), 3)
	pair.checkEqual("listed", pair.servers[0].callAPI("GET", "/v1/tenants").text("count"), 3)
	refused := pair.servers[1].callAPI("GET", "/v1/tenants/connect-url")
	pair.checkEqual("one more link", fmt.Sprint(refused.status, " ", refused.code()), "402 tenant_limit_reached")
}
