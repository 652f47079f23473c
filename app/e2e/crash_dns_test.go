// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
)

// automaticDNS are the steps of an errand that has the rest of its domain's DNS
// done: the job finds the provider out of reach, is retried, and ends well.
func automaticDNS(e *errand) []step {
	var run, job string
	provision := func(e *errand) request {
		e.control("POST", "/faults", object{"provider": "cloudflare", "kind": "status", "status": 503, "times": 100_000})
		id := e.holding().get(e.api("/domains")).objects("domains")[0].text("id")
		return request{method: "POST", path: "/v1/domains/" + id + "/dns/provision"}
	}
	return []step{
		{name: "automatic DNS", ask: provision, after: func(e *errand, got reply) {
			run, job = fmt.Sprint(got.at("run.id")), got.objects("jobs")[0].text("id")
			e.seesRun(run, func(job object) bool { return job["status"] == "waiting" })
		}},
		{name: "retry", ask: func(*errand) request {
			// A job that is being attempted is not retryable; it waits again soon.
			return request{method: "POST", path: "/v1/dns/provisioning-jobs/" + job + "/retry", busy: "provisioning_job_not_retryable"}
		}, after: func(e *errand, got reply) {
			e.expect("retry", got.text("status"), "queued")
			e.control("DELETE", "/faults", nil)
			e.seesRun(run, func(job object) bool { return job["status"] == "completed" })
		}},
	}
}

// seesRun looks at a run, over deaths of its worker, until its job is as wanted.
func (e *errand) seesRun(run string, wanted func(job object) bool) {
	e.t.Helper()
	e.eventually("the job of run "+run, func() bool {
		return wanted(e.insist(request{method: "GET", path: "/v1/dns/provisioning-runs/" + run}).objects("jobs")[0])
	})
}
