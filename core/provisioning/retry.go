// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
)

// Retry queues a job for another attempt, which resumes where it stopped. One
// that a person has dealt with gets all its time again. Whoever claimed it
// before has lost it. Refusal: provisioning_job_not_retryable.
func Retry(j Job, now time.Time) (Job, error) {
	switch j.Status {
	case Waiting:
	case ActionRequired:
		j = resumed(j, now)
	default:
		return j, fault.JobNotRetryable.With("the job is %s", j.Status)
	}
	j.Status, j.Required, j.Message = Queued, "", ""
	j.NextAttemptAt, j.UpdatedAt, j.Attempt = now, now, 0
	j.Epoch++
	return j, nil
}

// resumed gives a job the step that its stop calls for: what a person settles
// in the DNS is planned anew.
func resumed(j Job, now time.Time) Job {
	stop := j.Required
	j.Progress = Progress{Since: now, PublishedAt: j.PublishedAt, NegativeTTL: j.NegativeTTL}
	switch {
	case j.Stage == StageHealth && stop == DKIMTimeout:
		j.Stage, j.Next = StageDKIMEnablement, EnableDKIM
	case j.Stage == StageHealth, !ofTheZone(stop) && j.Next != Apply:
	default:
		j.Stage, j.Next = j.Stage.planning(), Plan
	}
	return j
}

// ofTheZone reports whether a person settles it in the DNS or at its provider.
func ofTheZone(stop dns.ActionRequired) bool {
	switch stop {
	case PropagationTimeout, VerificationTimeout, DKIMTimeout, DomainUnavailable, TenantAccessLost:
		return false
	default:
		return true
	}
}

// planning is the stage in which a zone is planned anew.
func (s Stage) planning() Stage {
	switch s {
	case StagePlan, StageApply, StagePropagation, StageDomainVerification:
		return StagePlan
	default:
		return StageDKIMPublication
	}
}
