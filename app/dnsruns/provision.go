// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// StartedRun is the result of Provision: a queued run with its jobs.
type StartedRun struct {
	DomainID string
	Run      provisioning.Run
	Jobs     []provisioning.Job
}

// Provision queues the provisioning of a domain and returns the run. It starts no run if the
// provider has no plugin, if no connection of the account can write to the zone, or if records of
// the zone conflict with the plan. An unreliable DNS read or a rejected credential does not prevent
// a run: the job then waits or requires an action.
//
// It fails with domain_not_found, dns_automation_not_in_plan, tenant_limit_reached, access_denied,
// domain_provisioning_already_active, an error of the survey, dns_provider_unsupported,
// dns_connection_required, or dns_conflict.
func (s *Service) Provision(ctx context.Context, acc access.Account, domainID string, encoder ports.AnswerEncoder[StartedRun]) (StartedRun, error) {
	d, err := s.Domains.DomainByID(ctx, acc.ID, domainID)
	if err != nil {
		return StartedRun{}, err
	}
	if err := s.checkPlan(ctx, acc); err != nil {
		return StartedRun{}, err
	}
	if err := s.checkDomain(ctx, acc.ID, d); err != nil {
		return StartedRun{}, err
	}
	survey, err := s.Survey.Survey(ctx, acc.ID, d.ID)
	if err != nil {
		return StartedRun{}, err
	}
	if err := checkAutomation(survey); err != nil {
		return StartedRun{}, err
	}
	return s.createRun(ctx, acc.ID, d, survey, encoder)
}

// checkPlan refuses accounts whose plan has no automatic DNS, and accounts that have more tenants
// than their plan allows.
func (s *Service) checkPlan(ctx context.Context, acc access.Account) error {
	if err := acc.CheckMayAutomateDNS(); err != nil {
		return err
	}
	tenantCount, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return err
	}
	return acc.CheckMayGrow(tenantCount)
}

// checkDomain refuses a domain whose tenant has no valid consent, and a domain that has an active
// job. If several concurrent requests pass this check, CreateRun accepts only one of them.
func (s *Service) checkDomain(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	t, err := s.Tenants.Tenant(ctx, owner, d.TenantGUID)
	if err != nil {
		return err
	}
	if err := t.CheckConsent(); err != nil {
		return err
	}
	j, found, err := s.Runs.ActiveJob(ctx, owner, d.ID)
	if err == nil && found {
		return fault.JobActive.With("the domain has a provisioning job that is %s", j.Status)
	}
	return err
}

// checkAutomation refuses a survey that finds no plugin for the provider, no usable connection, or
// a conflict. For other required actions, the job waits or requires the action.
func checkAutomation(survey domainsteps.Survey) error {
	switch a := survey.Automation(); a.Required {
	case dns.ProviderUnsupported:
		return fault.ProviderUnsupported.With("%s", a.Message)
	case dns.ConnectionRequired:
		return fault.ConnectionRequired.With("%s", a.Message)
	case dns.ConflictToResolve:
		return fault.DNSConflict.WithValues(survey.Plan.Blocking(), "%s", a.Message)
	default:
		return nil
	}
}

func (s *Service) createRun(ctx context.Context, owner access.AccountID, d domain.Domain, survey domainsteps.Survey,
	encoder ports.AnswerEncoder[StartedRun]) (StartedRun, error) {
	now := s.now()
	runID, err := ident.NewFrom(s.Random, now)
	if err != nil {
		return StartedRun{}, err
	}
	jobID, err := ident.NewFrom(s.Random, now)
	if err != nil {
		return StartedRun{}, err
	}
	j := provisioning.NewJob(jobID, runID, owner, d.ID, d.TenantGUID, d.Name, now)
	j.Provider, j.Trace = survey.Holder.Provider.ID, s.Trace(ctx)
	result := StartedRun{DomainID: d.ID, Jobs: []provisioning.Job{j}}
	result.Run = provisioning.Run{ID: runID, Account: owner, TotalDomains: len(result.Jobs), CreatedAt: now}.With(result.Jobs)
	storedAnswer, err := encoder.Encode(result)
	if err != nil {
		return StartedRun{}, err
	}
	if err := s.Runs.CreateRun(ctx, result.Run, result.Jobs, storedAnswer); err != nil {
		return StartedRun{}, err
	}
	s.wake(ctx, j)
	return result, nil
}

// wakeTimeout is the timeout for queueing a job.
const wakeTimeout = 5 * time.Second

// wake queues the job to start at once. If the wake-up is lost, the sweep finds the stored job. The
// due time is a time of the machine's clock, because queues use that clock. In the sandbox, the
// service's clock may be hours ahead.
func (s *Service) wake(ctx context.Context, j provisioning.Job) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	_ = s.Queue.Wake(ctx, ports.Wakeup{Kind: Kind, ID: j.ID, Account: j.Account, At: time.Now()})
}
