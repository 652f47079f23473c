// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"fmt"
	"io"
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

// Begun is a run that has been queued, with its jobs.
type Begun struct {
	DomainID string
	Run      provisioning.Run
	Jobs     []provisioning.Job
}

// Provision queues the provisioning of a domain and returns the run. It refuses conditions that
// only a person can fix, so that no job is started. Conditions that may pass within an hour, such
// as an unreliable DNS read, are left to the job.
//
// It fails with domain_not_found, dns_automation_not_in_plan, tenant_limit_reached, a code of
// Tenant.Reachable, domain_provisioning_already_active, an error of the survey,
// dns_provider_unsupported, dns_connection_required, or dns_conflict.
func (s *Service) Provision(ctx context.Context, acc access.Account, domainID string, answer ports.Answer[Begun]) (Begun, error) {
	d, err := s.Domains.DomainByID(ctx, acc.ID, domainID)
	if err != nil {
		return Begun{}, err
	}
	if err := s.checkPlan(ctx, acc); err != nil {
		return Begun{}, err
	}
	if err := s.checkDomain(ctx, acc.ID, d); err != nil {
		return Begun{}, err
	}
	v, err := s.Survey.Survey(ctx, acc.ID, d.ID)
	if err != nil {
		return Begun{}, err
	}
	if err := checkAutomation(v); err != nil {
		return Begun{}, err
	}
	return s.createRun(ctx, acc.ID, d, v, answer)
}

// checkPlan refuses accounts whose plan has no automatic DNS, or which have more tenants than the
// plan allows.
func (s *Service) checkPlan(ctx context.Context, acc access.Account) error {
	if err := acc.MayAutomateDNS(); err != nil {
		return err
	}
	tenantCount, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return err
	}
	return acc.MayGrow(tenantCount)
}

// checkDomain refuses a tenant that cannot be reached and a domain that has an active job. If
// several requests pass this check concurrently, CreateRun accepts one.
func (s *Service) checkDomain(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	t, err := s.Tenants.Tenant(ctx, owner, d.TenantGUID)
	if err != nil {
		return err
	}
	if err := t.Reachable(); err != nil {
		return err
	}
	j, found, err := s.Runs.ActiveJob(ctx, owner, d.ID)
	if err == nil && found {
		return fault.JobActive.With("the domain has a provisioning job that is %s", j.Status)
	}
	return err
}

// checkAutomation refuses a survey with a condition that a person must fix first.
func checkAutomation(v domainsteps.Survey) error {
	switch a := v.Automation(); a.Required {
	case dns.ProviderUnsupported:
		return fault.ProviderUnsupported.With("%s", a.Message)
	case dns.ConnectionRequired:
		return fault.ConnectionRequired.With("%s", a.Message)
	case dns.ConflictToResolve:
		return fault.DNSConflict.WithValues(v.Plan.Blocking(), "%s", a.Message)
	default:
		return nil
	}
}

func (s *Service) createRun(ctx context.Context, owner access.AccountID, d domain.Domain, v domainsteps.Survey,
	answer ports.Answer[Begun]) (Begun, error) {
	now := s.now()
	runID, err := s.newID(now)
	if err != nil {
		return Begun{}, err
	}
	jobID, err := s.newID(now)
	if err != nil {
		return Begun{}, err
	}
	j := provisioning.New(jobID, runID, owner, d.ID, d.TenantGUID, d.Name, now)
	j.Provider, j.Trace = v.Holder.Provider.ID, s.Trace(ctx)
	b := Begun{DomainID: d.ID, Jobs: []provisioning.Job{j}}
	b.Run = provisioning.Run{ID: runID, Account: owner, TotalDomains: len(b.Jobs), CreatedAt: now}.With(b.Jobs)
	completion, err := answer.Completion(b)
	if err != nil {
		return Begun{}, err
	}
	if err := s.Runs.CreateRun(ctx, b.Run, b.Jobs, completion); err != nil {
		return Begun{}, err
	}
	s.wake(ctx, j)
	return b, nil
}

func (s *Service) newID(now time.Time) (string, error) {
	var random [ident.Entropy]byte
	if _, err := io.ReadFull(s.Random, random[:]); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	return ident.New(now, random), nil
}

// wakeLimit bounds how long a caller waits for a job to be queued.
const wakeLimit = 5 * time.Second

// wake queues the job to start at once. A lost wake-up is harmless: the job is stored, and the
// sweep finds it.
func (s *Service) wake(ctx context.Context, j provisioning.Job) {
	ctx, cancel := context.WithTimeout(ctx, wakeLimit)
	defer cancel()
	_ = s.Queue.Wake(ctx, ports.Wakeup{Kind: Kind, ID: j.ID, Account: j.Account, At: j.NextAttemptAt})
}
