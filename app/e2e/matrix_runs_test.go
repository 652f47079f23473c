// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
)

// provisioningOps queue jobs, which go on by themselves: what they do would be
// counted in the rows that come after. Their successes are shown where nobody
// works on jobs.
var provisioningOps = []string{"POST /v1/domains/{domain_id}/dns/provision", "POST /v1/dns/provisioning-jobs/{job_id}/retry"}

const queuedOnce = "TestProvisioningHappensOnce"

// apart is the test that shows a row's condition, "" when the matrix does.
func (row matrixRow) apart() string {
	queues := slices.Contains([]string{"legacy_entitlement_trial_key", "same_key_value_used_by_other_account", "replay_own_key",
		"same_key_other_fingerprint", "replay_with_lapsed_plan", "replay_with_rotated_key"}, row.condition)
	if queues && slices.Contains(provisioningOps, row.op.method+" "+row.op.path) {
		return queuedOnce
	}
	return elsewhere[row.condition]
}

// ran gives each of the owners a run whose job needs a person, so that nobody
// works on it.
func ran(t *testing.T, file string, all ...estate) {
	t.Helper()
	store, err := bunstore.Open(t.Context(), "sqlite://"+file, bunstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for i, e := range all {
		now := time.Now().UTC()
		run, job := ident.New(now, [ident.Entropy]byte{1, byte(i)}), ident.New(now, [ident.Entropy]byte{2, byte(i)})
		j := provisioning.New(job, run, access.AccountID(e.id), e.ids["domain_id"], tenant.GUID(e.guid), e.ids["domain_name"], now)
		j.Status, j.Required, j.Message = provisioning.ActionRequired, provisioning.DomainUnavailable, "It belongs to another tenant."
		r := provisioning.Run{ID: run, Account: j.Account, TotalDomains: 1, CreatedAt: now}
		if err := store.CreateRun(t.Context(), r, []provisioning.Job{j}); err != nil {
			t.Fatal(err)
		}
		e.ids["run_id"], e.ids["job_id"] = run, job
	}
}
