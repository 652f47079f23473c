// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	runsPath  = "/v1/dns/provisioning-runs"
	jobsPath  = "/v1/dns/provisioning-jobs/"
	unknownID = "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55" // no object has this id
	// extraTenant is a second tenant of account A.
	extraTenant = tenant.GUID("cccccccc-0000-4000-8000-000000000003")
)

// TestProvisionAnswerMatchesTheRun checks that the answer to provision has the values of the run,
// and that the list of runs has the run. A replay must have the same body as the answer.
func TestProvisionAnswerMatchesTheRun(t *testing.T) {
	env, client, path := newProvisioningEnv(t)
	provision := call{method: "POST", path: path + "/provision", body: "{}", key: env.accountA.key, headers: map[string]string{"Idempotency-Key": "once"}}
	got := client.expect(provision, 202, "")
	if got.header.Get("X-RateLimit-Bucket") != "provider_heavy" {
		t.Errorf("got the headers %v, want the bucket provider_heavy", got.header)
	}
	run, job := got.body["run"].(map[string]any), got.body["jobs"].([]any)[0].(map[string]any)
	domainID := domainIDOf(path)
	for name, want := range map[string]any{"run.status": "queued", "run.total_domains": 1.0, "run.started_at": nil, "run.completed_at": nil, "run.updated_at": nil, "domain_id": domainID} {
		if value := member(got.body, name); value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	for name, want := range map[string]any{"run_id": run["id"], "domain_id": domainID, "tenant_id": string(env.accountA.tenant), "domain_name": plannedDomain, "stage": "queued",
		"status": "queued", "provider": "cloudflare", "action_required_code": nil, "message": nil, "next_attempt_at": run["created_at"]} {
		if job[name] != want {
			t.Errorf("%s is %v, want %v", name, job[name], want)
		}
	}
	detail := client.expect(call{method: "GET", path: runsPath + "/" + run["id"].(string), key: env.accountA.key}, 200, "")
	// The answer to provision has one more member than the run: the id of the domain.
	if provisioned := strings.Replace(got.raw, `"domain_id":"`+domainID+`",`, "", 1); provisioned != detail.raw {
		t.Errorf("provision returned\n%s\nwant the run\n%s\nand the id of the domain", got.raw, detail.raw)
	}
	list := client.expect(call{method: "GET", path: runsPath, key: env.accountA.key}, 200, "")
	if list.body["count"] != 1.0 || list.body["limit"] != 20.0 || member(list.body["runs"].([]any)[0].(map[string]any), "id") != run["id"] || list.header.Get("X-RateLimit-Bucket") != "read" {
		t.Errorf("the list is %s, want only the run", list.raw)
	}
	repeated := client.expect(provision, 202, "")
	if repeated.raw != got.raw || repeated.header.Get("Idempotency-Replayed") != "true" || countWakeups(&env.queue, job["id"].(string)) != 1 {
		t.Errorf("the repetition is answered %s, want a replay of %s and one wake-up of the job", repeated.raw, got.raw)
	}
	if env.dnsProviders.Writes() != 0 {
		t.Errorf("the zones were written %d times, want 0", env.dnsProviders.Writes())
	}
}

// TestProvisioningRefusalsHaveAFixedOrder checks which refusal is returned when several reasons
// apply. It removes the reasons one after another.
func TestProvisioningRefusalsHaveAFixedOrder(t *testing.T) {
	env := newTestEnv(t) // the plan has no automatic DNS, and the provider has no plugin
	client, path := env.serveWithDomain(t)
	env.platform.DNS.Publish(plannedDomain, dns.Record{Type: dns.MX, Name: plannedDomain, Content: "mx.other.test", Preference: 10})
	provision := call{method: "POST", path: path + "/provision", key: env.accountA.key}
	expectRefusal := func(status int, code string) reply {
		t.Helper()
		got := client.expect(provision, status, code)
		if list := client.expect(call{method: "GET", path: runsPath, key: env.accountA.key}, 200, ""); list.body["count"] != 0.0 {
			t.Errorf("after the refusal %s, the list of runs is %s, want no runs", code, list.raw)
		}
		return got
	}
	env.updateTenant(t, env.accountA, func(stored *tenant.Tenant) { stored.Consent = tenant.ConsentRevoked })
	for _, id := range []string{unknownID, "x", "%2e"} {
		client.expect(call{method: "POST", path: "/v1/domains/" + id + "/dns/provision", key: env.accountA.key}, 404, "domain_not_found")
	}
	client.expect(call{method: "POST", path: path + "/provision", key: env.accountB.key}, 404, "domain_not_found")
	expectRefusal(402, "dns_automation_not_in_plan")
	env.attachTenant(t, env.accountA, extraTenant)
	env.changePlan(t, env.accountA, "complete", 1)
	expectRefusal(402, "tenant_limit_reached")
	env.changePlan(t, env.accountA, "complete", 0)
	expectRefusal(403, "access_denied")
	env.updateTenant(t, env.accountA, func(stored *tenant.Tenant) { stored.Consent = tenant.ConsentGranted })
	expectRefusal(409, "dns_provider_unsupported")
	env.dnsProviders.AddProvider(cloudflare)
	expectRefusal(409, "dns_connection_required")
	provider := env.connectDNS(t, env.accountA)
	provider.Put(plannedDomain, dns.RRSet{Name: plannedDomain, Type: dns.MX, Values: []string{"10 mx.other.test"}})
	got := expectRefusal(409, "dns_conflict")
	conflicts, _ := got.body["conflicts"].([]any)
	if len(conflicts) != 1 || !strings.Contains(got.raw, `"observed":["10 mx.other.test"]`) || conflicts[0].(map[string]any)["blocking"] != true {
		t.Errorf("the conflicts are %v, want one blocking MX", conflicts)
	}
	provider.Put(plannedDomain, dns.RRSet{Name: plannedDomain, Type: dns.MX})
	for _, conflicting := range []dns.RRSet{ // these conflicts are found although the domain is not verified yet
		{Name: plannedDomain, Type: dns.TXT, Values: []string{"v=spf1 mx -all", "v=spf1 a -all"}},
		{Name: "selector1._domainkey." + plannedDomain, Type: dns.CNAME, Values: []string{"s1.esp.test"}},
		{Name: "selector2._domainkey." + plannedDomain, Type: dns.TXT, Values: []string{"v=DKIM1; p=x"}},
	} {
		provider.Put(plannedDomain, conflicting)
		if got := expectRefusal(409, "dns_conflict"); !strings.Contains(got.raw, conflicting.Values[0]) {
			t.Errorf("got %s, want a conflict with %s", got.raw, conflicting.Values[0])
		}
		provider.Put(plannedDomain, dns.RRSet{Name: conflicting.Name, Type: conflicting.Type})
	}
	env.platform.DNS.FailReads("servers_disagree")
	if automation := env.get(client, path+"/automation"); member(automation, "automation.action_required_code") != "dns_read_unreliable" {
		t.Errorf("got %v, want the code dns_read_unreliable", automation)
	}
	env.startProvisioning(client, path) // an unreliable read is no reason for a refusal
	client.expect(provision, 409, "domain_provisioning_already_active")
}

// TestRefusalsAfterADNSReadAreReplayed checks that a refusal after a DNS read is replayed for its
// Idempotency-Key, even when the zone has changed. A request without the key reads the DNS again.
// After a refusal without a DNS read, the same key can be used again.
func TestRefusalsAfterADNSReadAreReplayed(t *testing.T) {
	env, client, path := newProvisioningEnv(t)
	env.platform.DNS.Publish(plannedDomain, dns.Record{Type: dns.CNAME, Name: plannedDomain, Content: "web.other.test"})
	provider := env.connectDNS(t, env.accountA)
	provider.Put(plannedDomain, dns.RRSet{Name: plannedDomain, Type: dns.CNAME, Values: []string{"web.other.test"}})
	provision := call{method: "POST", path: path + "/provision", key: env.accountA.key, headers: map[string]string{"Idempotency-Key": "conflict"}}
	refused := client.expect(provision, 409, "dns_conflict")
	env.platform.DNS.Publish(plannedDomain)
	env.connectDNS(t, env.accountA) // the zone of the new connection has no CNAME
	if repeated := client.expect(provision, 409, "dns_conflict"); repeated.raw != refused.raw || repeated.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the repetition got %s, want a replay of %s", repeated.raw, refused.raw)
	}
	_, job := env.startProvisioning(client, path)
	provision.headers = map[string]string{"Idempotency-Key": "active"}
	client.expect(provision, 409, "domain_provisioning_already_active")
	env.updateJob(t, job, func(j *provisioning.Job) {
		j.Status, j.Stage, j.Next, j.EndedAt = provisioning.Completed, provisioning.StageDone, provisioning.None, time.Now()
	})
	if repeated := client.expect(provision, 202, ""); repeated.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the refusal without a DNS read was replayed: %s", repeated.raw)
	}
}

// TestRetryQueuesAStoppedJob checks that a retry queues and wakes a stopped job once per
// Idempotency-Key. The retry of a queued job, or of a job of a different account, is refused.
func TestRetryQueuesAStoppedJob(t *testing.T) {
	env, client, path := newProvisioningEnv(t)
	run, job := env.startProvisioning(client, path)
	retry := call{method: "POST", path: jobsPath + job + "/retry", key: env.accountA.key}
	for _, id := range []string{unknownID, "x", "%2e"} {
		client.expect(call{method: "POST", path: jobsPath + id + "/retry", key: env.accountA.key}, 404, "provisioning_job_not_found")
		client.expect(call{method: "GET", path: runsPath + "/" + id, key: env.accountA.key}, 404, "provisioning_run_not_found")
	}
	client.expect(call{method: "POST", path: jobsPath + job + "/retry", key: env.accountB.key}, 404, "provisioning_job_not_found")
	client.expect(call{method: "GET", path: runsPath + "/" + run, key: env.accountB.key}, 404, "provisioning_run_not_found")
	client.expect(retry, 409, "provisioning_job_not_retryable") // the job is still queued
	env.updateJob(t, job, func(j *provisioning.Job) {
		j.Status, j.Stage, j.Next, j.StartedAt = provisioning.ActionRequired, provisioning.StagePropagation, provisioning.ReadDNS, time.Now()
		j.RequiredAction, j.Message = provisioning.PropagationTimeout, "It was not seen."
	})
	stopped := client.expect(call{method: "GET", path: runsPath + "/" + run, key: env.accountA.key}, 200, "")
	if member(stopped.body, "run.status") != "action_required" || !strings.Contains(stopped.raw, `"action_required_code":"propagation_timeout","message":"It was not seen."`) {
		t.Errorf("the run is %s, want action_required with propagation_timeout", stopped.raw)
	}
	client.expect(call{method: "POST", path: path + "/provision", key: env.accountA.key}, 409, "domain_provisioning_already_active")
	env.changePlan(t, env.accountA, "api_starter", 0)
	client.expect(retry, 402, "dns_automation_not_in_plan")
	env.attachTenant(t, env.accountA, extraTenant)
	env.changePlan(t, env.accountA, "complete", 1)
	client.expect(retry, 402, "tenant_limit_reached")
	env.changePlan(t, env.accountA, "complete", 0)
	keyedRetry := retry
	keyedRetry.headers = map[string]string{"Idempotency-Key": "again"}
	got := client.expect(keyedRetry, 200, "")
	if got.body["status"] != "queued" || member(got.body, "job.status") != "queued" || member(got.body, "job.stage") != "dns_propagation" ||
		member(got.body, "job.action_required_code") != nil || member(got.body, "job.message") != nil || got.header.Get("X-RateLimit-Bucket") != "provider_heavy" {
		t.Errorf("the retry got %s, want the queued job in dns_propagation, counted in provider_heavy", got.raw)
	}
	if detail := client.expect(call{method: "GET", path: runsPath + "/" + run, key: env.accountA.key}, 200, ""); !strings.Contains(detail.raw, strings.TrimSuffix(strings.TrimPrefix(got.raw, `{"status":"queued","job":`), "}\n")) {
		t.Errorf("retry returned\n%s\nwant a job of the run\n%s", got.raw, detail.raw)
	}
	if repeated := client.expect(keyedRetry, 200, ""); repeated.raw != got.raw || repeated.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the repeated retry got %s, want a replay", repeated.raw)
	}
	if n := countWakeups(&env.queue, job); n != 2 { // one wake-up by provision, one by the retry
		t.Errorf("the job was woken %d times, want 2", n)
	}
	client.expect(retry, 409, "provisioning_job_not_retryable")
}

func TestProvisioningRunsAreListedNewestFirst(t *testing.T) {
	env, client, path := newProvisioningEnv(t)
	var newestFirst []string
	for range 3 {
		run, job := env.startProvisioning(client, path)
		env.updateJob(t, job, func(j *provisioning.Job) {
			j.Status, j.Next, j.StartedAt, j.EndedAt = provisioning.Failed, provisioning.None, time.Now(), time.Now()
		})
		newestFirst = append([]string{run}, newestFirst...)
	}
	activeRun, _ := env.startProvisioning(client, path)
	newestFirst = append([]string{activeRun}, newestFirst...)
	expectList := func(query string, limit int, want ...string) {
		t.Helper()
		got := client.expect(call{method: "GET", path: runsPath + query, key: env.accountA.key}, 200, "")
		var listed []string
		for _, r := range got.body["runs"].([]any) {
			listed = append(listed, r.(map[string]any)["id"].(string))
		}
		if strings.Join(listed, " ") != strings.Join(want, " ") || got.body["count"] != float64(len(want)) || got.body["limit"] != float64(limit) {
			t.Errorf("the query %q lists %s, want %v with the limit %d", query, got.raw, want, limit)
		}
	}
	expectList("", 20, newestFirst...)
	expectList("?limit=1", 1, newestFirst[:1]...)
	expectList("?limit=100&active_only=false", 100, newestFirst...)
	expectList("?active_only=true&unknown=x", 20, activeRun)
	for _, query := range []string{"limit=0", "limit=101", "limit=-1", "limit=", "limit=x", "limit=1.0", "limit=01", "limit=%2B5", "limit=99999999999999999999", "limit=5&limit=5",
		"active_only=", "active_only=1", "active_only=True", "active_only=t", "active_only=null", "active_only=true&active_only=true"} {
		got := client.expect(call{method: "GET", path: runsPath + "?" + query, key: env.accountA.key}, 400, "invalid_request")
		if name, _, _ := strings.Cut(query, "="); !strings.Contains(got.raw, `"location":"query.`+name+`"`) {
			t.Errorf("the answer to the query %s does not name the parameter: %s", query, got.raw)
		}
	}
	if got := client.expect(call{method: "GET", path: runsPath, key: env.accountB.key}, 200, ""); !strings.HasPrefix(got.raw, `{"runs":[],"count":0,"limit":20}`) {
		t.Errorf("account B gets %s, want no runs", got.raw)
	}
}

// TestConcurrentProvisionsCreateOneJob sends 50 concurrent requests for one domain, each with its
// own Idempotency-Key. One request creates a job, and the other requests are refused.
func TestConcurrentProvisionsCreateOneJob(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "tenantry.db") },
		"postgres": testserver.Database,
	} {
		t.Run(name, func(t *testing.T) { provisionConcurrently(t, newTestEnvOn(t, database(t))) })
	}
}

func provisionConcurrently(t *testing.T, env *testEnv) {
	t.Helper()
	client, path := env.serveWithProvisionableDomain(t)
	var requests sync.WaitGroup
	statuses := make([]int, 50)
	for i := range statuses {
		requests.Go(func() {
			statuses[i] = client.doWhenNotBusy(call{method: "POST", path: path + "/provision", key: env.accountA.key}).status
		})
	}
	requests.Wait()
	countByStatus := map[int]int{}
	for _, status := range statuses {
		countByStatus[status]++
	}
	if countByStatus[202] != 1 || countByStatus[409] != 49 {
		t.Errorf("the numbers of answers by status are %v, want one 202 and 49 times 409", countByStatus)
	}
	list := client.expect(call{method: "GET", path: runsPath, key: env.accountA.key}, 200, "")
	if list.body["count"] != 1.0 || len(env.queue.All()) != 1 || env.queue.All()[0].Account != env.accountA.account.ID {
		t.Errorf("the runs are %s and the wake-ups are %v, want one run and one wake-up for account A", list.raw, env.queue.All())
	}
}

// TestProvisioningRunsOncePerKey checks that a request with a repeated Idempotency-Key queues no
// job, for both operations that queue jobs. It uses a trial API key.
func TestProvisioningRunsOncePerKey(t *testing.T) {
	for _, tc := range []struct {
		name       string
		wantStatus int
		// newPath returns the path of the operation from the path of the domain's DNS.
		newPath func(t *testing.T, env *testEnv, client *apiClient, path string) string
	}{
		{"provision", 202, func(_ *testing.T, _ *testEnv, _ *apiClient, path string) string { return path + "/provision" }},
		{"retry", 200, func(t *testing.T, env *testEnv, client *apiClient, path string) string {
			_, job := env.startProvisioning(client, path)
			env.updateJob(t, job, func(j *provisioning.Job) {
				j.Status, j.Stage, j.RequiredAction, j.Message = provisioning.ActionRequired, provisioning.StagePlan, dns.ReadUnreliable, "Nobody answers."
			})
			return jobsPath + job + "/retry"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env, client, path := newProvisioningEnv(t)
			request := call{method: "POST", path: tc.newPath(t, env, client, path), key: env.addTrialKey(t, env.accountA), headers: map[string]string{"Idempotency-Key": "one"}}
			foreignRequest := request
			foreignRequest.path, foreignRequest.key = "/v1/tenants/"+string(env.accountB.tenant)+"/sync", env.accountB.key
			client.expect(foreignRequest, 200, "") // a different account uses the same Idempotency-Key
			firstAnswer := client.expect(request, tc.wantStatus, "")
			wakeupsBefore := len(env.queue.All())
			if repeated := client.expect(request, tc.wantStatus, ""); repeated.raw != firstAnswer.raw || repeated.header.Get("Idempotency-Replayed") != "true" || repeated.header.Get("X-RateLimit-Bucket") != "read" {
				t.Errorf("got %v %s, want a replay of %s, counted in read", repeated.header, repeated.raw, firstAnswer.raw)
			}
			changedRequest := request
			changedRequest.path += "?x=1"
			client.expect(changedRequest, 409, "idempotency_key_conflict")
			rotated := client.expect(call{method: "POST", path: "/api-key/rotate?user_email=ann@a.example", key: request.key}, 200, "").body["api_key"].(string)
			client.expect(request, 401, "invalid_api_key")
			request.key = rotated
			if repeated := client.expect(request, tc.wantStatus, ""); repeated.raw != firstAnswer.raw {
				t.Errorf("the new API key gets %s, want the stored answer %s", repeated.raw, firstAnswer.raw)
			}
			env.deactivate(t, env.accountA)
			client.expect(request, 402, "no_api_plan")
			if list, err := env.store.Runs(t.Context(), env.accountA.account.ID, ports.RunQuery{Limit: 100}); err != nil || len(list) != 1 || len(env.queue.All()) != wakeupsBefore {
				t.Errorf("%d runs, want 1; %d wake-ups, want %d (%v)", len(list), len(env.queue.All()), wakeupsBefore, err)
			}
		})
	}
}
