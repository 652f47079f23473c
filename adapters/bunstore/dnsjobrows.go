// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
)

type dnsRunRow struct {
	bun.BaseModel `bun:"table:dns_runs,alias:dr"`

	AccountID    string `bun:",pk"`
	ID           string `bun:",pk"`
	TotalDomains int
	CreatedAt    time.Time
}

func (r dnsRunRow) run(jobs []provisioning.Job) provisioning.Run {
	return provisioning.Run{
		ID: r.ID, Account: access.AccountID(r.AccountID), TotalDomains: r.TotalDomains, CreatedAt: r.CreatedAt.UTC(),
	}.With(jobs)
}

type dnsJobRow struct {
	bun.BaseModel `bun:"table:dns_jobs,alias:dj"`

	AccountID     string `bun:",pk"`
	ID            string `bun:",pk"`
	RunID         string
	DomainID      string
	TenantGUID    string `bun:"tenant_guid"`
	DomainName    string
	Stage         string
	Status        string
	NextStep      string
	Provider      string
	Required      string
	Message       string
	NextAttemptAt time.Time
	Epoch         int64
	LeasedUntil   int64 // see clock
	Trace         string
	Progress      progress `bun:"type:jsonb"`
	CreatedAt     time.Time
	StartedAt     time.Time `bun:",nullzero"`
	EndedAt       time.Time `bun:",nullzero"`
	UpdatedAt     time.Time
}

// progress is how a job's Progress stands in the database. Its field names are
// the stored ones: a new name is a migration.
type progress struct {
	PlanHash               string
	Moves, Attempt, Faults int
	Since                  time.Time
	Away                   time.Duration
	AwaySince              time.Time
	UnreliableSince        time.Time
	SeenAt, PublishedAt    time.Time
	NegativeTTL            time.Duration
}

func newDNSJobRow(j provisioning.Job) dnsJobRow {
	return dnsJobRow{
		AccountID: account(j.Account), ID: ident.Lookup(j.ID), RunID: ident.Lookup(j.RunID), DomainID: ident.Lookup(j.DomainID),
		TenantGUID: ident.Lookup(string(j.TenantGUID)), DomainName: text(j.DomainName),
		Stage: text(string(j.Stage)), Status: text(string(j.Status)), NextStep: text(string(j.Next)),
		Provider: text(j.Provider), Required: text(string(j.Required)), Message: text(j.Message),
		NextAttemptAt: micro(j.NextAttemptAt), Epoch: j.Epoch, Trace: text(j.Trace), Progress: newProgress(j.Progress),
		CreatedAt: micro(j.CreatedAt), StartedAt: micro(j.StartedAt), EndedAt: micro(j.EndedAt), UpdatedAt: micro(j.UpdatedAt),
	}
}

func newProgress(p provisioning.Progress) progress {
	stored := progress(p)
	stored.PlanHash = text(p.PlanHash)
	return stored
}

func (r dnsJobRow) job() provisioning.Job {
	return provisioning.Job{
		ID: r.ID, RunID: r.RunID, Account: access.AccountID(r.AccountID), DomainID: r.DomainID,
		TenantGUID: tenant.GUID(r.TenantGUID), DomainName: r.DomainName,
		Stage: provisioning.Stage(r.Stage), Status: provisioning.Status(r.Status), Next: provisioning.Step(r.NextStep),
		Provider: r.Provider, Required: dns.ActionRequired(r.Required), Message: r.Message,
		NextAttemptAt: r.NextAttemptAt.UTC(), Epoch: r.Epoch, Trace: r.Trace, Progress: r.Progress.times(),
		CreatedAt: r.CreatedAt.UTC(), StartedAt: r.StartedAt.UTC(), EndedAt: r.EndedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

func (p progress) times() provisioning.Progress {
	for _, t := range []*time.Time{&p.Since, &p.AwaySince, &p.UnreliableSince, &p.SeenAt, &p.PublishedAt} {
		*t = t.UTC()
	}
	return provisioning.Progress(p)
}
