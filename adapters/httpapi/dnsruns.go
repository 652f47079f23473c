// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

type runPath struct {
	RunID string `path:"run_id"`
}

type jobPath struct {
	JobID string `path:"job_id"`
}

func registerProvisioningOperations(api huma.API, service *dnsruns.Service) {
	registerProvisionDNS(api, service)
	registerListRuns(api, service)
	registerGetRun(api, service)
	registerRetryJob(api, service)
}

func registerProvisionDNS(api huma.API, service *dnsruns.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "provision-domain-dns", Method: http.MethodPost, Path: "/v1/domains/{domain_id}/dns/provision", Tags: []string{tagDNS},
		DefaultStatus: http.StatusAccepted,
		Summary:       "Provision a domain's DNS",
		Description: "Queues a job that sets up the domain completely: it writes the records at the account's DNS provider, waits until all name " +
			"servers return them, has the mail platform verify the domain, enables DKIM and does a final check. The response does not wait " +
			"for the job; poll the run. The request is refused if the service cannot write at the DNS provider, if no connection of the account " +
			"has access to the zone, or if a record conflicts. After an unreliable read of the DNS, the job waits for a reliable one. A domain can have one active job.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.DNSWrite, Write: true, AnswerExample: exampleBegunRun, Refuses: codes(platformCodes, specificCodes(fault.DNSAutomationNotInPlan,
			fault.TenantLimitReached, fault.DomainNotFound, fault.ProviderUnsupported, fault.ConnectionRequired, fault.DNSConflict,
			fault.JobActive))}.Metadata(),
	}, begunRunOf, func(ctx context.Context, caller access.Caller, in *domainIDPath, encoder ports.AnswerEncoder[dnsruns.StartedRun]) (dnsruns.StartedRun, error) {
		return service.Provision(ctx, caller.Account, ident.ParseOrZero(in.DomainID), encoder)
	})
}

func registerGetRun(api huma.API, service *dnsruns.Service) {
	register(api, huma.Operation{
		OperationID: "get-provisioning-run", Method: http.MethodGet, Path: "/v1/dns/provisioning-runs/{run_id}", Tags: []string{tagDNS},
		Summary:     "Get a provisioning run",
		Description: "Returns a run with its jobs: the stage of each job, what the job waits for, and what a person must do.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.DNSRead, AnswerExample: exampleRunDetail, Refuses: specificCodes(fault.RunNotFound)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *runPath) (runDetail, error) {
		r, jobs, err := service.Get(ctx, caller.Account.ID, ident.ParseOrZero(in.RunID))
		if err != nil {
			return runDetail{}, err
		}
		return runDetail{Run: runOf(r), Jobs: convertAll(jobs, jobOf)}, nil
	})
}

func registerRetryJob(api huma.API, service *dnsruns.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "retry-provisioning-job", Method: http.MethodPost, Path: "/v1/dns/provisioning-jobs/{job_id}/retry", Tags: []string{tagDNS},
		Summary: "Retry a provisioning job",
		Description: "Queues a job that is `waiting` or `action_required` for an immediate attempt. The job continues where it stopped. A job " +
			"that was `action_required` gets its full time limit again. After an action in the zone or at its DNS provider, the job usually plans the zone again.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.DNSWrite, Write: true, AnswerExample: exampleRetriedJob, Refuses: specificCodes(fault.DNSAutomationNotInPlan,
			fault.TenantLimitReached, fault.JobNotFound, fault.JobNotRetryable)}.Metadata(),
	}, retriedJobOf, func(ctx context.Context, caller access.Caller, in *jobPath, encoder ports.AnswerEncoder[provisioning.Job]) (provisioning.Job, error) {
		return service.Retry(ctx, caller.Account, ident.ParseOrZero(in.JobID), encoder)
	})
}

type runsInput struct {
	ActiveOnly string `query:"active_only"`
	Limit      string `query:"limit"`
}

const (
	defaultRunLimit = 20
	maxRunLimit     = 100
)

func registerListRuns(api huma.API, service *dnsruns.Service) {
	register(api, huma.Operation{
		OperationID: "list-provisioning-runs", Method: http.MethodGet, Path: "/v1/dns/provisioning-runs", Tags: []string{tagDNS},
		Summary:     "List provisioning runs",
		Description: "Lists the account's provisioning runs, newest first.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.DNSRead, AnswerExample: exampleRunList, Refuses: specificCodes(fault.InvalidRequest)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *runsInput) (runList, error) {
		q, err := in.query()
		if err != nil {
			return runList{}, err
		}
		runs, err := service.List(ctx, caller.Account.ID, q)
		if err != nil {
			return runList{}, err
		}
		list := convertAll(runs, runOf)
		return runList{Runs: list, Count: len(list), Limit: q.Limit}, nil
	})
}

func (in *runsInput) query() (ports.RunQuery, error) {
	q := ports.RunQuery{Limit: defaultRunLimit}
	var parser queryParser
	parser.boolean("active_only", in.ActiveOnly, &q.ActiveOnly)
	parser.integer("limit", in.Limit, 1, maxRunLimit, &q.Limit)
	return q, parser.err()
}

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
	Count int               `json:"count" doc:"The number of runs in the response."`
	Limit int               `json:"limit" doc:"The maximum number of runs in the response."`
}

type retriedJob struct {
	Status string          `json:"status" enum:"queued" doc:"Always queued."`
	Job    provisioningJob `json:"job" doc:"The job as it is now."`
}

type provisioningRun struct {
	ID           string     `json:"id" format:"uuid" doc:"The run's id; used in paths."`
	Status       string     `json:"status" enum:"queued,running,action_required,completed,failed" doc:"The status is derived from the jobs. running: a job is running, or a started run waits and no job needs a person. action_required: a job needs a person and no job is running. failed: all jobs have ended, and at least one of them failed."`
	TotalDomains int        `json:"total_domains" doc:"The number of domains that were requested."`
	CreatedAt    time.Time  `json:"created_at" doc:"When the run was requested."`
	StartedAt    *time.Time `json:"started_at" doc:"When the first of its jobs started, null before that."`
	CompletedAt  *time.Time `json:"completed_at" doc:"When the last of its jobs ended, null before that."`
	UpdatedAt    *time.Time `json:"updated_at" doc:"When the run last changed, null if it has not changed yet."`
}

type provisioningJob struct {
	ID                 string    `json:"id" format:"uuid" doc:"The job's id; used in paths."`
	RunID              string    `json:"run_id" format:"uuid" doc:"The run it belongs to."`
	DomainID           string    `json:"domain_id" format:"uuid" doc:"The domain's id."`
	TenantID           string    `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DomainName         string    `json:"domain_name" doc:"The domain, in A-labels."`
	Stage              string    `json:"stage" enum:"queued,dns_plan,dns_apply,dns_propagation,domain_verification,dkim_publication,dkim_enablement,health_validation,done" doc:"The stage of the job."`
	Status             string    `json:"status" enum:"queued,running,waiting,action_required,completed,failed" doc:"waiting: the job continues automatically at next_attempt_at. action_required: a person must act, then retry the job."`
	Provider           *string   `json:"provider" doc:"The DNS provider that holds the zone, null while it is not known."`
	ActionRequiredCode *string   `json:"action_required_code" enum:"dns_connection_required,dns_conflict,dns_provider_unsupported,dns_credential_rejected,dns_changed,dns_read_unreliable,domain_unavailable,propagation_timeout,verification_timeout,dkim_timeout,tenant_access_lost" doc:"The action that a person must take, null for none."`
	Message            *string   `json:"message" doc:"The required action as a sentence, what the job waits for, or why it failed. Null if it is none of these."`
	NextAttemptAt      time.Time `json:"next_attempt_at" doc:"When the job makes its next attempt. If it makes none, when it made the last one."`
}

func begunRunOf(b dnsruns.StartedRun) begunRun {
	return begunRun{DomainID: b.DomainID, Run: runOf(b.Run), Jobs: convertAll(b.Jobs, jobOf)}
}

func retriedJobOf(j provisioning.Job) retriedJob {
	return retriedJob{Status: string(j.Status), Job: jobOf(j)}
}

func runOf(r provisioning.Run) provisioningRun {
	return provisioningRun{ID: r.ID, Status: string(r.Status), TotalDomains: r.TotalDomains, CreatedAt: r.CreatedAt.UTC(),
		StartedAt: timeOrNil(r.StartedAt), CompletedAt: timeOrNil(r.CompletedAt), UpdatedAt: timeOrNil(r.UpdatedAt)}
}

func jobOf(j provisioning.Job) provisioningJob {
	return provisioningJob{ID: j.ID, RunID: j.RunID, DomainID: j.DomainID, TenantID: string(j.TenantGUID), DomainName: j.DomainName,
		Stage: string(j.Stage), Status: string(j.Status), Provider: textOrNil(j.Provider), ActionRequiredCode: textOrNil(string(j.RequiredAction)),
		Message: textOrNil(j.Message), NextAttemptAt: j.NextAttemptAt.UTC()}
}
