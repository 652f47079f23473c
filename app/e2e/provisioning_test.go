// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

func (c caller) withDNSConnection() caller { return c.withDNSConnectionTo("cloudflare") }

// withDNSConnectionTo connects the account to the simulated DNS provider.
func (c caller) withDNSConnectionTo(provider string) caller {
	c.t.Helper()
	c.control("POST", "/accounts/"+c.id+"/dns-connections", object{"provider": provider})
	return c
}

// newHostedDomain adds a domain whose new, empty zone is at the simulated Cloudflare.
func (tenant accountTenant) newHostedDomain() (zone, id string) {
	return tenant.newDomainHostedAt("cloudflare")
}

// newDomainHostedAt adds a domain whose new, empty zone is at the simulated DNS provider.
func (tenant accountTenant) newDomainHostedAt(provider string) (zone, id string) {
	tenant.t.Helper()
	zone = fmt.Sprintf("automatic-%d.test", uniqueNumber.Add(1))
	tenant.control("POST", "/zones", object{"name": zone, "provider": provider})
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	return zone, tenant.domainNamed(zone).text("id")
}

// domainNamed returns a domain as the API lists it, or nil if it is not listed.
func (tenant accountTenant) domainNamed(name string) object {
	tenant.t.Helper()
	for _, d := range tenant.get(tenant.path("/domains")).objects("domains") {
		if d["domain_name"] == name {
			return d
		}
	}
	return nil
}

// waitForRun waits until a run is completed, failed or requires action, and returns it.
func (c caller) waitForRun(run string) reply {
	c.t.Helper()
	var got reply
	c.eventually("run "+run+" ends", func() bool {
		got = c.get("/v1/dns/provisioning-runs/" + run)
		switch got.valueAt("run.status") {
		case "completed", "failed", "action_required":
			return true
		default:
			return false
		}
	})
	return got
}

// checkProvisioned checks that a domain is verified and has DKIM, in the service and at the
// platform, and checks the records of its zone.
func (tenant accountTenant) checkProvisioned(zone string) {
	tenant.t.Helper()
	if d := tenant.domainNamed(zone); d["is_verified"] != true || d["dkim_status"] != "healthy" {
		tenant.t.Errorf("%s is not verified and signed: %v", zone, d)
	}
	atPlatform := tenant.control("GET", "/tenants/"+tenant.guid, nil).objects("domains")
	if !slices.ContainsFunc(atPlatform, func(d object) bool {
		return d["name"] == zone && d["verified"] == true && d["dkim_enabled"] == true
	}) {
		tenant.t.Errorf("the platform has the domains %v, want %s with DKIM, verified", atPlatform, zone)
	}
	tenant.checkZoneRecords(zone)
}

// checkZoneRecords compares the zone with the records that the service writes, by type, name and
// number.
func (tenant accountTenant) checkZoneRecords(zone string) {
	tenant.t.Helper()
	var records []object
	must(tenant.t, json.Unmarshal(tenant.control("GET", "/zones/"+zone+"/records", nil).raw, &records))
	counts := map[string]int{}
	for _, r := range records {
		counts[r.text("type")+" "+r.text("name")]++
	}
	want := map[string]int{
		"TXT " + zone: 2, "MX " + zone: 1, "CNAME autodiscover." + zone: 1, "TXT _dmarc." + zone: 1,
		"CNAME selector1._domainkey." + zone: 1, "CNAME selector2._domainkey." + zone: 1,
	}
	for name, n := range want {
		if counts[name] != n {
			tenant.t.Errorf("the zone has %[2]d records %[1]s, want %[3]d", name, counts[name], n)
		}
	}
	if len(counts) != len(want) {
		tenant.t.Errorf("the zone has the records %v, want only %v", counts, want)
	}
}

// TestOneCallProvisionsADomain checks that one request writes the DNS records of a domain, verifies
// it and enables DKIM.
func TestOneCallProvisionsADomain(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, sharedSandbox, func(t *testing.T, c caller) {
		tenant := c.newAccount(nil).withDNSConnection().newConnectedTenant(nil)
		zone, id := tenant.newHostedDomain()
		started := tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
		ended := tenant.waitForRun(fmt.Sprint(started.valueAt("run.id")))
		if job := ended.objects("jobs")[0]; job.text("status") != "completed" || job.text("stage") != "done" {
			t.Fatalf("the run ended as %s, want it completed", ended.raw)
		}
		tenant.checkProvisioned(zone)
	})
}

// TestEachSimulatedDNSProviderIsProvisioned provisions a domain in the sandbox at each DNS provider
// that has a simulator. The zone is created before the DNS connection, because a connection for
// dynamic updates (rfc2136) contains the names of its zones.
func TestEachSimulatedDNSProviderIsProvisioned(t *testing.T) {
	t.Parallel()
	c := newSendingSandbox(t, "--no-seed")
	for _, provider := range []string{"cloudflare", "powerdns", "rfc2136"} {
		tenant := c.newAccount(nil).newConnectedTenant(nil)
		zone, id := tenant.newDomainHostedAt(provider)
		tenant.withDNSConnectionTo(provider)
		started := tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
		checkValues(t, started.objects("jobs")[0], object{"provider": provider})
		tenant.waitForRun(fmt.Sprint(started.valueAt("run.id")))
		tenant.checkProvisioned(zone)
	}
}

const (
	runMembers = "id status total_domains created_at started_at completed_at updated_at"
	jobMembers = "id run_id domain_id tenant_id domain_name stage status provider action_required_code message next_attempt_at"
)

// TestProvisioningRunIsShown checks the responses that show a run, and the list of runs. The list
// of active runs omits a run that has ended. A completed job cannot be retried.
func TestProvisioningRunIsShown(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).withDNSConnection().newConnectedTenant(nil)
	zone, id := tenant.newHostedDomain()
	started := tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", object{}, http.StatusAccepted, "")
	checkMembers(t, "the answer", started.object, "domain_id run jobs")
	checkMembers(t, "run", started.valueAt("run"), runMembers)
	job := started.objects("jobs")[0]
	checkMembers(t, "job", job, jobMembers)
	checkValues(t, started.object, object{"domain_id": id, "run.status": "queued", "run.total_domains": 1, "run.started_at": nil, "run.completed_at": nil, "run.updated_at": nil})
	checkValues(t, job, object{"run_id": started.valueAt("run.id"), "domain_id": id, "tenant_id": tenant.guid, "domain_name": zone, "stage": "queued", "status": "queued",
		"provider": "cloudflare", "action_required_code": nil, "message": nil})

	run := fmt.Sprint(started.valueAt("run.id"))
	if bucket := started.header.Get("X-RateLimit-Bucket"); bucket != "provider_heavy" {
		t.Errorf("provision counts in the bucket %q, want provider_heavy", bucket)
	}
	checkMembers(t, "a run", tenant.get("/v1/dns/provisioning-runs/"+run).object, "run jobs")
	list := tenant.get("/v1/dns/provisioning-runs")
	checkMembers(t, "the list", list.object, "runs count limit")
	checkValues(t, list.object, object{"count": 1, "limit": 20})
	checkValues(t, list.objects("runs")[0], object{"id": run, "total_domains": 1})

	ended := tenant.waitForRun(run)
	checkValues(t, ended.object, object{"run.status": "completed"})
	if ended.valueAt("run.started_at") == nil || ended.valueAt("run.completed_at") == nil || ended.valueAt("run.updated_at") == nil {
		t.Errorf("the run that ended lacks a time: %s", ended.raw)
	}
	checkValues(t, tenant.get("/v1/dns/provisioning-runs?active_only=true&limit=100").object, object{"count": 0, "limit": 100, "runs": "[]"})
	tenant.expect("POST", "/v1/dns/provisioning-jobs/"+job.text("id")+"/retry", nil, http.StatusConflict, "provisioning_job_not_retryable")
	tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
	if newest := tenant.get("/v1/dns/provisioning-runs?limit=1"); newest.objects("runs")[0].text("id") == run {
		t.Errorf("the list begins with the older run: %s", newest.raw)
	}
}

// TestZoneIsProvisionedAfterItsConflictIsRemoved checks that a zone with an MX record of a
// different mail server is refused, and that the response lists the record. After the record is
// removed, the domain is provisioned. Its job waits until Graph shows the domain. A retry of the
// waiting job is accepted.
func TestZoneIsProvisionedAfterItsConflictIsRemoved(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).withDNSConnection().newConnectedTenant(nil)
	tenant.lagGraph(endlessLagMS, "")
	zone, id := tenant.newHostedDomain()
	tenant.control("PUT", "/zones/"+zone+"/records", []object{{"type": "MX", "name": zone, "content": "mail." + zone, "priority": 5, "ttl": 60}})
	refused := tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusConflict, "dns_conflict")
	if conflicts := refused.objects("conflicts"); len(conflicts) != 1 {
		t.Fatalf("the refusal is %s, want 1 conflict", refused.raw)
	} else {
		checkMembers(t, "a conflict", conflicts[0], actionMembers)
		checkValues(t, conflicts[0], object{"action": "conflict", "record_type": "MX", "name": zone, "blocking": true})
	}
	checkValues(t, tenant.get("/v1/dns/provisioning-runs").object, object{"count": 0})
	tenant.control("PUT", "/zones/"+zone+"/records", []object{})
	tenant.lagGraph(endlessLagMS, "all")
	started := tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
	retry := "/v1/dns/provisioning-jobs/" + started.objects("jobs")[0].text("id") + "/retry"
	tenant.eventually("a retry of the job while it waits", func() bool {
		got := tenant.call("POST", retry, nil)
		if got.status == http.StatusOK {
			checkMembers(t, "the answer", got.object, "status job")
			checkMembers(t, "job", got.valueAt("job"), jobMembers)
			checkValues(t, got.object, object{"status": "queued", "job.status": "queued", "job.message": nil})
		}
		return got.status == http.StatusOK
	})
	tenant.lagGraph(0, "")
	checkValues(t, tenant.waitForRun(fmt.Sprint(started.valueAt("run.id"))).object, object{"run.status": "completed"})
	tenant.checkProvisioned(zone)
}

// TestJobsFollowTheClockOfTheSandbox moves the clock of a sandbox. A job that is created after a
// move starts. Only a soak checks that it starts at once, because other tests can delay it. A job
// waits at most an hour for a reliable read of its zone, and a move of the clock ends this hour.
func TestJobsFollowTheClockOfTheSandbox(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		tenant := c.newAccount(nil).withDNSConnection().newConnectedTenant(nil)
		tenant.post(tenant.path("/domains"), object{"domain": "undelegated.test"})
		domainID := tenant.get(tenant.path("/domains")).objects("domains")[0].text("id")
		tenant.control("POST", "/clock", object{"advance": "2h"})
		started := tenant.expect("POST", "/v1/domains/"+domainID+"/dns/provision", nil, 202, "")
		run := fmt.Sprint(started.valueAt("run.id"))
		requested := time.Now()
		tenant.eventually("the job waits", func() bool {
			return tenant.get("/v1/dns/provisioning-runs/" + run).objects("jobs")[0].text("status") == "waiting"
		})
		if waited := time.Since(requested); soak.Enabled() && waited >= 25*time.Second { // sweeps are 30 s apart
			t.Errorf("the job started after %s, so only the periodic sweep for lost wake-ups started it, want a start at once", waited)
		}
		tenant.control("POST", "/clock", object{"advance": "61m"})
		job := tenant.waitForRun(run).objects("jobs")[0]
		checkValues(t, job, object{"status": "action_required", "stage": "dns_plan", "action_required_code": "dns_read_unreliable"})
	})
}

// TestServiceWithoutWorkerLeavesJobsQueued checks that a process without a worker queues a job and
// does not run it. A later process with a worker runs the job.
func TestServiceWithoutWorkerLeavesJobsQueued(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	withoutWorker, ready := startDev(t, requirePrograms(t, releaseBuild), dataDir, []string{"TENANTRY_WORKER=false"}, "--no-seed")
	tenant := seededAccount(t, ready).newAccount(nil).withDNSConnection().newConnectedTenant(nil)
	zone, id := tenant.newHostedDomain()
	run := tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", object{}, 202, "").valueAt("run.id").(string)
	if calls := tenant.control("GET", "/calls?provider=cloudflare", nil); tenant.get("/v1/dns/provisioning-runs/"+run).valueAt("run.status") != "queued" {
		t.Errorf("without a worker the run is not queued; the calls at Cloudflare are %s", calls.raw)
	}
	must(t, withoutWorker.stop())
	_, restarted := startDev(t, requirePrograms(t, releaseBuild), dataDir, nil, "--no-seed")
	tenant.ready = restarted
	if tenant.waitForRun(run).valueAt("run.status") != "completed" {
		t.Error("the later process with a worker did not complete the run")
	}
	tenant.checkProvisioned(zone)
}

// provisionedDomain is a domain that is being provisioned, with its tenant and its run.
type provisionedDomain struct {
	tenant        accountTenant
	zone, id, run string
}

// provisioningSandbox has the domains that are provisioned in one sandbox.
type provisioningSandbox struct {
	*restartingSandbox
	domains []provisionedDomain
}

// domainsPerAccount is the number of domains of an account, all in its only tenant.
const domainsPerAccount = 10

// newProvisioningSandbox adds size domains, a multiple of domainsPerAccount, to new accounts.
func newProvisioningSandbox(t *testing.T, server *restartingSandbox, size int) *provisioningSandbox {
	t.Helper()
	fixture := &provisioningSandbox{restartingSandbox: server}
	for range size / domainsPerAccount {
		tenant := caller{client: server.client}.newAccount(nil).withDNSConnection().newConnectedTenant(nil)
		for range domainsPerAccount {
			zone, id := tenant.newHostedDomain()
			fixture.domains = append(fixture.domains, provisionedDomain{tenant: tenant, zone: zone, id: id})
		}
	}
	return fixture
}

// currentTenant returns the tenant of a domain with a client of the sandbox's current process.
func (m *provisioningSandbox) currentTenant(d provisionedDomain) accountTenant {
	tenant := d.tenant
	tenant.client = m.client
	return tenant
}

func (m *provisioningSandbox) startRuns() {
	m.t.Helper()
	for i, d := range m.domains {
		got := m.currentTenant(d).expect("POST", "/v1/domains/"+d.id+"/dns/provision", nil, http.StatusAccepted, "")
		m.domains[i].run = fmt.Sprint(got.valueAt("run.id"))
	}
}

// injectFaults plans faults at the providers: throttling, errors, and connections that end before
// or after a write takes effect. At random it also kills their plugins.
func (m *provisioningSandbox) injectFaults(random *rand.Rand) {
	m.t.Helper()
	for _, provider := range []string{"cloudflare", "microsoft365"} {
		for _, fault := range []object{
			{"kind": "status", "status": 429, "retry_after": 1}, {"kind": "status", "status": 500},
			{"kind": "drop_before", "writes_only": true}, {"kind": "drop_after", "writes_only": true},
		} {
			fault["provider"], fault["times"], fault["skip"] = provider, 1+random.IntN(2), random.IntN(10)
			m.control("POST", "/faults", fault)
		}
		if random.IntN(2) == 0 {
			m.control("POST", "/plugins/"+provider+"/kill", nil)
		}
	}
}

// takeoverTime is the time within which a worker takes over the jobs of a killed worker.
const takeoverTime = 90 * time.Second

// waitForRuns waits until every run has ended, and checks that all have completed. In a soak, each
// run that is still open after takeoverTime must have made progress since the last kill.
func (m *provisioningSandbox) waitForRuns() {
	m.t.Helper()
	lastKill, progressChecked := time.Now(), !soak.Enabled()
	for {
		openRuns := m.openRuns()
		if isOverdue := time.Since(lastKill) > takeoverTime; isOverdue && !progressChecked {
			progressChecked = true
			for _, run := range openRuns {
				if updatedAt, _ := time.Parse(time.RFC3339, run.text("updated_at")); updatedAt.Before(lastKill) {
					m.t.Errorf("nothing has happened for %s since the last kill: %v", takeoverTime, run)
				}
			}
		}
		if len(openRuns) == 0 {
			break
		}
		if time.Since(lastKill) > waitTimeout {
			m.t.Fatalf("after %s these runs are still open: %v", waitTimeout, openRuns)
		}
		<-time.After(500 * time.Millisecond)
	}
	m.t.Logf("all runs ended %s after the last kill", time.Since(lastKill).Round(time.Second))
	for _, d := range m.domains {
		if run := m.currentTenant(d).get("/v1/dns/provisioning-runs/" + d.run); run.valueAt("run.status") != "completed" {
			m.t.Errorf("%s: the run is not completed: %s", d.zone, run.raw)
		}
	}
}

func (m *provisioningSandbox) openRuns() (runs []object) {
	m.t.Helper()
	for i := 0; i < len(m.domains); i += domainsPerAccount {
		runs = append(runs, m.currentTenant(m.domains[i]).get("/v1/dns/provisioning-runs?active_only=true&limit=100").objects("runs")...)
	}
	return runs
}

// TestProvisioningSurvivesKills provisions domains while service and plugins are killed and the
// providers fail. All runs complete, and no record exists twice. These long subtests are not
// parallel. Otherwise they would start only after other parallel tests.
func TestProvisioningSurvivesKills(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		provisionDuringKills(t, &restartingSandbox{}, func() {})
	})
	t.Run("postgres", func(t *testing.T) {
		server, err := testserver.StartPostgres(t.Context())
		must(t, err)
		t.Cleanup(server.Stop)
		url := server.URL + "?synchronous_commit=on" // test servers turn it off, and then a crash loses commits
		provisionDuringKills(t, &restartingSandbox{flags: []string{"--database", url}}, func() {
			must(t, server.Crash(t.Context()))
		})
	})
}

// provisionDuringKills provisions domains while the service is killed twice, or 30 times in a soak.
// crash is called once, between the first two kills.
func provisionDuringKills(t *testing.T, server *restartingSandbox, crash func()) {
	size, kills := 10, 2
	if soak.Enabled() {
		size, kills = 200, 30
	}
	server.client, server.build, server.dataDir = client{t: t}, requirePrograms(t, releaseBuild), t.TempDir()
	server.start()
	fixture := newProvisioningSandbox(t, server, size)
	random := soak.Rand(t)
	fixture.startRuns()
	for kill := range kills {
		fixture.injectFaults(random)
		<-time.After(time.Second) // so that jobs run before the crash and the kill
		if kill == 1 {
			crash()
		}
		<-time.After(time.Second)
		fixture.killAndRestart()
	}
	fixture.control("DELETE", "/faults", nil)
	fixture.waitForRuns()
	for _, d := range fixture.domains {
		fixture.currentTenant(d).checkProvisioned(d.zone)
	}
}
