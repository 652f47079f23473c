// SPDX-License-Identifier: Apache-2.0

// Package provisioning is the state machine that takes a domain from its first
// DNS record to signed, healthy mail. A job is data: what it is to do next is
// decided from what the last step found out and from the time, nothing else.
// docs/provisioning.md draws the states.
package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/tenant"
)

// Stage is how far a job has come, as callers see it.
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

// Status is whose move is next, of a job or of a run.
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

// Active reports whether a domain can have no other job beside one in s.
func (s Status) Active() bool { return s.due() || s == ActionRequired }

// due are the statuses in which a job has a next attempt of its own.
func (s Status) due() bool { return s == Queued || s == Running || s == Waiting }

// Step is one thing that a worker does for a job.
type Step string

// The steps. Each ends in an Observation.
const (
	// Plan reads the DNS and plans; nothing is written.
	Plan Step = "plan"
	// Apply plans again from the provider's own list, and writes that plan if
	// Job.MayWrite allows it.
	Apply Step = "apply"
	// ReadDNS looks whether every server shows what was written.
	ReadDNS Step = "read_dns"
	// Verify has the mail platform verify the domain.
	Verify Step = "verify"
	// EnableMail has it take up the domain's e-mail service.
	EnableMail Step = "enable_mail"
	// EnsureSigning has it make the DKIM records.
	EnsureSigning Step = "ensure_signing"
	// EnableDKIM has it sign.
	EnableDKIM Step = "enable_dkim"
	// Validate holds the domain once more against all that it needs.
	Validate Step = "validate"
	// Wait is for NextAttemptAt, with nothing to do before.
	Wait Step = "wait"
	// None: the job has ended, or a person has to act.
	None Step = ""
)

// Job is the provisioning of one domain. Callers see only part of it.
type Job struct {
	ID, RunID  string // UUIDv7
	Account    access.AccountID
	DomainID   string
	TenantGUID tenant.GUID
	DomainName string

	Stage  Stage
	Status Status
	// Next is the step to do, or to do again.
	Next Step
	// Provider is the id of the DNS provider, "" until it is known.
	Provider string
	// Required is what a person has to do, "" for nothing; Message says it in
	// words, or what the job waits for.
	Required      dns.ActionRequired
	Message       string
	NextAttemptAt time.Time
	// Epoch counts the claims of the job. Only the worker of the last one may
	// write it.
	Epoch int64
	// Trace is the traceparent of the request that caused the job, or "".
	Trace string

	Progress

	CreatedAt time.Time
	StartedAt time.Time // zero: never
	EndedAt   time.Time // zero: not yet
	UpdatedAt time.Time
}

// Progress is what a job remembers between its steps.
type Progress struct {
	// PlanHash is the plan that may be written; any other is a zone that moved.
	PlanHash string
	// Moves counts how often the zone moved under a plan.
	Moves int
	// Attempt counts the tries of the present step, Faults those in a row that
	// met a fault of ours.
	Attempt, Faults int
	// Since is when the present stage was entered. Away is how much of the time
	// since then some provider was out of reach, AwaySince when that began if
	// it still lasts.
	Since     time.Time
	Away      time.Duration
	AwaySince time.Time
	// UnreliableSince is when the reads of the DNS became unreliable.
	UnreliableSince time.Time
	// SeenAt is when all servers were first seen to show what was written;
	// PublishedAt when they were seen to for the second time.
	SeenAt, PublishedAt time.Time
	// NegativeTTL is how long resolvers remember that a record was not there.
	NegativeTTL time.Duration
}

// New is a job that has not begun.
func New(id, runID string, account access.AccountID, domainID string, of tenant.GUID, name string, now time.Time) Job {
	return Job{
		ID: id, RunID: runID, Account: account, DomainID: domainID, TenantGUID: of, DomainName: name,
		Stage: StageQueued, Status: Queued, Next: Plan,
		NextAttemptAt: now, CreatedAt: now, UpdatedAt: now, Progress: Progress{Since: now},
	}
}

// MayWrite reports whether a plan made just before writing is the one that the
// job decided on.
func (j Job) MayWrite(z Zone) bool {
	return j.Next == Apply && z.required() == "" && z.Hash == j.PlanHash
}

// step is what a worker does with the job as it is.
func (j Job) step() Step {
	switch j.Status {
	case Running:
		return j.Next
	case Queued, Waiting:
		return Wait
	default:
		return None
	}
}
