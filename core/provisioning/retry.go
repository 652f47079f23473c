// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
)

// Retry queues a job for another attempt. The attempt resumes at the step where the job stopped, or
// plans the zone again; see resetForRetry. A job that required an action gets its full time limit
// again. A worker that has claimed the job loses its claim. Retry fails with
// provisioning_job_not_retryable if the job is neither Waiting nor ActionRequired.
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

// Stop ends an active job, because an operator undoes the DNS changes of its run. An earlier claim
// of the job becomes invalid.
func Stop(j Job, now time.Time) Job {
	d := decision{Moment: Moment{Now: now}, Job: j}
	d.fail(messageUndone)
	d.RequiredAction, d.UpdatedAt = "", now
	d.Epoch++
	return d.Job
}

// resetForRetry returns a stopped job with new progress and the step at which to resume. If the
// required action concerned the zone, or if the job stopped at Apply, the zone is planned again.
// Otherwise the job resumes at the step at which it stopped. A job in StageHealth is not planned
// again. After a DKIMTimeout it resumes at EnableDKIM, otherwise at the final check.
func resetForRetry(j Job, now time.Time) Job {
	required := j.RequiredAction
	j.Progress = Progress{StageSince: now, PublishedAt: j.PublishedAt, NegativeTTL: j.NegativeTTL}
	switch {
	case j.Stage == StageHealth && required == DKIMTimeout:
		j.Stage, j.Next = StageDKIMEnablement, EnableDKIM
	case j.Stage == StageHealth, !isZoneProblem(required) && j.Next != Apply:
	default:
		j.Stage, j.Next = j.Stage.planStage(), Plan
	}
	return j
}

// isZoneProblem reports whether the required action changes the DNS or the connection to the DNS
// provider.
func isZoneProblem(required dns.ActionRequired) bool {
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
