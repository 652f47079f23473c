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

// newWaitingRun starts the provisioning of a domain while no read at Graph shows the domain. It
// returns when the job waits. lagGraph(0, "") makes Graph show the domain.
func (tenant accountTenant) newWaitingRun() waitingRun {
	tenant.t.Helper()
	tenant.withDNSConnection()
	tenant.lagGraph(endlessLagMS, "")
	zone, id := tenant.newHostedDomain()
	tenant.lagGraph(endlessLagMS, "all")
	started := tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
	run := waitingRun{tenant, zone, fmt.Sprint(started.valueAt("run.id"))}
	tenant.eventually("the job waits for the domain", func() bool {
		job := tenant.get("/v1/dns/provisioning-runs/" + run.id).objects("jobs")[0]
		if job.text("status") == "failed" {
			tenant.t.Fatalf("the job failed: %s", job.text("message"))
		}
		return strings.Contains(job.text("message"), "does not show the domain")
	})
	return run
}

// expectCompleted waits until the run has ended, and checks that it is completed and that the
// domain is provisioned.
func (r waitingRun) expectCompleted() {
	r.t.Helper()
	if job := r.waitForRun(r.id).objects("jobs")[0]; job.text("status") != "completed" {
		r.t.Errorf("the job ended as %v, want it completed", job)
	}
	r.checkProvisioned(r.zone)
}

// TestJobsOfASuspendedAccountWait suspends an account whose provisioning job waits for the mail
// platform, and restarts the service. When the platform is ready, the job of a different account
// completes. The job of the suspended account changes neither its zone nor its tenant, and the
// account's integration is not refreshed. After the account is resumed, its work continues.
func TestJobsOfASuspendedAccountWait(t *testing.T) {
	t.Parallel()
	server := newRestartingSandbox(t, requirePrograms(t, releaseBuild), nil)
	refreshed := seededAccount(t, server.ready).newMailboxTenant("ada").addIntegration("instantly")
	suspended := refreshed.newWaitingRun()
	active := seededAccount(t, server.ready).newAccount(nil).newConnectedTenant(nil).newWaitingRun()
	restart := func() {
		server.killAndRestart()
		refreshed.client, suspended.client, active.client = server.client, server.client, server.client
	}
	runAccountCommand := func(command string) {
		env := []string{"TENANTRY_DATA_DIR=" + server.dataDir, "TENANTRY_OPERATOR=carol@desk"}
		runTenantry(t, env, "account", command, "--account", suspended.caller.id, "-o", "json").mustJSON(t)
	}
	isRefreshed := func() bool { return slices.Contains(server.operationsAt("instantly"), "accounts") }
	zoneAndTenant := func() []string {
		return append(suspended.zoneTexts(suspended.zone), string(server.control("GET", "/tenants/"+suspended.guid, nil).raw))
	}

	runAccountCommand("suspend")
	restart() // ends an attempt of the suspended job that began before the suspension
	for _, run := range []waitingRun{suspended, active} {
		run.lagGraph(0, "")
	}
	restart() // ends an attempt that did not find the domain: seven hours later, it would fail the job
	before := zoneAndTenant()
	server.control("DELETE", "/calls", nil)
	// After seven hours both jobs are due. The integration is due too, even if it was refreshed
	// before the suspension.
	server.control("POST", "/clock", object{"advance": "7h"})
	active.expectCompleted()
	suspended.expect("GET", "/v1/dns/provisioning-runs/"+suspended.id, nil, http.StatusPaymentRequired, "no_api_plan")
	if diff := cmp.Diff(before, zoneAndTenant()); diff != "" {
		t.Errorf("the job of the suspended account changed (-before +after):\n%s", diff)
	}
	if isRefreshed() {
		t.Error("the integration of the suspended account was refreshed")
	}

	runAccountCommand("resume")
	restart()
	suspended.expectCompleted()
	server.eventually("the integration is refreshed", isRefreshed)
}
