// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/provisioning"
)

// DNSRuns keeps provisioning runs and their jobs for the accounts that they
// belong to. A run is there as long as one of its jobs is, and a job as long as
// its domain. A foreign run or job and an unknown one are one answer.
type DNSRuns interface {
	// CreateRun stores a new run with its jobs, all or none, and commits a
	// Completion. A domain has one active job: of several at once one wins.
	// Refusals: domain_not_found, domain_provisioning_already_active.
	CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job) error
	// Runs lists an account's runs as their jobs have them, newest first.
	Runs(ctx context.Context, owner access.AccountID, q RunQuery) ([]provisioning.Run, error)
	// Run returns a run as its jobs have it, and these. Refusal:
	// provisioning_run_not_found.
	Run(ctx context.Context, owner access.AccountID, id string) (provisioning.Run, []provisioning.Job, error)
	// Job returns a job. Refusal: provisioning_job_not_found.
	Job(ctx context.Context, owner access.AccountID, id string) (provisioning.Job, error)
	// ActiveJob returns the active job of a domain, if it has one.
	ActiveJob(ctx context.Context, owner access.AccountID, domainID string) (j provisioning.Job, found bool, err error)
	// RetryJob queues a job as provisioning.Retry has it, and commits a
	// Completion. Whoever claimed it before has lost it. Refusals:
	// provisioning_job_not_found, provisioning_job_not_retryable.
	RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time) (provisioning.Job, error)
}

// RunQuery selects runs.
type RunQuery struct {
	// ActiveOnly leaves out runs of which every job has ended.
	ActiveOnly bool
	Limit      int
}

// DNSJobs are the same jobs for the workers. A job's row is the truth: a worker
// takes it by raising its epoch and may change it while that is its own. Leases
// are measured by the database's clock, which all replicas share; when a job is
// due by the caller's.
type DNSJobs interface {
	// DueJobs lists jobs that are due at now and that nobody works on, at most
	// that many. Accounts take turns: the one with the fewest jobs at work
	// comes first, within an account the job that is due for longest.
	DueJobs(ctx context.Context, now time.Time, most int) ([]DueJob, error)
	// ClaimJob takes a job that is due at now, if nobody works on it, for as
	// long as the lease lasts, and returns it running and with its new epoch.
	// won is false also for a job that is not there any more.
	ClaimJob(ctx context.Context, id string, lease time.Duration, now time.Time) (j provisioning.Job, won bool, err error)
	// HoldJob renews the lease of a job. held is false when another has it or
	// it is gone, here and in the two that follow: then nothing more may be
	// done for it.
	HoldJob(ctx context.Context, j provisioning.Job, lease time.Duration) (held bool, err error)
	// SaveJob stores what was decided of a job. The lease ends unless the job
	// is still running. It may be repeated.
	SaveJob(ctx context.Context, j provisioning.Job) (held bool, err error)
	// ReleaseJob gives a running job back as it is stored, for another worker
	// to take up at once.
	ReleaseJob(ctx context.Context, j provisioning.Job, now time.Time) (held bool, err error)
}

// DueJob names a job that is due.
type DueJob struct {
	ID      string
	Account access.AccountID
	// At is when it became due.
	At time.Time
}
