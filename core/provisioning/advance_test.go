// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// advanceCase is a test case of Advance: a job, one observation, and the expected job after it.
type advanceCase struct {
	name        string
	path        []string                      // the observations that brought the job to its step
	history     func(job *Job, now time.Time) // changes the job before the observation; may be nil
	observation string
	stage       Stage
	status      Status
	next        Step
	action      dns.ActionRequired
	pause       time.Duration // the pause of a job that waits
}

func (c advanceCase) run(t *testing.T) {
	job := afterObservations(t, newJob(), c.path...)
	now := job.NextAttemptAt.Add(time.Minute)
	job, _ = DefaultRetryPolicy.BeginAttempt(job, now)
	if c.history != nil {
		c.history(&job, now)
	}
	got, step := DefaultRetryPolicy.Advance(job, observationNamed(t, c.observation), at(now))
	if got.Stage != c.stage || got.Status != c.status || got.Next != c.next || got.RequiredAction != c.action {
		t.Fatalf("got %s, %s, next %q, action %q; want %s, %s, %q, %q", got.Stage, got.Status, got.Next, got.RequiredAction, c.stage, c.status, c.next, c.action)
	}
	want := map[Status]Step{Running: c.next, Waiting: Wait}[c.status]
	if step != want {
		t.Errorf("the step is %q, want %q", step, want)
	}
	if c.status == Waiting && !got.NextAttemptAt.Equal(now.Add(c.pause)) {
		t.Errorf("the job waits %s, want %s", got.NextAttemptAt.Sub(now), c.pause)
	}
	if c.status == Running && (got.Message != "" || !got.NextAttemptAt.Equal(now)) {
		t.Errorf("the job runs with the message %q at %s, want no message at %s", got.Message, got.NextAttemptAt, now)
	}
	if c.status != Running && c.status != Completed && got.Message == "" {
		t.Error("the job has no message")
	}
	if ended := c.status == Completed || c.status == Failed; ended != got.EndedAt.Equal(now) {
		t.Errorf("EndedAt is %s, want ended at %s: %t", got.EndedAt, now, ended)
	}
	if !got.UpdatedAt.Equal(now) {
		t.Errorf("UpdatedAt is %s, want %s", got.UpdatedAt, now)
	}
}

// firstPause is the first pause of DefaultRetryPolicy.
const firstPause = 15 * time.Second

func overdue(job *Job, now time.Time) { job.StageSince = now.Add(-48 * time.Hour) }

func almostOverdue(job *Job, now time.Time) { job.StageSince = now.Add(-48*time.Hour + time.Second) }

func zoneChangedOnce(job *Job, _ time.Time) { job.ZoneChanges = 1 }

func zoneChangedTwice(job *Job, _ time.Time) { job.ZoneChanges = 2 }

func unreliableForHour(job *Job, now time.Time) { job.UnreliableSince = now.Add(-time.Hour) }

func unreliableForAlmostHour(job *Job, now time.Time) {
	job.UnreliableSince = now.Add(-time.Hour + time.Second)
}

func missingFor15Minutes(job *Job, now time.Time) { job.MissingSince = now.Add(-15 * time.Minute) }

func missingForAlmost15Minutes(job *Job, now time.Time) {
	job.MissingSince = now.Add(-15*time.Minute + time.Second)
}

func visibleFor10s(job *Job, now time.Time) { job.VisibleSince = now.Add(-10 * time.Second) }

func visibleFor4s(job *Job, now time.Time) { job.VisibleSince = now.Add(-4 * time.Second) }

func visibleSinceFuture(job *Job, now time.Time) { job.VisibleSince = now.Add(time.Hour) } // the clock stepped back

func unreliableInFuture(job *Job, now time.Time) { job.UnreliableSince = now.Add(time.Hour) }

func nineteenFaults(job *Job, _ time.Time) { job.Faults = 19 + 1 } // BeginAttempt counts the current attempt

func publishedAgo(ago, negativeTTL time.Duration) func(*Job, time.Time) {
	return func(job *Job, now time.Time) { job.PublishedAt, job.NegativeTTL = now.Add(-ago), negativeTTL }
}

func TestAdvanceDecidesOnEachObservation(t *testing.T) {
	for _, tc := range []advanceCase{
		{name: "a plan without problems is written", observation: "changes", stage: StageApply, status: Running, next: Apply},
		{name: "a plan without changes skips the write", observation: "unchanged", stage: StagePropagation, status: Running, next: ReadDNS},
		{name: "a plan with a conflict", observation: "conflict", stage: StagePlan, status: ActionRequired, next: Plan, action: dns.ConflictToResolve},
		{name: "a plan with a conflict, without a message", observation: "conflict without message", stage: StagePlan, status: ActionRequired, next: Plan, action: dns.ConflictToResolve},
		{name: "a conflict in an unreliable read", observation: "conflict in unreliable read", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "records that were published by hand", observation: "published by hand", stage: StagePropagation, status: Running, next: ReadDNS},
		{name: "no connection", observation: "no connection", stage: StagePlan, status: ActionRequired, next: Plan, action: dns.ConnectionRequired},
		{name: "an unsupported provider", observation: "provider unsupported", stage: StagePlan, status: ActionRequired, next: Plan, action: dns.ProviderUnsupported},
		{name: "a rejected credential", observation: "credential rejected", stage: StagePlan, status: ActionRequired, next: Plan, action: dns.CredentialRejected},
		{name: "an unreliable read waits", observation: "unreliable", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a provider whose plugin does not run", observation: "provider undescribed", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a plugin that does not run for an hour", history: unreliableForHour, observation: "provider undescribed", stage: StagePlan, status: ActionRequired, next: Plan, action: dns.ReadUnreliable},
		{name: "a missing read waits", observation: "no read", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "almost an hour of unreliable reads", history: unreliableForAlmostHour, observation: "unreliable", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "an hour of unreliable reads", history: unreliableForHour, observation: "unreliable", stage: StagePlan, status: ActionRequired, next: Plan, action: dns.ReadUnreliable},
		{name: "unreliable since a time in the future, by clock skew", history: unreliableInFuture, observation: "unreliable", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},

		{name: "a job whose plan is written continues", path: toApply, observation: "plan written", stage: StagePropagation, status: Running, next: ReadDNS},
		{name: "a job with nothing left to write continues", path: toApply, observation: "unchanged", stage: StagePropagation, status: Running, next: ReadDNS},
		{name: "a different plan makes the job plan again", path: toApply, observation: "other changes", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a zone that changed during the write is planned again", path: toApply, observation: "zone changed during write", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a zone that changed the second time", path: toApply, history: zoneChangedOnce, observation: "zone changed during write", stage: StagePlan, status: Waiting, next: Plan, pause: 2 * firstPause},
		{name: "a zone that changed three times", path: toApply, history: zoneChangedTwice, observation: "zone changed during write", stage: StageApply, status: ActionRequired, next: Apply, action: ZoneChanged},
		{name: "a different plan three times", path: toApply, history: zoneChangedTwice, observation: "other changes", stage: StageApply, status: ActionRequired, next: Apply, action: ZoneChanged},
		{name: "a new plan with a conflict", path: toApply, observation: "conflict", stage: StageApply, status: ActionRequired, next: Apply, action: dns.ConflictToResolve},
		{name: "a zone that the credential does not reach", path: toApply, observation: "no zone", stage: StageApply, status: ActionRequired, next: Apply, action: dns.ConnectionRequired},
		{name: "a credential that was withdrawn", path: toApply, observation: "credential rejected at write", stage: StageApply, status: ActionRequired, next: Apply, action: dns.CredentialRejected},
		{name: "a write with an unknown outcome is repeated", path: toApply, observation: "write with unknown outcome", stage: StageApply, status: Waiting, next: Apply, pause: firstPause},
		{name: "a throttled write waits as long as demanded", path: toApply, observation: "write throttled", stage: StageApply, status: Waiting, next: Apply, pause: time.Minute},
		{name: "a refused write", path: toApply, observation: "write refused", stage: StageApply, status: Failed},
		{name: "an unreliable read before the write", path: toApply, observation: "unreliable", stage: StageApply, status: Waiting, next: Apply, pause: firstPause},
		{name: "a write without an answer for 48 h", path: toApply, history: overdue, observation: "write with unknown outcome", stage: StageApply, status: ActionRequired, next: Apply, action: PropagationTimeout},
		{name: "WriteErr matters only after Apply", observation: "write refused", stage: StageApply, status: Running, next: Apply},

		{name: "one read with the records is not enough", path: toRead, observation: "unchanged and shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: 10 * time.Second},
		{name: "two reads within 10 s are not enough", path: toRead, history: visibleFor4s, observation: "unchanged and shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: 6 * time.Second},
		{name: "two reads 10 s apart are enough", path: toRead, history: visibleFor10s, observation: "unchanged and shown", stage: StageDomainVerification, status: Running, next: Verify},
		{name: "a first read in the future does not count", path: toRead, history: visibleSinceFuture, observation: "unchanged and shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: 10 * time.Second},
		{name: "records that are not shown", path: toRead, observation: "not shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: firstPause},
		{name: "records that are not shown for almost 48 h", path: toRead, history: almostOverdue, observation: "not shown", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: firstPause},
		{name: "records that are not shown for 48 h", path: toRead, history: overdue, observation: "not shown", stage: StagePropagation, status: ActionRequired, next: ReadDNS, action: PropagationTimeout},
		{name: "the records were removed again", path: toRead, observation: "changes", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a conflict in an unreliable read after the write", path: toRead, observation: "conflict in unreliable read", stage: StagePropagation, status: Waiting, next: ReadDNS, pause: firstPause},
		{name: "a conflict after the write", path: toRead, observation: "conflict", stage: StagePropagation, status: ActionRequired, next: ReadDNS, action: dns.ConflictToResolve},

		{name: "a verified domain", path: toVerify, observation: "platform ready", stage: StageDomainVerification, status: Running, next: EnableMail},
		{name: "a domain that is not verified", path: toVerify, history: publishedAgo(time.Hour, time.Minute), observation: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: firstPause},
		{name: "not verified so soon after the publication", path: toVerify, observation: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: 29 * time.Minute},
		{name: "negative answers are cached for an hour from the publication", path: toVerify, history: publishedAgo(40*time.Minute, 24*time.Hour), observation: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: 20 * time.Minute},
		{name: "not verified while negative answers are cached", path: toVerify, history: publishedAgo(time.Minute, 30*time.Minute), observation: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: 29 * time.Minute},
		{name: "negative answers count for an hour at most", path: toVerify, history: publishedAgo(0, 24*time.Hour), observation: "not verified", stage: StageDomainVerification, status: Waiting, next: Verify, pause: time.Hour},
		{name: "not verified for 48 h", path: toVerify, history: overdue, observation: "not verified", stage: StageDomainVerification, status: ActionRequired, next: Verify, action: VerificationTimeout},
		{name: "not verified because the record is gone", path: toVerify, observation: "not verified, records removed", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a conflict during the verification", path: toVerify, observation: "conflict", stage: StageDomainVerification, status: ActionRequired, next: Verify, action: dns.ConflictToResolve},
		{name: "the domain of a different tenant", path: toVerify, observation: "domain taken", stage: StageDomainVerification, status: ActionRequired, next: Verify, action: DomainUnavailable},
		{name: "the consent was withdrawn", path: toVerify, observation: "access denied", stage: StageDomainVerification, status: ActionRequired, next: Verify, action: TenantAccessLost},
		{name: "the tenant is gone", path: toVerify, observation: "tenant gone", stage: StageDomainVerification, status: Failed},
		{name: "the domain is missing", path: toVerify, observation: "domain missing", stage: StageDomainVerification, status: Waiting, next: Verify, pause: firstPause},
		{name: "the domain is missing for almost 15 min", path: toVerify, history: missingForAlmost15Minutes, observation: "domain missing", stage: StageDomainVerification, status: Waiting, next: Verify, pause: firstPause},
		{name: "the domain is missing for 15 min", path: toVerify, history: missingFor15Minutes, observation: "domain missing", stage: StageDomainVerification, status: Failed},
		{name: "the e-mail service is ready", path: toMail, observation: "platform ready", stage: StageDKIMPublication, status: Running, next: EnsureSigning},
		{name: "the e-mail service is not ready", path: toMail, history: publishedAgo(0, time.Hour), observation: "no read", stage: StageDomainVerification, status: Waiting, next: EnableMail, pause: firstPause},
		{name: "the e-mail service is not ready in 48 h", path: toMail, history: overdue, observation: "platform not ready", stage: StageDomainVerification, status: ActionRequired, next: EnableMail, action: VerificationTimeout},

		{name: "the DKIM records are specified", path: toSigning, observation: "platform ready", stage: StageDKIMPublication, status: Running, next: Plan},
		{name: "the DKIM records are not specified in 48 h", path: toSigning, history: overdue, observation: "platform not ready", stage: StageDKIMPublication, status: ActionRequired, next: EnsureSigning, action: DKIMTimeout},
		{name: "a plan of the DKIM records", path: toDKIMPlan, observation: "changes", stage: StageDKIMPublication, status: Running, next: Apply},
		{name: "a plan of the DKIM records without a connection", path: toDKIMPlan, observation: "no connection", stage: StageDKIMPublication, status: ActionRequired, next: Plan, action: dns.ConnectionRequired},
		{name: "a plan of the DKIM records without changes", path: toDKIMPlan, observation: "unchanged", stage: StageDKIMPublication, status: Running, next: ReadDNS},
		{name: "the DKIM records are written", path: toDKIMApply, observation: "plan written", stage: StageDKIMPublication, status: Running, next: ReadDNS},
		{name: "the zone changed during the write of the DKIM records", path: toDKIMApply, observation: "zone changed during write", stage: StageDKIMPublication, status: Waiting, next: Plan, pause: firstPause},
		{name: "the DKIM records are shown", path: toDKIMRead, history: visibleFor10s, observation: "unchanged and shown", stage: StageDKIMEnablement, status: Running, next: EnableDKIM},
		{name: "the DKIM records are not shown in 48 h", path: toDKIMRead, history: overdue, observation: "not shown", stage: StageDKIMPublication, status: ActionRequired, next: ReadDNS, action: DKIMTimeout},
		{name: "the platform signs", path: toEnable, observation: "platform ready", stage: StageHealth, status: Running, next: Validate},
		{name: "the platform does not sign while negative answers are cached", path: toEnable, history: publishedAgo(time.Minute, 11*time.Minute), observation: "platform not ready", stage: StageDKIMEnablement, status: Waiting, next: EnableDKIM, pause: 10 * time.Minute},
		{name: "the platform does not sign because the records are gone", path: toEnable, observation: "changes", stage: StageDKIMPublication, status: Waiting, next: Plan, pause: firstPause},
		{name: "the platform does not sign in 48 h", path: toEnable, history: overdue, observation: "platform not ready", stage: StageDKIMEnablement, status: ActionRequired, next: EnableDKIM, action: DKIMTimeout},

		{name: "a healthy domain", path: toValidate, observation: "unchanged and ready", stage: StageDone, status: Completed},
		{name: "a healthy domain that the platform does not sign", path: toValidate, observation: "unchanged", stage: StageHealth, status: Waiting, next: Validate, pause: firstPause},
		{name: "a plan that is not complete", path: toValidate, observation: "incomplete and ready", stage: StageHealth, status: Waiting, next: Validate, pause: firstPause},
		{name: "a plan that is not complete in 48 h", path: toValidate, history: overdue, observation: "incomplete and ready", stage: StageHealth, status: ActionRequired, next: Validate, action: DKIMTimeout},
		{name: "a record is missing", path: toValidate, observation: "not shown", stage: StageDKIMPublication, status: Waiting, next: Plan, pause: firstPause},
		{name: "a record is missing the third time", path: toValidate, history: zoneChangedTwice, observation: "changes", stage: StageHealth, status: ActionRequired, next: Validate, action: ZoneChanged},
		{name: "a conflict at the end", path: toValidate, observation: "conflict", stage: StageHealth, status: ActionRequired, next: Validate, action: dns.ConflictToResolve},
		{name: "the last read is not reliable", path: toValidate, observation: "unreliable", stage: StageHealth, status: Waiting, next: Validate, pause: firstPause},
		{name: "the last reads are not reliable for an hour", path: toValidate, history: unreliableForHour, observation: "unreliable", stage: StageHealth, status: ActionRequired, next: Validate, action: dns.ReadUnreliable},

		{name: "a throttled call", observation: "throttled", stage: StagePlan, status: Waiting, next: Plan, pause: 5 * time.Minute},
		{name: "a provider that is down", observation: "down", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a provider that is down and demands a long wait", observation: "down for long", stage: StagePlan, status: Waiting, next: Plan, pause: time.Hour},
		{name: "the database is unavailable", observation: "database unavailable", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a broken answer", observation: "broken", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a refused call", observation: "refused", stage: StagePlan, status: Failed},
		{name: "a call that is refused without a known reason", observation: "refused without reason", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "a call that is refused twenty times in a row without a known reason", history: nineteenFaults, observation: "refused without reason", stage: StagePlan, status: Failed},
		{name: "an internal fault", observation: "internal fault", stage: StagePlan, status: Waiting, next: Plan, pause: firstPause},
		{name: "the twentieth internal fault in a row", history: nineteenFaults, observation: "internal fault", stage: StagePlan, status: Failed},
		{name: "the clock was set back by days", path: toRead, history: func(job *Job, now time.Time) { job.StageSince = now.Add(99 * time.Hour) }, observation: "not shown",
			stage: StagePropagation, status: Waiting, next: ReadDNS, pause: firstPause},
	} {
		t.Run(tc.name, tc.run)
	}
}

func TestAHealthyJobCompletes(t *testing.T) {
	job := afterObservations(t, newJob(), toCompleted...)
	if job.Status != Completed || job.Stage != StageDone || job.Provider != "powerdns" || job.StartedAt.IsZero() || job.EndedAt.IsZero() || job.RequiredAction != "" {
		t.Fatalf("got %+v, want a completed job of the provider powerdns", job)
	}
}

func TestPausesGrowUpToALimit(t *testing.T) {
	job := afterObservations(t, newJob(), toRead...)
	var pauses []time.Duration
	for range 9 {
		now := job.NextAttemptAt
		job, _ = DefaultRetryPolicy.BeginAttempt(job, now)
		job, _ = DefaultRetryPolicy.Advance(job, observationNamed(t, "not shown"), at(now))
		pauses = append(pauses, job.NextAttemptAt.Sub(now)/time.Second)
	}
	for i, want := range []time.Duration{15, 30, 60, 120, 240, 480, 900, 900, 900} {
		if pauses[i] != want {
			t.Fatalf("the pauses are %d, want %d at the index %d", pauses, want, i)
		}
	}
	if d := DefaultRetryPolicy.pause(3, 0.5); d != 108*time.Second {
		t.Errorf("the fourth pause with the chance 0.5 is %s, want 108 s", d)
	}
}

// TestUnavailableTimeDoesNotCount checks that the time limit of a stage does not count the time
// during which a provider was unavailable. At most StageLimit is left out.
func TestUnavailableTimeDoesNotCount(t *testing.T) {
	jobWithOutage := func(hours int) Job {
		job := afterObservations(t, newJob(), toRead...)
		job, _ = DefaultRetryPolicy.BeginAttempt(job, job.NextAttemptAt)
		since := job.StageSince
		for h := range hours {
			job.Status = Running
			job, _ = DefaultRetryPolicy.Advance(job, Observation{Err: providerError(outcome.Throttled, time.Hour)}, at(since.Add(time.Duration(h)*time.Hour)))
			if job.Status != Waiting {
				t.Fatalf("after %d h: the job is %s, want %s", h, job.Status, Waiting)
			}
		}
		job.Status = Running
		return job
	}
	job := jobWithOutage(40)
	// The outage of 40 h does not count, so StageLimit, which is 48 h, ends after 88 h.
	for hours, want := range map[int]Status{87: Waiting, 88: ActionRequired} {
		answered, _ := DefaultRetryPolicy.Advance(job, observationNamed(t, "not shown"), at(job.StageSince.Add(40*time.Hour)))
		answered.Status = Running
		got, _ := DefaultRetryPolicy.Advance(answered, observationNamed(t, "not shown"), at(job.StageSince.Add(time.Duration(hours)*time.Hour)))
		if got.Status != want {
			t.Errorf("at %d h: the job is %s, want %s", hours, got.Status, want)
		}
	}
	job = jobWithOutage(95)
	got, _ := DefaultRetryPolicy.Advance(job, observationNamed(t, "down"), at(job.StageSince.Add(96*time.Hour)))
	if got.RequiredAction != PropagationTimeout || !strings.Contains(got.Message, suffixUnavailableAtEnd) {
		t.Errorf("after 96 h: got %q, %q; want %s and a message about the provider", got.RequiredAction, got.Message, PropagationTimeout)
	}
}

func TestAnswerResetsFaults(t *testing.T) {
	job, _ := DefaultRetryPolicy.BeginAttempt(newJob(), start)
	job.Faults = 19
	job, _ = DefaultRetryPolicy.Advance(job, observationNamed(t, "unreliable"), at(start))
	job.Status = Running
	if job, _ = DefaultRetryPolicy.Advance(job, observationNamed(t, "internal fault"), at(start)); job.Status != Waiting || job.Faults != 1 {
		t.Fatalf("the job is %s with %d faults, want %s with 1", job.Status, job.Faults, Waiting)
	}
}

// TestJobThatKillsItsWorkersFails claims a job again and again without an observation, as if each
// worker crashed.
func TestJobThatKillsItsWorkersFails(t *testing.T) {
	job := afterObservations(t, newJob(), toApply...)
	for range 20 {
		if job, _ = DefaultRetryPolicy.BeginAttempt(job, start); job.Status != Running {
			t.Fatalf("the job is %s, want %s: %s", job.Status, Running, job.Message)
		}
	}
	if advanced, _ := DefaultRetryPolicy.Advance(job, observationNamed(t, "unchanged"), at(start)); advanced.Faults != 0 {
		t.Errorf("after a step that succeeded: got %d faults, want 0", advanced.Faults)
	}
	ended, step := DefaultRetryPolicy.BeginAttempt(job, start)
	if ended.Status != Failed || step != None || ended.Message != messageFaults || !ended.EndedAt.Equal(start) {
		t.Errorf("after 20 attempts that ended with their worker: got %q, %+v; want a failed job", step, ended)
	}
}

// TestReadResetsProgress checks that a reliable read resets UnreliableSince, and that a read
// without the records resets VisibleSince.
func TestReadResetsProgress(t *testing.T) {
	job := afterObservations(t, newJob(), toApply...)
	job, _ = DefaultRetryPolicy.BeginAttempt(job, start)
	job.UnreliableSince = start.Add(-59 * time.Minute)
	if got, _ := DefaultRetryPolicy.Advance(job, Observation{Zone: zoneWithChanges, Ready: true}, at(start)); !got.UnreliableSince.IsZero() {
		t.Errorf("after a reliable read in the step Apply: UnreliableSince is %s, want the zero time", got.UnreliableSince)
	}
	job = afterObservations(t, newJob(), append(toRead[:2:2], "unchanged and shown", "not shown")...)
	if !job.VisibleSince.IsZero() {
		t.Errorf("VisibleSince is %s after a read without the records, want the zero time", job.VisibleSince)
	}
	if job = afterObservations(t, job, "unchanged and shown"); job.Stage != StagePropagation {
		t.Errorf("after one read with the records: the job is in %s, want %s", job.Stage, StagePropagation)
	}
}

// TestOnlyConsecutiveMissesOfADomainCount checks that a job counts only consecutive misses of its
// domain.
func TestOnlyConsecutiveMissesOfADomainCount(t *testing.T) {
	job := afterObservations(t, newJob(), "domain missing", "unreliable", "domain missing")
	if since := job.UpdatedAt; !job.MissingSince.Equal(since) {
		t.Errorf("the domain is missing since %s, want %s", job.MissingSince, since)
	}
}

// TestStageResetsProgress checks that a new stage resets the progress of a job. A new step of the
// same stage does not reset OutageTime.
func TestStageResetsProgress(t *testing.T) {
	jobWithProgress := func(path []string) Job {
		job := afterObservations(t, newJob(), path...)
		job, _ = DefaultRetryPolicy.BeginAttempt(job, start)
		job.Attempt, job.OutageTime, job.OutageSince, job.VisibleSince, job.UnreliableSince = 5, time.Hour, start.Add(time.Hour), start, start
		return job
	}
	got, _ := DefaultRetryPolicy.Advance(jobWithProgress(toMail), observationNamed(t, "platform ready"), at(start.Add(time.Minute)))
	if got.Attempt != 0 || got.OutageTime != 0 || !got.OutageSince.IsZero() || !got.VisibleSince.IsZero() || !got.UnreliableSince.IsZero() || !got.StageSince.Equal(start.Add(time.Minute)) {
		t.Errorf("in a new stage: got the progress %+v, want the progress of the earlier stage reset", got.Progress)
	}
	// An outage that began in the future, by clock skew, counts as no time.
	got, _ = DefaultRetryPolicy.Advance(jobWithProgress(toVerify), observationNamed(t, "platform ready"), at(start.Add(time.Minute)))
	if got.Attempt != 0 || got.OutageTime != time.Hour || !got.OutageSince.IsZero() || !got.VisibleSince.IsZero() || !got.UnreliableSince.IsZero() {
		t.Errorf("in a new step of the stage: got the progress %+v, want OutageTime kept, and the attempts, the outage and the reads reset", got.Progress)
	}
	got, _ = DefaultRetryPolicy.Advance(jobWithProgress(toValidate), observationNamed(t, "unchanged"), at(start.Add(time.Minute)))
	if !got.UnreliableSince.IsZero() {
		t.Errorf("after a reliable read in the step Validate: UnreliableSince is %s, want the zero time", got.UnreliableSince)
	}
	got, _ = DefaultRetryPolicy.Advance(jobWithProgress(nil), observationNamed(t, "unreliable"), at(start.Add(-time.Minute)))
	if !got.UnreliableSince.Equal(start.Add(-time.Minute)) {
		t.Errorf("UnreliableSince is %s, want the time of the read, because it was in the future", got.UnreliableSince)
	}
	if laterAttempt, _ := DefaultRetryPolicy.BeginAttempt(got, start.Add(time.Hour)); !laterAttempt.StartedAt.Equal(start) {
		t.Errorf("StartedAt changes to %s, want %s", laterAttempt.StartedAt, start)
	}
}

func TestMayWriteAcceptsOnlyTheApprovedPlan(t *testing.T) {
	job := afterObservations(t, newJob(), toApply...)
	for name, zone := range map[string]Zone{"another plan": zoneWithOtherChanges, "an unchanged zone": unchangedZone, "a plan with a conflict": zoneWithConflict, "an unreliable read": unreliableZone, "no zone": {},
		"a plan without a connection": zoneRequiring(dns.ConnectionRequired)} {
		if job.MayWrite(zone) {
			t.Errorf("%s may be written", name)
		}
	}
	if !job.MayWrite(zoneWithChanges) {
		t.Error("the approved plan may not be written in the step Apply")
	}
	if newJob().MayWrite(zoneWithChanges) || afterObservations(t, newJob(), toRead...).MayWrite(zoneWithChanges) {
		t.Error("the approved plan may be written before or after the step Apply")
	}
}

// TestAPlansMessageTakesPrecedence checks that the plan's message takes precedence over the general
// message of the required action.
func TestAPlansMessageTakesPrecedence(t *testing.T) {
	for name, want := range map[string]string{
		"no connection": "message of dns_connection_required", "conflict": zoneWithConflict.Message,
		"access denied": actionMessages[TenantAccessLost], "tenant gone": messageGone, "domain missing": waitMessages[StagePlan] + suffixMissing,
		"refused":                "A provider refuses a step: why. After that is fixed, provision the domain again.",
		"refused without reason": waitMessages[StagePlan] + " At the last attempt a provider refused the step: why. The job tries again.",
		"throttled":              waitMessages[StagePlan] + suffixUnavailable, "unreliable": waitMessages[StagePlan],
	} {
		if got := afterObservations(t, newJob(), name).Message; got != want {
			t.Errorf("%s: the message is %q, want %q", name, got, want)
		}
	}
	incomplete := afterObservations(t, newJob(), toValidate...)
	overdue(&incomplete, incomplete.UpdatedAt)
	if got := afterObservations(t, incomplete, "incomplete and ready").Message; got != messageIncomplete {
		t.Errorf("the message of a plan that is not complete in 48 h is %q, want %q", got, messageIncomplete)
	}
	if got := afterObservations(t, newJob(), append(toRead[:2:2], "changes")...).Message; got != messageZoneChanged {
		t.Errorf("the message after a change of the zone is %q, want %q", got, messageZoneChanged)
	}
	unconnected := Zone{Reliable: true, Conflict: true, Changes: true, Required: dns.ConnectionRequired, Message: "no connection"}
	job := afterObservations(t, newJob(), toRead...)
	job, _ = DefaultRetryPolicy.BeginAttempt(job, start)
	if job, _ = DefaultRetryPolicy.Advance(job, Observation{Zone: unconnected}, at(start)); job.Message != actionMessages[dns.ConflictToResolve] {
		t.Errorf("the message of a conflict is %q, want %q", job.Message, actionMessages[dns.ConflictToResolve])
	}
}

func TestClassifyReturnsTheClassOfEachError(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want errorClass
		wait time.Duration
	}{
		{nil, answered, 0},
		{&outcome.Error{Kind: outcome.NotReady, Code: fault.DKIMNotReady}, notYet, 0},
		{&outcome.Error{Kind: outcome.NotReady, Code: fault.VerificationFailed, RetryAfter: time.Minute}, notYet, time.Minute},
		{fault.ExchangeNotReady.With("no"), notYet, 0},
		{refusedWith(fault.DomainNotVerified), notYet, 0},
		{refusedWith(fault.ProviderError), unexplained, 0},
		{refusedWith(fault.InvalidRequest), refused, 0},
		{&outcome.Error{Kind: outcome.Refused, Code: fault.ServiceUnavailable, RetryAfter: time.Minute}, unavailable, time.Minute},
		{providerError(outcome.Throttled, 0), unavailable, 0},
		{providerError(outcome.Down, time.Second), unavailable, time.Second},
		{fault.ProviderUnavailable.RetryIn(time.Minute, "no"), unavailable, time.Minute},
		{fault.RateLimitExceeded.RetryIn(time.Minute, "no"), unavailable, time.Minute},
		{fault.ProviderTimeout.With("no"), outcomeUnknown, 0},
		{fault.ProviderError.With("no"), outcomeUnknown, 0},
		{providerError(outcome.Broken, time.Hour), outcomeUnknown, 0},
		{fault.InvalidRequest.With("no"), refused, 0},
		{fault.TenantNotFound.With("no"), domainGone, 0},
		{errInternal, internalFault, 0},
	} {
		if got, wait := classify(tc.err); got != tc.want || wait != tc.wait {
			t.Errorf("%v: got the class %d and the wait %s, want %d and %s", tc.err, got, wait, tc.want, tc.wait)
		}
	}
}

func TestAdvanceIgnoresJobThatIsNotRunning(t *testing.T) {
	for _, s := range []Status{Queued, Waiting, ActionRequired, Completed, Failed} {
		job := newJob()
		job.Status = s
		got, step := DefaultRetryPolicy.Advance(job, observationNamed(t, "changes"), at(start))
		if want := map[bool]Step{true: Wait, false: None}[s == Queued || s == Waiting]; got != job || step != want {
			t.Errorf("%s: got the step %q, want %q and an unchanged job: %+v", s, step, want, got)
		}
		begun, step := DefaultRetryPolicy.BeginAttempt(job, start.Add(time.Hour))
		if hasAttempt := s == Queued || s == Waiting; (begun.Status == Running) != hasAttempt || (step == Plan) != hasAttempt || hasAttempt == begun.StartedAt.IsZero() {
			t.Errorf("%s: the job begins with %q as %s, want an attempt: %t", s, step, begun.Status, hasAttempt)
		}
	}
}

// TestIdleTimeCountsWithCountIdle checks that, with CountIdle, the time limits of a job include the
// jumps of a clock such as the clock of the sandbox.
func TestIdleTimeCountsWithCountIdle(t *testing.T) {
	policy := DefaultRetryPolicy
	policy.CountIdle = true
	for observation, jump := range map[string]time.Duration{"not shown": 48 * time.Hour, "unreliable": time.Hour} {
		path := toRead
		if observation == "unreliable" {
			path = nil
		}
		job := afterObservations(t, newJob(), append(path[:len(path):len(path)], observation)...)
		later := job.NextAttemptAt.Add(jump)
		job, _ = policy.BeginAttempt(job, later)
		if next, _ := policy.Advance(job, observationNamed(t, observation), at(later)); next.Status != ActionRequired {
			t.Errorf("%s: the job is %s after a jump of %s, want %s", observation, next.Status, jump, ActionRequired)
		}
	}
}

// TestIdleTimeDoesNotCount checks a job that was due for days without an attempt, because its
// account was suspended. Those days do not count towards its time limits.
func TestIdleTimeDoesNotCount(t *testing.T) {
	for observation, limit := range map[string]time.Duration{
		"not shown": 48 * time.Hour, "unreliable": time.Hour, "down": 96 * time.Hour, "domain missing": 15 * time.Minute,
	} {
		path := toRead
		if observation == "unreliable" {
			path = nil
		}
		job := afterObservations(t, newJob(), append(path[:len(path):len(path)], observation)...)
		resumed := job.NextAttemptAt.Add(1000 * time.Hour)
		job, _ = DefaultRetryPolicy.BeginAttempt(job, resumed)
		job, _ = DefaultRetryPolicy.BeginAttempt(job, resumed) // the first worker crashed
		if next, _ := DefaultRetryPolicy.Advance(job, observationNamed(t, observation), at(resumed)); next.Status != Waiting {
			t.Errorf("%s: the job is %s after 1000 idle hours, want %s", observation, next.Status, Waiting)
		}
		afterLimit := resumed.Add(limit)
		if next, _ := DefaultRetryPolicy.Advance(job, observationNamed(t, observation), at(afterLimit)); next.Status != ActionRequired && next.Status != Failed {
			t.Errorf("%s: %s after it was resumed the job is %s, want %s or %s", observation, limit, next.Status, ActionRequired, Failed)
		}
	}
}
