// SPDX-License-Identifier: Apache-2.0

// Package dnsruns provisions the DNS and the mail setup of domains in background jobs.
//
// A run is a caller's request to provision domains. It has one job for each domain. A job advances
// from step to step, and core/provisioning decides which step is next. Service starts runs, lists
// them and retries their jobs. Worker executes the jobs. Undo restores the records that a run
// changed.
//
// Start reading at Service in dnsruns.go and at Worker.Handle in worker.go.
//
//   - dnsruns.go: Service, List, Get, Retry
//   - provision.go: Service.Provision, which starts a run
//   - worker.go: Worker, which claims a job and executes its steps
//   - steps.go: what each step of a job does
//   - claim.go: the lease of a job (app/lease)
//   - fence.go: checks the lease before each write
//   - undo.go: Undo
package dnsruns

import (
	"context"
	"io"
	"time"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// Kind is the job kind of provisioning jobs.
const Kind = "dns_job"

// Surveyor reads a domain's DNS now and plans the changes that the domain needs.
type Surveyor interface {
	Survey(ctx context.Context, owner access.AccountID, domainID string) (domainsteps.Survey, error)
}

// Service has the use cases of API callers.
type Service struct {
	Tenants ports.Tenants
	Domains ports.Domains
	Runs    ports.DNSRuns
	Survey  Surveyor
	Queue   ports.Queue
	Random  io.Reader
	Now     func() time.Time
	// Trace returns the traceparent of the request in ctx, or "" when the request has none.
	Trace func(ctx context.Context) string
}

// now returns the time in the precision of the store, so that a later read returns the same times.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// List returns an account's runs, newest first.
func (s *Service) List(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	return s.Runs.Runs(ctx, owner, q)
}

// Get returns a run and its jobs. It fails with provisioning_run_not_found.
func (s *Service) Get(ctx context.Context, owner access.AccountID, id string) (provisioning.Run, []provisioning.Job, error) {
	return s.Runs.Run(ctx, owner, id)
}

// Retry queues a job for an immediate attempt. The job must be waiting or require an action. Retry
// returns the job as it will be after the change. It computes the job before the change, because
// the store commits the answer together with the change.
//
// It fails with provisioning_job_not_found, dns_automation_not_in_plan, tenant_limit_reached, or
// provisioning_job_not_retryable.
func (s *Service) Retry(ctx context.Context, acc access.Account, jobID string, encoder ports.AnswerEncoder[provisioning.Job]) (provisioning.Job, error) {
	j, err := s.Runs.Job(ctx, acc.ID, jobID)
	if err != nil {
		return provisioning.Job{}, err
	}
	if err := s.checkPlan(ctx, acc); err != nil {
		return provisioning.Job{}, err
	}
	now := s.now()
	if j, err = provisioning.Retry(j, now); err != nil {
		return provisioning.Job{}, err
	}
	storedAnswer, err := encoder.Encode(j)
	if err != nil {
		return provisioning.Job{}, err
	}
	if _, err := s.Runs.RetryJob(ctx, acc.ID, j.ID, now, storedAnswer); err != nil {
		return provisioning.Job{}, err
	}
	s.wake(ctx, j)
	return j, nil
}
