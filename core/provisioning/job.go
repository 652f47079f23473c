// SPDX-License-Identifier: Apache-2.0

// Package provisioning is the state machine that takes a domain from its first DNS record to
// signed, healthy mail. A Job is plain data. Its next step depends only on the job, the Observation
// of the last step, the time and the RetryPolicy. docs/provisioning.md draws the states.
//
// Start reading at BeginAttempt and RetryPolicy.Advance in advance.go.
//
//   - job.go: Job with its stages, statuses and steps, and Run, a set of jobs.
//   - observation.go: Observation, the result of a step, and Zone, the summary of a DNS plan.
//   - advance.go: the decision after a step; steps.go continues it for each kind of step.
//   - errors.go: the classes of errors that a step can fail with.
//   - retrypolicy.go: the retry delays and timeouts.
//   - retry.go: Retry, which resumes a job that waits or requires an action, and Stop.
//   - messages.go: the texts of a job for callers.
package provisioning

import (
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/tenant"
)

// Stage is the phase of a job, as callers see it.
type Stage string

// The stages, in their order.
const (
	StageQueued             Stage = "queued"
	StagePlan               Stage = "dns_plan"
	StageApply              Stage = "dns_apply"
	StagePropagation        Stage = "dns_propagation"
	StageDomainVerification Stage = "domain_verification"
	StageDKIMPublication    Stage = "dkim_publication"
	StageDKIMEnablement     Stage = "dkim_enablement"
	StageHealth             Stage = "health_validation"
	StageDone               Stage = "done"
)

// Status is the state of a job or of a run.
type Status string

// The statuses. Runs are never Waiting.
const (
	Queued         Status = "queued"
	Running        Status = "running"
	Waiting        Status = "waiting"
	ActionRequired Status = "action_required"
	Completed      Status = "completed"
	Failed         Status = "failed"
)

// IsActive reports whether a job in status s prevents a second job for the same domain.
func (s Status) IsActive() bool { return s.HasNextAttempt() || s == ActionRequired }

// HasNextAttempt reports whether a job in status s is attempted again without action by a person.
func (s Status) HasNextAttempt() bool { return s == Queued || s == Running || s == Waiting }

// Step is one action that a worker performs for a job.
type Step string

// The steps. The result of each step except Wait and None is an Observation.
const (
	// Plan reads the DNS and makes a plan. It does not change the zone.
	Plan Step = "plan"
	// Apply makes a new plan from the records that the provider stores. It writes that plan if
	// Job.MayWrite allows it.
	Apply Step = "apply"
	// ReadDNS checks whether every name server that answers shows the records of the plan.
	ReadDNS Step = "read_dns"
	// Verify asks the mail platform to verify the domain.
	Verify Step = "verify"
	// EnableMail asks the mail platform to enable the domain's e-mail service.
	EnableMail Step = "enable_mail"
	// EnsureSigning asks the mail platform to create the DKIM records.
	EnsureSigning Step = "ensure_signing"
	// EnableDKIM asks the mail platform to enable DKIM signing.
	EnableDKIM Step = "enable_dkim"
	// Validate checks that all records are still published and that the platform signs the domain's
	// mail.
	Validate Step = "validate"
	// Wait means that the job waits for NextAttemptAt.
	Wait Step = "wait"
	// None means that the job has ended or that a person has to act.
	None Step = ""
)

// Job is the provisioning of one domain. The API shows only some of its fields.
type Job struct {
	ID, RunID  string // UUIDv7
	Account    access.AccountID
	DomainID   string
	TenantGUID tenant.GUID
	DomainName string

	Stage  Stage
	Status Status
	// Next is the step to do or to repeat.
	Next Step
	// Provider is the id of the DNS provider, "" until it is known.
	Provider string
	// RequiredAction is the action that a person has to take, "" if none. Message describes the
	// action, or says what the job waits for or why it failed.
	RequiredAction dns.ActionRequired
	Message        string
	NextAttemptAt  time.Time
	// Epoch grows with each claim, and when the job is retried or stopped. A worker may write the
	// job only while Epoch has the value from the claim of this worker.
	Epoch int64
	// Trace is the W3C traceparent of the request that created the job, or "".
	Trace string

	Progress

	CreatedAt time.Time
	StartedAt time.Time // zero if the job never started
	EndedAt   time.Time // zero if the job has not ended
	UpdatedAt time.Time
}

// Progress is the state that a job keeps between its steps.
type Progress struct {
	// PlanHash is the hash of the plan that may be written. If a new plan has a different hash, the
	// zone has changed.
	PlanHash string
	// ZoneChanges counts how often the zone changed after it was planned.
	ZoneChanges int
	// Attempt determines the next pause. It grows with each retry of the current step, and with
	// each change of the zone. Faults counts consecutive attempts that failed with an internal
	// fault, were refused without a known reason or did not finish a step. An attempt that has just
	// begun has not finished a step either. An attempt that the stop of its worker interrupted does
	// not count (see CancelAttempt).
	Attempt, Faults int
	// StageSince is when the time limit of the current stage began. This is when the stage was
	// entered, or when the job was retried after a required action. excludeIdle moves the start
	// times of time limits forward. OutageTime is the total length of the providers' outages that
	// ended since the time limit began. OutageSince is when the current outage began, zero
	// without an outage.
	StageSince  time.Time
	OutageTime  time.Duration
	OutageSince time.Time
	// UnreliableSince is when reads of the DNS became unreliable, or the plugin of a DNS provider
	// stopped, zero while plans can be made.
	UnreliableSince time.Time
	// MissingSince is when a step first did not find the domain. A step with any other result
	// resets it to zero.
	MissingSince time.Time
	// VisibleSince is when a read first found the written records on all servers. PublishedAt is
	// when a second read confirmed their publication.
	VisibleSince, PublishedAt time.Time
	// NegativeTTL is how long resolvers cache the absence of a record.
	NegativeTTL time.Duration
}

// NewJob returns a queued job that is due at once.
func NewJob(id, runID string, account access.AccountID, domainID string, tenantGUID tenant.GUID, name string, now time.Time) Job {
	return Job{
		ID: id, RunID: runID, Account: account, DomainID: domainID, TenantGUID: tenantGUID, DomainName: name,
		Stage: StageQueued, Status: Queued, Next: Plan,
		NextAttemptAt: now, CreatedAt: now, UpdatedAt: now, Progress: Progress{StageSince: now},
	}
}

// MayWrite reports whether the job may write the plan that the step Apply made. z is the summary of
// this plan. The plan must require no action, and must equal the plan of the step Plan.
func (j Job) MayWrite(z Zone) bool {
	return j.Next == Apply && z.requiredAction() == "" && z.Hash == j.PlanHash
}

// currentStep returns what a worker does with the job in its current status.
func (j Job) currentStep() Step {
	switch j.Status {
	case Running:
		return j.Next
	case Queued, Waiting:
		return Wait
	default:
		return None
	}
}

// Run is one request to provision domains. The fields from Status on are derived from its jobs and
// not stored.
type Run struct {
	ID           string // UUIDv7
	Account      access.AccountID
	TotalDomains int
	CreatedAt    time.Time

	Status      Status
	StartedAt   time.Time // zero if it has not started
	CompletedAt time.Time // zero if some jobs have not ended
	UpdatedAt   time.Time // zero if no job has been updated
}

// With returns the run with the fields that are derived from its jobs.
func (r Run) With(jobs []Job) Run {
	r.Status = runStatus(jobs)
	r.StartedAt, r.CompletedAt, r.UpdatedAt = time.Time{}, time.Time{}, time.Time{}
	for _, j := range jobs {
		if !j.StartedAt.IsZero() && (r.StartedAt.IsZero() || j.StartedAt.Before(r.StartedAt)) {
			r.StartedAt = j.StartedAt
		}
		if j.UpdatedAt.After(r.CreatedAt) && j.UpdatedAt.After(r.UpdatedAt) {
			r.UpdatedAt = j.UpdatedAt
		}
		if !r.Status.IsActive() && j.EndedAt.After(r.CompletedAt) {
			r.CompletedAt = j.EndedAt
		}
	}
	return r
}

func runStatus(jobs []Job) Status {
	anyJob := func(statuses ...Status) bool {
		return slices.ContainsFunc(jobs, func(j Job) bool { return slices.Contains(statuses, j.Status) })
	}
	started := slices.ContainsFunc(jobs, func(j Job) bool { return !j.StartedAt.IsZero() })
	switch {
	case anyJob(Running):
		return Running
	case anyJob(ActionRequired):
		return ActionRequired
	case anyJob(Queued, Waiting) && started:
		return Running
	case anyJob(Queued, Waiting):
		return Queued
	case anyJob(Failed):
		return Failed
	default:
		return Completed
	}
}
