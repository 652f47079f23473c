// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

const (
	runMembers = "id status total_domains created_at started_at completed_at updated_at"
	jobMembers = "id run_id domain_id tenant_id domain_name stage status provider action_required_code message next_attempt_at"
)

// TestProvisioningIsSeen: what was begun is shown as begun, as a run and in the
// list, until it has ended; an ended job is not retried.
func TestProvisioningIsSeen(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).automatic().connected(nil)
	zone, id := h.hosted()
	begun := h.expect("POST", "/v1/domains/"+id+"/dns/provision", object{}, http.StatusAccepted, "")
	has(t, "the answer", begun.object, "domain_id run jobs")
	has(t, "run", begun.at("run"), runMembers)
	job := begun.objects("jobs")[0]
	has(t, "job", job, jobMembers)
	sees(t, begun.object, object{"domain_id": id, "run.status": "queued", "run.total_domains": 1, "run.started_at": nil, "run.completed_at": nil, "run.updated_at": nil})
	sees(t, job, object{"run_id": begun.at("run.id"), "domain_id": id, "tenant_id": h.guid, "domain_name": zone, "stage": "queued", "status": "queued",
		"provider": "cloudflare", "action_required_code": nil, "message": nil})

	run := fmt.Sprint(begun.at("run.id"))
	if bucket := begun.header.Get("X-RateLimit-Bucket"); bucket != "provider_heavy" {
		t.Errorf("provision counts in %q", bucket)
	}
	has(t, "a run", h.get("/v1/dns/provisioning-runs/"+run).object, "run jobs")
	list := h.get("/v1/dns/provisioning-runs")
	has(t, "the list", list.object, "runs count limit")
	sees(t, list.object, object{"count": 1, "limit": 20})
	sees(t, list.objects("runs")[0], object{"id": run, "total_domains": 1})

	ended := h.ends(run)
	sees(t, ended.object, object{"run.status": "completed"})
	if ended.at("run.started_at") == nil || ended.at("run.completed_at") == nil || ended.at("run.updated_at") == nil {
		t.Errorf("ended as %s", ended.raw)
	}
	sees(t, h.get("/v1/dns/provisioning-runs?active_only=true&limit=100").object, object{"count": 0, "limit": 100, "runs": "[]"})
	h.expect("POST", "/v1/dns/provisioning-jobs/"+job.text("id")+"/retry", nil, http.StatusConflict, "provisioning_job_not_retryable")
	h.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
	if again := h.get("/v1/dns/provisioning-runs?limit=1"); again.objects("runs")[0].text("id") == run {
		t.Error("the newest run is not the first")
	}
}

// TestAConflictThenARetry: a zone with somebody else's mail is refused with what
// is in the way; once it is settled the domain is provisioned, and a job that
// waits can be told to go on now.
func TestAConflictThenARetry(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).automatic().connected(nil)
	zone, id := h.hosted()
	h.control("PUT", "/zones/"+zone+"/records", []object{{"type": "MX", "name": zone, "content": "mail." + zone, "priority": 5, "ttl": 60}})
	refused := h.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusConflict, "dns_conflict")
	if conflicts := refused.objects("conflicts"); len(conflicts) != 1 {
		t.Fatalf("conflicts: %s", refused.raw)
	} else {
		has(t, "a conflict", conflicts[0], actionMembers)
		sees(t, conflicts[0], object{"action": "conflict", "record_type": "MX", "name": zone, "blocking": true})
	}
	sees(t, h.get("/v1/dns/provisioning-runs").object, object{"count": 0})
	h.control("PUT", "/zones/"+zone+"/records", []object{})
	begun := h.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
	retry := "/v1/dns/provisioning-jobs/" + begun.objects("jobs")[0].text("id") + "/retry"
	h.eventually("a retry of the job while it waits", func() bool {
		got := h.call("POST", retry, nil)
		if got.status == http.StatusOK {
			has(t, "the answer", got.object, "status job")
			has(t, "job", got.at("job"), jobMembers)
			sees(t, got.object, object{"status": "queued", "job.status": "queued", "job.message": nil})
		}
		return got.status == http.StatusOK
	})
	sees(t, h.ends(fmt.Sprint(begun.at("run.id"))).object, object{"run.status": "completed"})
	h.provisioned(zone)
}
