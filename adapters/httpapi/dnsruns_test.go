// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
)

const (
	runs      = "/v1/dns/provisioning-runs"
	jobs      = "/v1/dns/provisioning-jobs/"
	nobodysID = "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55"
)

// TestProvisioningIsShown: the answer, the run and the list agree, to the byte
// where they say the same, and a replay is the answer.
func TestProvisioningIsShown(t *testing.T) {
	w, a, path := newProvisioning(t)
	once := call{method: "POST", path: path + "/provision", body: "{}", key: w.a.key, headers: map[string]string{"Idempotency-Key": "once"}}
	got := a.expect(once, 202, "")
	if got.header.Get("X-RateLimit-Bucket") != "provider_heavy" {
		t.Error(got.header)
	}
	run, job := got.body["run"].(map[string]any), got.body["jobs"].([]any)[0].(map[string]any)
	id := strings.Split(path, "/")[3]
	for name, want := range map[string]any{"run.status": "queued", "run.total_domains": 1.0, "run.started_at": nil, "run.completed_at": nil, "run.updated_at": nil, "domain_id": id} {
		if have := deep(got.body, name); have != want {
			t.Errorf("%s is %v, want %v", name, have, want)
		}
	}
	for name, want := range map[string]any{"run_id": run["id"], "domain_id": id, "tenant_id": string(w.a.tenant), "domain_name": planned, "stage": "queued",
		"status": "queued", "provider": "cloudflare", "action_required_code": nil, "message": nil, "next_attempt_at": run["created_at"]} {
		if job[name] != want {
			t.Errorf("%s is %v, want %v", name, job[name], want)
		}
	}
	detail := a.expect(call{method: "GET", path: runs + "/" + run["id"].(string), key: w.a.key}, 200, "")
	if said := strings.Replace(got.raw, `"domain_id":"`+id+`",`, "", 1); said != detail.raw {
		t.Errorf("provision said\n%s\nthe run says\n%s", got.raw, detail.raw)
	}
	list := a.expect(call{method: "GET", path: runs, key: w.a.key}, 200, "")
	if list.body["count"] != 1.0 || list.body["limit"] != 20.0 || deep(list.body["runs"].([]any)[0].(map[string]any), "id") != run["id"] || list.header.Get("X-RateLimit-Bucket") != "read" {
		t.Errorf("listed %s", list.raw)
	}
	again := a.expect(once, 202, "")
	if again.raw != got.raw || again.header.Get("Idempotency-Replayed") != "true" || w.woken.of(job["id"].(string)) != 1 {
		t.Errorf("replayed %s", again.raw)
	}
	if w.providers.Writes() != 0 {
		t.Error("a zone was written")
	}
}

// TestProvisioningRefusals: each refusal comes in its order: what would be
// refused by a later one as well is answered by the first.
func TestProvisioningRefusals(t *testing.T) {
	w := newWorld(t) // a plan without automatic DNS, a provider without a plugin
	a, path := w.domain(t)
	w.platform.DNS.Publish(planned, dns.Record{Type: dns.MX, Name: planned, Content: "mx.other.test", Preference: 10})
	provision := call{method: "POST", path: path + "/provision", key: w.a.key}
	refuses := func(status int, code string) reply {
		t.Helper()
		got := a.expect(provision, status, code)
		if list := a.expect(call{method: "GET", path: runs, key: w.a.key}, 200, ""); list.body["count"] != 0.0 {
			t.Errorf("%s: a run was begun", code)
		}
		return got
	}
	w.tenants(t, w.a, func(x *tenant.Tenant) { x.Consent = tenant.ConsentRevoked })
	for _, id := range []string{nobodysID, "x", "%2e"} {
		a.expect(call{method: "POST", path: "/v1/domains/" + id + "/dns/provision", key: w.a.key}, 404, "domain_not_found")
	}
	a.expect(call{method: "POST", path: path + "/provision", key: w.b.key}, 404, "domain_not_found")
	refuses(402, "dns_automation_not_in_plan")
	w.plan(t, w.a, "complete", 1)
	w.oneMore(t)
	refuses(402, "tenant_limit_reached")
	w.plan(t, w.a, "complete", 0)
	refuses(403, "access_denied")
	w.tenants(t, w.a, func(x *tenant.Tenant) { x.Consent = tenant.ConsentGranted })
	refuses(409, "dns_provider_unsupported")
	w.providers.Know(cloud)
	refuses(409, "dns_connection_required")
	at := w.connect(t, w.a, planned)
	at.Put(planned, dns.RRSet{Name: planned, Type: dns.MX, Values: []string{"10 mx.other.test"}})
	got := refuses(409, "dns_conflict")
	conflicts, _ := got.body["conflicts"].([]any)
	if len(conflicts) != 1 || !strings.Contains(got.raw, `"observed":["10 mx.other.test"]`) || conflicts[0].(map[string]any)["blocking"] != true {
		t.Errorf("conflicts %v", conflicts)
	}
	w.platform.DNS.Trouble("servers_disagree")
	if ready := w.get(a, path+"/automation"); deep(ready, "automation.action_required_code") != "dns_read_unreliable" {
		t.Errorf("got %v", ready)
	}
	w.provisions(a, path)
	a.expect(provision, 409, "domain_provisioning_already_active")
}

// TestRefusalsOfTheLiveDNSAreKept: the zone may be settled meanwhile, the same
// key tells the same; a new one looks again. What was refused without a look
// leaves its key free.
func TestRefusalsOfTheLiveDNSAreKept(t *testing.T) {
	w, a, path := newProvisioning(t)
	w.platform.DNS.Publish(planned, dns.Record{Type: dns.CNAME, Name: planned, Content: "web.other.test"})
	at := w.connect(t, w.a, planned)
	at.Put(planned, dns.RRSet{Name: planned, Type: dns.CNAME, Values: []string{"web.other.test"}})
	once := call{method: "POST", path: path + "/provision", key: w.a.key, headers: map[string]string{"Idempotency-Key": "conflict"}}
	first := a.expect(once, 409, "dns_conflict")
	w.platform.DNS.Publish(planned)
	w.connect(t, w.a, planned)
	if again := a.expect(once, 409, "dns_conflict"); again.raw != first.raw || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("not replayed: %s", again.raw)
	}
	_, job := w.provisions(a, path)
	once.headers = map[string]string{"Idempotency-Key": "active"}
	a.expect(once, 409, "domain_provisioning_already_active")
	w.brought(t, job, func(j *provisioning.Job) {
		j.Status, j.Stage, j.Next, j.EndedAt = provisioning.Completed, provisioning.StageDone, provisioning.None, time.Now()
	})
	if again := a.expect(once, 202, ""); again.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("replayed: %s", again.raw)
	}
}

// oneMore has the first account hold a tenant more.
func (w *world) oneMore(t *testing.T) {
	t.Helper()
	const guid = "cccccccc-0000-4000-8000-000000000003"
	w.platform.Connect(guid, fake.Setup{})
	_, err := w.store.Attach(t.Context(), w.a.account.ID, tenant.Tenant{GUID: guid, Name: "More", BuiltinDomain: "m.onmicrosoft.com",
		Consent: tenant.ConsentGranted, ConsentedAt: time.Now(), Bootstrap: tenant.BootstrapPending, SMTPAuth: tenant.SMTPAuthUnknown, Discovery: tenant.DiscoveryPending}, 2)
	if err != nil {
		t.Fatal(err)
	}
}

// TestRetry: a job that waits or was stopped is queued and woken, once for a
// key; the others are refused.
func TestRetry(t *testing.T) {
	w, a, path := newProvisioning(t)
	run, job := w.provisions(a, path)
	retry := call{method: "POST", path: jobs + job + "/retry", key: w.a.key}
	for _, id := range []string{nobodysID, "x", "%2e"} {
		a.expect(call{method: "POST", path: jobs + id + "/retry", key: w.a.key}, 404, "provisioning_job_not_found")
		a.expect(call{method: "GET", path: runs + "/" + id, key: w.a.key}, 404, "provisioning_run_not_found")
	}
	a.expect(call{method: "POST", path: jobs + job + "/retry", key: w.b.key}, 404, "provisioning_job_not_found")
	a.expect(call{method: "GET", path: runs + "/" + run, key: w.b.key}, 404, "provisioning_run_not_found")
	a.expect(retry, 409, "provisioning_job_not_retryable") // it is queued
	w.brought(t, job, func(j *provisioning.Job) {
		j.Status, j.Stage, j.Next, j.StartedAt = provisioning.ActionRequired, provisioning.StagePropagation, provisioning.ReadDNS, time.Now()
		j.Required, j.Message = provisioning.PropagationTimeout, "It was not seen."
	})
	stopped := a.expect(call{method: "GET", path: runs + "/" + run, key: w.a.key}, 200, "")
	if deep(stopped.body, "run.status") != "action_required" || !strings.Contains(stopped.raw, `"action_required_code":"propagation_timeout","message":"It was not seen."`) {
		t.Error(stopped.raw)
	}
	a.expect(call{method: "POST", path: path + "/provision", key: w.a.key}, 409, "domain_provisioning_already_active")
	w.plan(t, w.a, "api_starter", 0)
	a.expect(retry, 402, "dns_automation_not_in_plan")
	w.oneMore(t)
	w.plan(t, w.a, "complete", 1)
	a.expect(retry, 402, "tenant_limit_reached")
	w.plan(t, w.a, "complete", 0)
	once := retry
	once.headers = map[string]string{"Idempotency-Key": "again"}
	got := a.expect(once, 200, "")
	if got.body["status"] != "queued" || deep(got.body, "job.status") != "queued" || deep(got.body, "job.stage") != "dns_propagation" ||
		deep(got.body, "job.action_required_code") != nil || deep(got.body, "job.message") != nil || got.header.Get("X-RateLimit-Bucket") != "provider_heavy" {
		t.Error(got.raw)
	}
	if detail := a.expect(call{method: "GET", path: runs + "/" + run, key: w.a.key}, 200, ""); !strings.Contains(detail.raw, strings.TrimSuffix(strings.TrimPrefix(got.raw, `{"status":"queued","job":`), "}\n")) {
		t.Errorf("retry said\n%s\nthe run says\n%s", got.raw, detail.raw)
	}
	if again := a.expect(once, 200, ""); again.raw != got.raw || again.header.Get("Idempotency-Replayed") != "true" {
		t.Error(again.raw)
	}
	if n := w.woken.of(job); n != 2 { // by provision and by the one retry
		t.Errorf("woken %d times", n)
	}
	a.expect(retry, 409, "provisioning_job_not_retryable")
}

// TestListsOfRuns: newest first, at most as many as asked for, and no value
// that the document does not know.
func TestListsOfRuns(t *testing.T) {
	w, a, path := newProvisioning(t)
	domain := strings.Split(path, "/")[3]
	var ids []string
	for range 3 {
		run, job := w.provisions(a, path)
		w.brought(t, job, func(j *provisioning.Job) {
			j.Status, j.Next, j.StartedAt, j.EndedAt = provisioning.Failed, provisioning.None, time.Now(), time.Now()
		})
		ids = append([]string{run}, ids...)
	}
	active, _ := w.provisions(a, path)
	ids = append([]string{active}, ids...)
	lists := func(query string, limit int, want ...string) {
		t.Helper()
		got := a.expect(call{method: "GET", path: runs + query, key: w.a.key}, 200, "")
		var have []string
		for _, r := range got.body["runs"].([]any) {
			have = append(have, r.(map[string]any)["id"].(string))
		}
		if strings.Join(have, " ") != strings.Join(want, " ") || got.body["count"] != float64(len(want)) || got.body["limit"] != float64(limit) {
			t.Errorf("%s lists %s, want %v of domain %s", query, got.raw, want, domain)
		}
	}
	lists("", 20, ids...)
	lists("?limit=1", 1, ids[:1]...)
	lists("?limit=100&active_only=false", 100, ids...)
	lists("?active_only=true&unknown=x", 20, active)
	for _, query := range []string{"limit=0", "limit=101", "limit=-1", "limit=", "limit=x", "limit=1.0", "limit=01", "limit=%2B5", "limit=99999999999999999999", "limit=5&limit=5",
		"active_only=", "active_only=1", "active_only=True", "active_only=t", "active_only=null", "active_only=true&active_only=true"} {
		got := a.expect(call{method: "GET", path: runs + "?" + query, key: w.a.key}, 400, "invalid_request")
		if name, _, _ := strings.Cut(query, "="); !strings.Contains(got.raw, `"location":"query.`+name+`"`) {
			t.Errorf("%s: %s", query, got.raw)
		}
	}
	if got := a.expect(call{method: "GET", path: runs, key: w.b.key}, 200, ""); !strings.HasPrefix(got.raw, `{"runs":[],"count":0,"limit":20}`) {
		t.Errorf("another account's: %s", got.raw)
	}
}
