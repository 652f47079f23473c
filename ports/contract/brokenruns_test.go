// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// Each of these breaks one promise of ports.DNSRuns.
type (
	twoJobs struct { // a domain may have two active ones
		dnsRunsPort
		all Stores
	}
	halfRuns     struct{ dnsRunsPort }
	anybodysRuns struct {
		dnsRunsPort
		all Stores
	}
	anybodysJobs struct {
		dnsRunsPort
		all Stores
	}
	oldRunsFirst   struct{ dnsRunsPort }
	endlessRuns    struct{ dnsRunsPort }
	endedRunsToo   struct{ dnsRunsPort }
	retriesAll     struct{ dnsRunsPort }
	retryKeepsHold struct {
		dnsRunsPort
		all Stores
	}
	runsAlone  struct{ dnsRunsPort } // commits no answer
	undeadRuns struct {
		dnsRunsPort
		all Stores
	}
	tracelessRuns struct{ dnsRunsPort }
)

func (b twoJobs) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job) error {
	if j, found, _ := b.ActiveJob(ctx, r.Account, jobs[0].DomainID); found {
		j.Status = provisioning.Failed
		_, _ = b.all.SaveJob(ctx, j)
	}
	return b.dnsRunsPort.CreateRun(ctx, r, jobs)
}

func (b halfRuns) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job) error {
	if err := b.dnsRunsPort.CreateRun(ctx, r, jobs[:1]); err != nil || len(jobs) == 1 {
		return err
	}
	r.ID = runID(99)
	return b.dnsRunsPort.CreateRun(ctx, r, jobs[1:])
}

// everyone gives an answer that some account gets.
func everyone[T any](ctx context.Context, s Stores, get func(access.AccountID) (T, error)) (T, error) {
	all, _ := s.Accounts(ctx)
	for _, a := range all {
		if got, err := get(a.ID); err == nil {
			return got, nil
		}
	}
	return get("")
}

func (b anybodysRuns) Run(ctx context.Context, _ access.AccountID, id string) (r provisioning.Run, jobs []provisioning.Job, err error) {
	r, err = everyone(ctx, b.all, func(owner access.AccountID) (r provisioning.Run, err error) {
		r, jobs, err = b.dnsRunsPort.Run(ctx, owner, id)
		return r, err
	})
	return r, jobs, err
}

func (b anybodysJobs) RetryJob(ctx context.Context, _ access.AccountID, id string, now time.Time) (provisioning.Job, error) {
	return everyone(ctx, b.all, func(owner access.AccountID) (provisioning.Job, error) {
		return b.dnsRunsPort.RetryJob(ctx, owner, id, now)
	})
}

func (b oldRunsFirst) Runs(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	all, err := b.dnsRunsPort.Runs(ctx, owner, q)
	slices.Reverse(all)
	return all, err
}

func (b endlessRuns) Runs(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	q.Limit = 1000
	return b.dnsRunsPort.Runs(ctx, owner, q)
}

func (b endedRunsToo) Runs(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	q.ActiveOnly = false
	return b.dnsRunsPort.Runs(ctx, owner, q)
}

func (b retriesAll) RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time) (provisioning.Job, error) {
	j, err := b.dnsRunsPort.RetryJob(ctx, owner, id, now)
	if err != nil && fault.Of(err).Code == fault.JobNotRetryable {
		return b.Job(ctx, owner, id)
	}
	return j, err
}

func (b retryKeepsHold) RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time) (provisioning.Job, error) {
	before, err := b.Job(ctx, owner, id)
	if err != nil || before.Status != provisioning.Waiting && before.Status != provisioning.ActionRequired {
		return b.dnsRunsPort.RetryJob(ctx, owner, id, now)
	}
	j, err := provisioning.Retry(before, now)
	j.Epoch = before.Epoch
	_, _ = b.all.SaveJob(ctx, j)
	return j, err
}

func (b runsAlone) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job) error {
	return b.dnsRunsPort.CreateRun(context.WithoutCancel(context.Background()), r, jobs)
}

// undeadRuns shows what was there before.
func (b undeadRuns) Job(ctx context.Context, owner access.AccountID, id string) (provisioning.Job, error) {
	j, err := b.dnsRunsPort.Job(ctx, owner, id)
	if err != nil && id == jobID(1) {
		if ids, _ := b.all.Tenants(ctx, owner); len(ids) == 0 {
			return provisioning.Job{ID: id, Account: owner}, nil
		}
	}
	return j, err
}

func (b tracelessRuns) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job) error {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Trace = ""
	}
	return b.dnsRunsPort.CreateRun(ctx, r, jobs)
}

func TestBrokenRunsAreNoticed(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite []storeCheck
		spoil func(Stores) Stores
	}{
		"a domain has two active jobs":    {dnsRunChecks, func(s Stores) Stores { return with(s, twoJobs{s, s}) }},
		"a refused run leaves a job":      {dnsRunChecks, func(s Stores) Stores { return with(s, halfRuns{s}) }},
		"foreign runs are found":          {dnsRunChecks, func(s Stores) Stores { return with(s, anybodysRuns{s, s}) }},
		"foreign jobs are retried":        {dnsRunChecks, func(s Stores) Stores { return with(s, anybodysJobs{s, s}) }},
		"the oldest run comes first":      {dnsRunChecks, func(s Stores) Stores { return with(s, oldRunsFirst{s}) }},
		"all runs are listed":             {dnsRunChecks, func(s Stores) Stores { return with(s, endlessRuns{s}) }},
		"ended runs are active":           {dnsRunChecks, func(s Stores) Stores { return with(s, endedRunsToo{s}) }},
		"any job is retried":              {dnsRetryChecks, func(s Stores) Stores { return with(s, retriesAll{s}) }},
		"a retry leaves a worker its job": {dnsRetryChecks, func(s Stores) Stores { return with(s, retryKeepsHold{s, s}) }},
		"a run commits no answer":         {dnsRetryChecks, func(s Stores) Stores { return with(s, runsAlone{s}) }},
		"a job outlives its domain":       {dnsRetryChecks, func(s Stores) Stores { return with(s, undeadRuns{s, s}) }},
		"a trace is lost":                 {dnsRunChecks, func(s Stores) Stores { return with(s, tracelessRuns{s}) }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, b.suite, b.spoil) })
	}
}
