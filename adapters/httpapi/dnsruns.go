// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
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
