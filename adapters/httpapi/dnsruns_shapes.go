// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"time"

	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/core/provisioning"
)

type begunRun struct {
	DomainID string            `json:"domain_id" format:"uuid" doc:"The domain's id."`
	Run      provisioningRun   `json:"run" doc:"The run that was queued."`
	Jobs     []provisioningJob `json:"jobs" doc:"Its jobs, one for each domain."`
}

type runDetail struct {
	Run  provisioningRun   `json:"run" doc:"The run."`
	Jobs []provisioningJob `json:"jobs" doc:"Its jobs, one for each domain."`
}

type runList struct {
	Runs  []provisioningRun `json:"runs" doc:"Newest first."`
	Count int               `json:"count" doc:"How many are listed."`
	Limit int               `json:"limit" doc:"How many are listed at most."`
}

type retriedJob struct {
	Status string          `json:"status" enum:"queued" doc:"Always queued."`
	Job    provisioningJob `json:"job" doc:"The job as it is now."`
}

type provisioningRun struct {
	ID           string     `json:"id" format:"uuid" doc:"The run's id; used in paths."`
	Status       string     `json:"status" enum:"queued,running,action_required,completed,failed" doc:"It follows from the jobs: running while one of them is at work or waits, action_required when one waits for a person and none is at work, failed when all have ended and one failed."`
	TotalDomains int        `json:"total_domains" doc:"How many domains were asked for."`
	CreatedAt    time.Time  `json:"created_at" doc:"When it was asked for."`
	StartedAt    *time.Time `json:"started_at" doc:"When the first of its jobs began, null before."`
	CompletedAt  *time.Time `json:"completed_at" doc:"When the last of its jobs ended, null before."`
	UpdatedAt    *time.Time `json:"updated_at" doc:"When something last happened, null when nothing has yet."`
}

type provisioningJob struct {
	ID                 string    `json:"id" format:"uuid" doc:"The job's id; used in paths."`
	RunID              string    `json:"run_id" format:"uuid" doc:"The run it belongs to."`
	DomainID           string    `json:"domain_id" format:"uuid" doc:"The domain's id."`
	TenantID           string    `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DomainName         string    `json:"domain_name" doc:"The domain, in A-labels."`
	Stage              string    `json:"stage" enum:"queued,dns_plan,dns_apply,dns_propagation,domain_verification,dkim_publication,dkim_enablement,health_validation,done" doc:"How far it has come."`
	Status             string    `json:"status" enum:"queued,running,waiting,action_required,completed,failed" doc:"waiting: it goes on by itself at next_attempt_at. action_required: a person acts, then the job is retried."`
	Provider           *string   `json:"provider" doc:"The DNS provider that holds the zone, null while it is not known."`
	ActionRequiredCode *string   `json:"action_required_code" enum:"dns_connection_required,dns_conflict,dns_provider_unsupported,dns_credential_rejected,dns_changed,dns_read_unreliable,domain_unavailable,propagation_timeout,verification_timeout,dkim_timeout,tenant_access_lost" doc:"What a person has to do, null for nothing."`
	Message            *string   `json:"message" doc:"The same in words, or what the job waits for; null for nothing to say."`
	NextAttemptAt      time.Time `json:"next_attempt_at" doc:"When the job goes on, or last did."`
}

func begunOf(b dnsruns.Begun) begunRun {
	return begunRun{DomainID: b.DomainID, Run: runOf(b.Run), Jobs: each(b.Jobs, jobOf)}
}

func retriedOf(j provisioning.Job) retriedJob {
	return retriedJob{Status: string(j.Status), Job: jobOf(j)}
}

func runOf(r provisioning.Run) provisioningRun {
	return provisioningRun{ID: r.ID, Status: string(r.Status), TotalDomains: r.TotalDomains, CreatedAt: r.CreatedAt.UTC(),
		StartedAt: timeOrNil(r.StartedAt), CompletedAt: timeOrNil(r.CompletedAt), UpdatedAt: timeOrNil(r.UpdatedAt)}
}

func jobOf(j provisioning.Job) provisioningJob {
	return provisioningJob{ID: j.ID, RunID: j.RunID, DomainID: j.DomainID, TenantID: string(j.TenantGUID), DomainName: j.DomainName,
		Stage: string(j.Stage), Status: string(j.Status), Provider: textOrNil(j.Provider), ActionRequiredCode: textOrNil(string(j.Required)),
		Message: textOrNil(j.Message), NextAttemptAt: j.NextAttemptAt.UTC()}
}
