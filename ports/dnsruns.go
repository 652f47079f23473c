// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/provisioning"
)

// DNSRuns stores the provisioning runs and jobs of accounts. A job is deleted with its domain. To
// an account, a run without jobs and the runs and jobs of other accounts do not exist.
type DNSRuns interface {
	// CreateRun stores a new run with its jobs, all or none, and commits the stored answer with
	// them. A domain has at most one active job, so only one of several concurrent calls succeeds.
	// CreateRun fails with domain_not_found or domain_provisioning_already_active.
	CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job, storedAnswer *StoredAnswer) error
	// Runs lists an account's runs, newest first, with the state derived from their jobs.
	Runs(ctx context.Context, owner access.AccountID, q RunQuery) ([]provisioning.Run, error)
	// Run returns a run, with the state derived from its jobs, and the jobs. It fails with
	// provisioning_run_not_found.
	Run(ctx context.Context, owner access.AccountID, id string) (provisioning.Run, []provisioning.Job, error)
	// Job returns a job. It fails with provisioning_job_not_found.
	Job(ctx context.Context, owner access.AccountID, id string) (provisioning.Job, error)
	// ActiveJob returns the active job of a domain, if it has one.
	ActiveJob(ctx context.Context, owner access.AccountID, domainID string) (j provisioning.Job, found bool, err error)
	// RetryJob queues a job again with provisioning.Retry and commits the stored answer with it. An
	// earlier claim of the job becomes invalid. RetryJob fails with provisioning_job_not_found or
	// provisioning_job_not_retryable.
	RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time, storedAnswer *StoredAnswer) (provisioning.Job, error)
}

// RunQuery selects runs.
type RunQuery struct {
	// ActiveOnly excludes runs whose jobs have all ended.
	ActiveOnly bool
	Limit      int
}

// DNSJobs provides the jobs of DNSRuns to workers. The stored job decides which step comes next. A
// worker claims a job by incrementing its epoch, and may change the job only while the epoch is
// unchanged. Leases use the database's clock, which all replicas share. Due times use the caller's
// clock.
type DNSJobs interface {
	// DueJobs lists at most limit jobs that are due at now and not leased. The rank of a job is the
	// number of running jobs of its account plus the job's position among the due jobs of the
	// account, the longest due first. The lowest ranks come first, so that accounts share the
	// workers. Jobs of inactive accounts are excluded.
	DueJobs(ctx context.Context, now time.Time, limit int) ([]DueJob, error)
	// ClaimJob claims a due job that is not leased, for the duration of the lease. It returns the
	// job as Running with its new epoch. won is false if the job is not due or no longer exists, or
	// if a different worker has claimed it.
	ClaimJob(ctx context.Context, id string, lease time.Duration, now time.Time) (j provisioning.Job, won bool, err error)
	// RenewJobLease renews the lease of a running job. held is false if the job has a later epoch,
	// is not Running, or no longer exists. The caller must then stop working on the job. The epoch
	// grows when a worker claims the job, and when the job is retried or stopped.
	RenewJobLease(ctx context.Context, j provisioning.Job, lease time.Duration) (held bool, err error)
	// SaveJob stores the job. It keeps the lease only if the job is still Running. It may be
	// repeated. held is false if the job has a later epoch or no longer exists.
	SaveJob(ctx context.Context, j provisioning.Job) (held bool, err error)
	// ReleaseJob ends the lease of a running job. The job becomes Queued and due at now, so that a
	// different worker can claim it at once. ReleaseJob stores no other field of j. It returns held
	// like RenewJobLease.
	ReleaseJob(ctx context.Context, j provisioning.Job, now time.Time) (held bool, err error)
}

// DueJob names a job that is due.
type DueJob struct {
	ID      string
	Account access.AccountID
	// At is when the job became due.
	At time.Time
}
