// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
)

// Retry queues a job for another attempt. A waiting job repeats its step. For a job that required
// an action, resetForRetry chooses the step and restarts the time limit. An earlier claim of the
// job becomes invalid. Retry fails with provisioning_job_not_retryable if the job is neither
// Waiting nor ActionRequired.
func Retry(j Job, now time.Time) (Job, error) {
	switch j.Status {
	case Waiting:
	case ActionRequired:
		j = resetForRetry(j, now)
	default:
		return j, fault.JobNotRetryable.With("the job is %s", j.Status)
	}
	j.Status, j.RequiredAction, j.Message = Queued, "", ""
	j.NextAttemptAt, j.UpdatedAt, j.Attempt = now, now, 0
	j.Epoch++
	return j, nil
}

// Stop ends an active job as failed, when an operator undoes the DNS changes of its run. An earlier
// claim of the job becomes invalid.
func Stop(j Job, now time.Time) Job {
	d := decision{Moment: Moment{Now: now}, Job: j}
	d.fail(messageUndone)
	d.RequiredAction, d.UpdatedAt = "", now
	d.Epoch++
	return d.Job
}

// resetForRetry returns a stopped job with new progress and the step at which to resume. In
// StageHealth the job resumes at EnableDKIM after a DKIMTimeout, otherwise at the final check. In
// any other stage, the zone is planned again if needsNewPlan returns true for the required action,
// or if the job stopped at Apply. Otherwise the job resumes at the step at which it stopped.
func resetForRetry(j Job, now time.Time) Job {
	required := j.RequiredAction
	j.Progress = Progress{StageSince: now, PublishedAt: j.PublishedAt, NegativeTTL: j.NegativeTTL}
	switch {
	case j.Stage == StageHealth && required == DKIMTimeout:
		j.Stage, j.Next = StageDKIMEnablement, EnableDKIM
	case j.Stage == StageHealth, !needsNewPlan(required) && j.Next != Apply:
	default:
		j.Stage, j.Next = j.Stage.planStage(), Plan
	}
	return j
}

// needsNewPlan reports whether the job must plan the zone again after a person has done the
// required action.
func needsNewPlan(required dns.ActionRequired) bool {
	switch required {
	case PropagationTimeout, VerificationTimeout, DKIMTimeout, DomainUnavailable, TenantAccessLost:
		return false
	default:
		return true
	}
}

// planStage returns the stage to which a job in stage s returns to plan its zone again.
func (s Stage) planStage() Stage {
	switch s {
	case StagePlan, StageApply, StagePropagation, StageDomainVerification:
		return StagePlan
	default:
		return StageDKIMPublication
	}
}
