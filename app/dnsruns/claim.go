// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/lease"
	"github.com/tenantry/tenantry/core/provisioning"
)

// claim is a job that this worker has leased.
type claim struct {
	*Worker
	lease       *lease.Lease
	job         provisioning.Job
	domains     *domainsteps.Steps // Worker.Domains with lease checks, see fencedSteps
	stopRenewal func()
	// plannedSurvey is the survey of the step Plan, until the step Apply uses it. writtenSurvey is
	// the survey after the write of the step Apply, until the step ReadDNS uses it.
	plannedSurvey, writtenSurvey *domainsteps.Survey
}

// startClaim renews the lease of a claimed job until stopRenewal is called. claimBegan is a time
// just before the job was claimed. The returned context ends when the lease is lost or cannot be
// renewed in time.
func (w *Worker) startClaim(ctx context.Context, j provisioning.Job, claimBegan time.Time) (context.Context, *claim) {
	c := &claim{Worker: w, job: j, lease: lease.New(claimBegan, leaseDuration, func(ctx context.Context, duration time.Duration) (bool, error) {
		return w.Jobs.RenewJobLease(ctx, j, duration) // the epoch of the claimed job identifies the lease
	})}
	c.domains = c.fencedSteps(w.Domains)
	ctx, c.stopRenewal = c.lease.RenewInBackground(ctx, func(error) {})
	return ctx, c
}
