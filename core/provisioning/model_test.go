// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
)

// simulation runs one job as the queue, workers and people do. It checks the invariants of the job
// after each action.
type simulation struct {
	job       Job
	now       time.Time
	table     map[Stage]stageRow // the table of docs/provisioning.md
	staleJobs []Job              // copies that workers loaded before they lost their claims
}

// maxDuration and maxSteps limit how long a job can run without an action of a person. Each of the
// nine stages may take twice StageLimit, because an outage of up to StageLimit does not count. The
// job may start again twice, because the zone may change twice.
const (
	maxDuration = 3 * 9 * (2*48 + 3) * time.Hour
	maxSteps    = 3 * 9 * 500 // at most 500 steps in a stage, because the pause grows to 15 minutes
)

// performEvent draws and performs one event: usually a step of a worker, sometimes a jump of the
// clock, a retry, or the loss of a claim.
func (s *simulation) performEvent(t *rapid.T) {
	before := s.job
	switch rapid.IntRange(0, 11).Draw(t, "event") {
	case 0: // the clock jumps
		s.now = s.now.Add(time.Duration(rapid.IntRange(-72, 72).Draw(t, "hours")) * time.Hour)
	case 1: // a person retries the job
		s.retry(t)
	case 2: // a worker loses its claim, and another worker claims the job
		s.staleJobs = append(s.staleJobs, s.job)
		if s.job.Status == Running {
			s.job.Epoch++
		}
	case 3: // a worker that lost its claim continues
		s.advanceStaleJob(t)
	default:
		s.work(t)
	}
	s.checkTransition(t, before)
}

// retry retries the job, and checks that only a waiting or stopped job can be retried.
func (s *simulation) retry(t *rapid.T) {
	got, err := Retry(s.job, s.now)
	mayRetry := s.job.Status == Waiting || s.job.Status == ActionRequired
	if mayRetry != (err == nil) || err != nil && !errors.Is(err, fault.JobNotRetryable) {
		t.Fatalf("retry of a job that is %s: got %v, want success %t", s.job.Status, err, mayRetry)
	}
	s.job = got
}

// advanceStaleJob lets a worker that lost its claim make a decision. The decision is stored only if
// the job has not changed since the worker loaded it.
func (s *simulation) advanceStaleJob(t *rapid.T) {
	if len(s.staleJobs) == 0 {
		return
	}
	stale := rapid.SampledFrom(s.staleJobs).Draw(t, "stale job")
	decided, _ := DefaultRetryPolicy.Advance(stale, s.drawObservation(t), Moment{Now: s.now})
	if decided.Epoch != stale.Epoch {
		t.Fatalf("a step changed the epoch %d to %d", stale.Epoch, decided.Epoch)
	}
	if decided.Epoch == s.job.Epoch && stale.Status == Running && s.job == stale {
		s.job = decided
	}
}

func (s *simulation) drawObservation(t *rapid.T) Observation {
	return observations[rapid.SampledFrom(slices.Sorted(maps.Keys(observations))).Draw(t, "observation")]
}

// work waits until the job is due, claims the job and advances it by one step.
func (s *simulation) work(t *rapid.T) {
	if !s.job.Status.HasNextAttempt() {
		return
	}
	if s.job.Status != Running {
		if s.job.NextAttemptAt.After(s.now) {
			s.now = s.job.NextAttemptAt
		}
		s.job.Epoch++
		s.job, _ = DefaultRetryPolicy.BeginAttempt(s.job, s.now)
	}
	var step Step
	s.job, step = DefaultRetryPolicy.Advance(s.job, s.drawObservation(t), Moment{s.now, rapid.Float64Range(0, 0.999).Draw(t, "chance")})
	s.checkDecision(t, step)
}

func (s *simulation) checkDecision(t *rapid.T, step Step) {
	job := s.job
	if step != job.currentStep() || (job.Status == Running) != (step != Wait && step != None) {
		t.Fatalf("Advance returns the step %q, which does not fit a job that is %s", step, job.Status)
	}
	switch job.Status {
	case Waiting:
		if pause := job.NextAttemptAt.Sub(s.now); pause <= 0 || pause > time.Hour || job.Message == "" {
			t.Fatalf("the job waits %s with the message %q, want at most an hour and a message", pause, job.Message)
		}
	case Running:
		if job.NextAttemptAt.After(s.now) || job.Next == None {
			t.Fatalf("a running job has the step %q at %s, want a step at %s", job.Next, job.NextAttemptAt, s.now)
		}
	case ActionRequired:
		if !slices.Contains(s.table[job.Stage].stops, string(job.RequiredAction)) || job.Message == "" || job.Next == None {
			t.Fatalf("the job stops in %s with %q, which is not documented, or without a message or a step: %q, %q", job.Stage, job.RequiredAction, job.Message, job.Next)
		}
	case Completed, Failed:
		if job.EndedAt.IsZero() || job.Next != None || (job.Status == Completed) != (job.Stage == StageDone) {
			t.Fatalf("the job ended as %+v, want EndedAt, no next step, and the stage done only if it is completed", job)
		}
	default:
		t.Fatalf("a step results in the status %s, which no step can have", job.Status)
	}
	if job.Status != ActionRequired && job.RequiredAction != "" {
		t.Fatalf("a job that is %s requires the action %s", job.Status, job.RequiredAction)
	}
}

func (s *simulation) checkTransition(t *rapid.T, before Job) {
	if s.job.Epoch < before.Epoch {
		t.Fatalf("the epoch falls from %d to %d", before.Epoch, s.job.Epoch)
	}
	if !before.Status.IsActive() && s.job != before {
		t.Fatalf("an ended job changed to %+v", s.job)
	}
	allowed := s.table[before.Stage].next
	if before.Stage == StageQueued { // BeginAttempt and Advance happened in one event
		allowed = append(slices.Clone(allowed), s.table[StagePlan].next...)
	}
	wasReset := before.Status == ActionRequired && s.job.Status == Queued
	if s.job.Stage != before.Stage && !wasReset && !slices.Contains(allowed, string(s.job.Stage)) {
		t.Fatalf("the docs do not list the change from %s to %s", before.Stage, s.job.Stage)
	}
	if s.job.ZoneChanges >= maxZoneChanges && s.job.Status != ActionRequired {
		t.Fatalf("the job is %s after %d changes of the zone, want %s", s.job.Status, s.job.ZoneChanges, ActionRequired)
	}
}

// TestEveryJobEndsOrRequiresAnAction applies random events to a job, and then repeats at most three
// kinds of observations. The job must end or require an action.
func TestEveryJobEndsOrRequiresAnAction(t *testing.T) {
	table := documentedStages(t)
	rapid.Check(t, func(t *rapid.T) {
		s := &simulation{job: newJob(), now: start, table: table}
		for range rapid.IntRange(0, 60).Draw(t, "number of events") {
			s.performEvent(t)
		}
		s.runUntilStopped(t)
	})
}

// runUntilStopped repeats a few observations, without retries and clock changes, until the job has
// ended or requires an action.
func (s *simulation) runUntilStopped(t *rapid.T) {
	repeated := rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(observations))), 1, 3).Draw(t, "repeated observations")
	since := s.now
	if s.job.NextAttemptAt.After(since) {
		since = s.job.NextAttemptAt
	}
	for steps := 0; s.job.Status.HasNextAttempt(); steps++ {
		if s.job.Status != Running {
			if s.job.NextAttemptAt.After(s.now) {
				s.now = s.job.NextAttemptAt
			}
			s.job, _ = DefaultRetryPolicy.BeginAttempt(s.job, s.now)
		}
		var step Step
		s.job, step = DefaultRetryPolicy.Advance(s.job, observations[repeated[steps%len(repeated)]], at(s.now))
		s.checkDecision(t, step)
		if steps > maxSteps || s.now.Sub(since) > maxDuration {
			t.Fatalf("the job does not end: after %d steps and %s it is %s in %s", steps, s.now.Sub(since), s.job.Status, s.job.Stage)
		}
	}
}

// TestJobsCompleteAfterTemporaryErrors checks that a job completes if each step succeeds after at
// most three temporary errors.
func TestJobsCompleteAfterTemporaryErrors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		failures := []string{"throttled", "down", "unknown outcome", "broken", "platform not ready", "database unavailable", "internal fault"}
		job, now := newJob(), start
		for _, success := range toCompleted {
			for range rapid.IntRange(0, 3).Draw(t, "failures") {
				job, now = attempt(job, now, observations[rapid.SampledFrom(failures).Draw(t, "failure")])
			}
			job, now = attempt(job, now, observations[success])
		}
		if job.Status != Completed {
			t.Fatalf("the job did not complete: %+v", job)
		}
	})
}

// attempt lets a worker make one observation when the job is due.
func attempt(job Job, now time.Time, o Observation) (Job, time.Time) {
	if job.NextAttemptAt.After(now) {
		now = job.NextAttemptAt
	}
	job, _ = DefaultRetryPolicy.BeginAttempt(job, now)
	job, _ = DefaultRetryPolicy.Advance(job, o, at(now))
	return job, now
}
