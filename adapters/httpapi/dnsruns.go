// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

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

func provisioningOperations(api huma.API, service *dnsruns.Service) {
	provisionDNS(api, service)
	listRuns(api, service)
	getRun(api, service)
	retryJob(api, service)
}

func provisionDNS(api huma.API, service *dnsruns.Service) {
	register(api, huma.Operation{
		OperationID: "provision-domain-dns", Method: http.MethodPost, Path: "/v1/domains/{domain_id}/dns/provision", Tags: []string{tagDNS},
		DefaultStatus: http.StatusAccepted,
		Summary:       "Provision a domain's DNS",
		Description: "Queues a job that takes the domain all the way: its records are written at the account's DNS provider, seen on all " +
			"name servers, verified by the mail platform, signed with DKIM and checked once more. The answer comes before that; follow the " +
			"run. What only a person can settle is refused at once; a read of the DNS that is not reliable is not, the job waits for a " +
			"better one. A domain has one active job.",
		Metadata: terms{bucket: providerHeavy, write: true, answer: exampleBegun, refuses: codes(platformCodes, only(fault.DNSAutomationNotInPlan,
			fault.TenantLimitReached, fault.DomainNotFound, fault.ProviderUnsupported, fault.ConnectionRequired, fault.DNSConflict,
			fault.JobActive))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *domainIDPath) (begunRun, error) {
		b, err := service.Provision(completing(ctx, begunOf), who.Account, ident.Lookup(in.DomainID))
		if err != nil {
			return begunRun{}, err
		}
		return begunOf(b), nil
	})
}

func getRun(api huma.API, service *dnsruns.Service) {
	register(api, huma.Operation{
		OperationID: "get-provisioning-run", Method: http.MethodGet, Path: "/v1/dns/provisioning-runs/{run_id}", Tags: []string{tagDNS},
		Summary:     "Get a provisioning run",
		Description: "Returns a run with its jobs: how far each has come, what it waits for, and what a person has to do.",
		Metadata:    terms{bucket: reads, answer: exampleRunDetail, refuses: only(fault.RunNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *runPath) (runDetail, error) {
		r, jobs, err := service.Get(ctx, who.Account.ID, ident.Lookup(in.RunID))
		if err != nil {
			return runDetail{}, err
		}
		return runDetail{Run: runOf(r), Jobs: each(jobs, jobOf)}, nil
	})
}

func retryJob(api huma.API, service *dnsruns.Service) {
	register(api, huma.Operation{
		OperationID: "retry-provisioning-job", Method: http.MethodPost, Path: "/v1/dns/provisioning-jobs/{job_id}/retry", Tags: []string{tagDNS},
		Summary: "Retry a provisioning job",
		Description: "Queues a job that is `waiting` or `action_required` for another attempt, now. It goes on where it stopped; after a " +
			"stop it has all its time again.",
		Metadata: terms{bucket: providerHeavy, write: true, answer: exampleRetried, refuses: only(fault.DNSAutomationNotInPlan,
			fault.TenantLimitReached, fault.JobNotFound, fault.JobNotRetryable)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *jobPath) (retriedJob, error) {
		j, err := service.Retry(completing(ctx, retriedOf), who.Account, ident.Lookup(in.JobID))
		if err != nil {
			return retriedJob{}, err
		}
		return retriedOf(j), nil
	})
}

// runsInput keeps its parameters as text, because huma accepts more spellings of booleans and
// numbers than the document allows.
type runsInput struct {
	ActiveOnly string `query:"active_only"`
	Limit      string `query:"limit"`
}

// The default and the maximum number of runs in a list.
const (
	defaultRunLimit = 20
	maxRunLimit     = 100
)

func listRuns(api huma.API, service *dnsruns.Service) {
	register(api, huma.Operation{
		OperationID: "list-provisioning-runs", Method: http.MethodGet, Path: "/v1/dns/provisioning-runs", Tags: []string{tagDNS},
		Summary:     "List provisioning runs",
		Description: "Lists the account's provisioning runs, newest first.",
		Metadata:    terms{bucket: reads, answer: exampleRunList, refuses: only(fault.InvalidRequest)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *runsInput) (runList, error) {
		q, err := in.query()
		if err != nil {
			return runList{}, err
		}
		all, err := service.List(ctx, who.Account.ID, q)
		if err != nil {
			return runList{}, err
		}
		list := each(all, runOf)
		return runList{Runs: list, Count: len(list), Limit: q.Limit}, nil
	})
}

func (in *runsInput) query() (ports.RunQuery, error) {
	q := ports.RunQuery{ActiveOnly: in.ActiveOnly == "true", Limit: defaultRunLimit}
	var wrong []fault.Field
	if in.ActiveOnly != "" && in.ActiveOnly != "true" && in.ActiveOnly != "false" {
		wrong = append(wrong, fault.Field{Location: "query.active_only", Message: "neither true nor false"})
	}
	if in.Limit != "" && !parsePlainInt(in.Limit, 1, maxRunLimit, &q.Limit) {
		wrong = append(wrong, fault.Field{Location: "query.limit", Message: "no integer from 1 to 100"})
	}
	if wrong != nil {
		return q, invalid("a query parameter is not valid", wrong...)
	}
	return q, nil
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
