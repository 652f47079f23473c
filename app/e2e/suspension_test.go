// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// waitingRun is a provisioning run whose job waits for the mail platform.
type waitingRun struct {
	accountTenant
	zone, id string
}

// newWaitingRun starts the provisioning of a domain that Graph does not show until lagGraph changes
// that. It returns when the job waits.
func (h accountTenant) newWaitingRun() waitingRun {
	h.t.Helper()
	h.withDNSConnection()
	h.lagGraph(hiddenMS, "")
	zone, id := h.newHostedDomain()
	h.lagGraph(hiddenMS, "all")
	started := h.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
	run := waitingRun{h, zone, fmt.Sprint(started.at("run.id"))}
	h.eventually("the job waits for the domain", func() bool {
		job := h.get("/v1/dns/provisioning-runs/" + run.id).objects("jobs")[0]
		if job.text("status") == "failed" {
			h.t.Fatalf("the job failed: %s", job.text("message"))
		}
		return strings.Contains(job.text("message"), "does not show the domain")
	})
	return run
}

// expectCompleted waits until the run is completed.
func (r waitingRun) expectCompleted() {
	r.t.Helper()
	if job := r.waitForRun(r.id).objects("jobs")[0]; job.text("status") != "completed" {
		r.t.Errorf("the job ended %v", job)
	}
	r.checkProvisioned(r.zone)
}

// TestJobsOfASuspendedAccountWait suspends an account whose provisioning job waits for the mail
// platform, and restarts the service, which then runs all jobs that are due. When the platform is
// ready, the job of a different account completes. The job of the suspended account changes neither
// its zone nor its tenant, and no sending platform is read for the account. After the account is
// resumed, its jobs continue.
func TestJobsOfASuspendedAccountWait(t *testing.T) {
	t.Parallel()
	m := newRestartingSandbox(t, requirePrograms(t, releaseBuild), nil)
	refreshed := seededAccount(t, m.ready).newMailboxTenant("ada").addIntegration("instantly")
	suspended := refreshed.newWaitingRun()
	active := seededAccount(t, m.ready).newAccount(nil).newConnectedTenant(nil).newWaitingRun()
	restart := func() {
		m.killAndRestart()
		refreshed.client, suspended.client, active.client = m.client, m.client, m.client
	}
	operate := func(command string) {
		env := []string{"TENANTRY_DATA_DIR=" + m.data, "TENANTRY_OPERATOR=carol@desk"}
		runTenantry(t, env, "account", command, "--account", suspended.caller.id, "-o", "json").mustJSON(t)
	}
	isRefreshed := func() bool { return slices.Contains(m.operationsAt("instantly"), "accounts") }
	state := func() []string {
		return append(suspended.zoneTexts(suspended.zone), string(m.control("GET", "/tenants/"+suspended.guid, nil).raw))
	}

	operate("suspend")
	restart() // ends an attempt that has begun before the suspension
	for _, run := range []waitingRun{suspended, active} {
		run.lagGraph(0, "")
	}
	before := state()
	m.control("POST", "/clock", object{"advance": "16m"}) // both jobs are due: a pause has at most 15 minutes
	active.expectCompleted()
	suspended.expect("GET", "/v1/dns/provisioning-runs/"+suspended.id, nil, http.StatusPaymentRequired, "no_api_plan")
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("the job of the suspended account changed (-before +after):\n%s", diff)
	}
	if isRefreshed() {
		t.Error("the integration of the suspended account was refreshed")
	}

	operate("resume")
	restart()
	suspended.expectCompleted()
	m.eventually("a refresh", isRefreshed)
}
