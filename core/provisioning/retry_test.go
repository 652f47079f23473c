// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
)

// stoppedJob returns a job that requires an action at the step to which the observations of path
// bring it.
func stoppedJob(t *testing.T, action dns.ActionRequired, path []string) Job {
	job, _ := DefaultRetryPolicy.BeginAttempt(afterObservations(t, newJob(), path...), start)
	job.Status, job.RequiredAction, job.Message, job.ZoneChanges, job.Attempt, job.Faults, job.Epoch = ActionRequired, action, "words", 2, 9, 3, 7
	job.OutageTime, job.OutageSince, job.UnreliableSince, job.VisibleSince, job.PublishedAt, job.NegativeTTL = time.Hour, start, start, start, start, time.Minute
	return job
}

func TestRetryResumesOrPlansAgain(t *testing.T) {
	retriedAt := start.Add(1000 * time.Hour)
	for _, tc := range []struct {
		action    dns.ActionRequired
		path      []string
		wantStage Stage
		wantNext  Step
	}{
		{dns.ConnectionRequired, nil, StagePlan, Plan},
		{dns.ProviderUnsupported, nil, StagePlan, Plan},
		{dns.ReadUnreliable, nil, StagePlan, Plan},
		{dns.ConnectionRequired, toApply, StagePlan, Plan},
		{dns.CredentialRejected, toApply, StagePlan, Plan},
		{ZoneChanged, toApply, StagePlan, Plan},
		{dns.ConflictToResolve, toApply, StagePlan, Plan},
		{PropagationTimeout, toApply, StagePlan, Plan},
		{PropagationTimeout, toRead, StagePropagation, ReadDNS},
		{dns.ConflictToResolve, toRead, StagePlan, Plan},
		{TenantAccessLost, toRead, StagePropagation, ReadDNS},
		{DomainUnavailable, toVerify, StageDomainVerification, Verify},
		{VerificationTimeout, toVerify, StageDomainVerification, Verify},
		{dns.ConflictToResolve, toVerify, StagePlan, Plan},
		{TenantAccessLost, toMail, StageDomainVerification, EnableMail},
		{VerificationTimeout, toMail, StageDomainVerification, EnableMail},
		{DKIMTimeout, toSigning, StageDKIMPublication, EnsureSigning},
		{dns.ConnectionRequired, toDKIMPlan, StageDKIMPublication, Plan},
		{DKIMTimeout, toDKIMApply, StageDKIMPublication, Plan},
		{ZoneChanged, toDKIMApply, StageDKIMPublication, Plan},
		{DKIMTimeout, toDKIMRead, StageDKIMPublication, ReadDNS},
		{DKIMTimeout, toEnable, StageDKIMEnablement, EnableDKIM},
		{dns.ConflictToResolve, toEnable, StageDKIMPublication, Plan},
		{TenantAccessLost, toValidate, StageHealth, Validate},
		{dns.ReadUnreliable, toValidate, StageHealth, Validate},
		{dns.ConflictToResolve, toValidate, StageHealth, Validate},
		{ZoneChanged, toValidate, StageHealth, Validate},
		{DKIMTimeout, toValidate, StageDKIMEnablement, EnableDKIM},
	} {
		before := stoppedJob(t, tc.action, tc.path)
		got, err := Retry(before, retriedAt)
		if err != nil || got.Stage != tc.wantStage || got.Next != tc.wantNext {
			t.Errorf("%s at %s: got %s, %q, %v; want %s, %q", tc.action, before.Next, got.Stage, got.Next, err, tc.wantStage, tc.wantNext)
		}
		if got.Status != Queued || got.RequiredAction != "" || got.Message != "" || got.Epoch != 8 || !got.NextAttemptAt.Equal(retriedAt) ||
			got.Progress != (Progress{StageSince: retriedAt, PublishedAt: start, NegativeTTL: time.Minute}) {
			t.Errorf("%s at %s: the retried job keeps earlier state: %+v", tc.action, before.Next, got)
		}
	}
}

// TestRetriedWaitingJobKeepsItsTimeLimit checks that a waiting job that is retried repeats its step
// at once. Its time limit does not start again.
func TestRetriedWaitingJobKeepsItsTimeLimit(t *testing.T) {
	retriedAt := start.Add(40 * time.Hour)
	before := afterObservations(t, newJob(), append(toRead[:2:2], "not shown", "not shown")...)
	got, err := Retry(before, retriedAt)
	if err != nil || got.Stage != StagePropagation || got.Next != ReadDNS || got.Status != Queued || got.Epoch != before.Epoch+1 {
		t.Fatalf("got %+v, %v; want a queued job at the same step", got, err)
	}
	if !got.StageSince.Equal(before.StageSince) || got.Attempt != 0 || !got.NextAttemptAt.Equal(retriedAt) || got.Message != "" || !got.UpdatedAt.Equal(retriedAt) {
		t.Fatalf("the time limit starts again, or the job is not due at once: %+v", got)
	}
}

func TestRetryRefusesJobsThatNeitherWaitNorRequireAnAction(t *testing.T) {
	for _, s := range []Status{Queued, Running, Completed, Failed} {
		job := newJob()
		job.Status = s
		if got, err := Retry(job, start); !errors.Is(err, fault.JobNotRetryable) || got != job {
			t.Errorf("%s: got %v, %+v; want provisioning_job_not_retryable and an unchanged job", s, err, got)
		}
	}
}
