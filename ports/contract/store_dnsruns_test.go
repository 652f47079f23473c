// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// Each of these types breaks one promise of ports.DNSRuns.
type (
	twoJobs struct { // a domain can have two active jobs
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

func (b twoJobs) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job, completion *ports.Completion) error {
	if j, found, _ := b.ActiveJob(ctx, r.Account, jobs[0].DomainID); found {
		j.Status = provisioning.Failed
		_, _ = b.all.SaveJob(ctx, j)
	}
	return b.dnsRunsPort.CreateRun(ctx, r, jobs, completion)
}

func (b halfRuns) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job, completion *ports.Completion) error {
	if err := b.dnsRunsPort.CreateRun(ctx, r, jobs[:1], completion); err != nil || len(jobs) == 1 {
		return err
	}
	r.ID = runID(99)
	return b.dnsRunsPort.CreateRun(ctx, r, jobs[1:], nil)
}

// firstSuccess calls get for one account after the other and returns the first success.
func firstSuccess[T any](ctx context.Context, s Stores, get func(access.AccountID) (T, error)) (T, error) {
	all, _ := s.Accounts(ctx)
	for _, a := range all {
		if got, err := get(a.ID); err == nil {
			return got, nil
		}
	}
	return get("")
}

func (b anybodysRuns) Run(ctx context.Context, _ access.AccountID, id string) (r provisioning.Run, jobs []provisioning.Job, err error) {
	r, err = firstSuccess(ctx, b.all, func(owner access.AccountID) (r provisioning.Run, err error) {
		r, jobs, err = b.dnsRunsPort.Run(ctx, owner, id)
		return r, err
	})
	return r, jobs, err
}

func (b anybodysJobs) RetryJob(ctx context.Context, _ access.AccountID, id string, now time.Time, completion *ports.Completion) (provisioning.Job, error) {
	return firstSuccess(ctx, b.all, func(owner access.AccountID) (provisioning.Job, error) {
		return b.dnsRunsPort.RetryJob(ctx, owner, id, now, completion)
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

func (b retriesAll) RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time, completion *ports.Completion) (provisioning.Job, error) {
	j, err := b.dnsRunsPort.RetryJob(ctx, owner, id, now, completion)
	if err != nil && fault.Of(err).Code == fault.JobNotRetryable {
		return b.Job(ctx, owner, id)
	}
	return j, err
}

func (b retryKeepsHold) RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time, completion *ports.Completion) (provisioning.Job, error) {
	before, err := b.Job(ctx, owner, id)
	if err != nil || before.Status != provisioning.Waiting && before.Status != provisioning.ActionRequired {
		return b.dnsRunsPort.RetryJob(ctx, owner, id, now, completion)
	}
	j, err := provisioning.Retry(before, now)
	j.Epoch = before.Epoch
	_, _ = b.all.SaveJob(ctx, j)
	return j, err
}

func (b runsAlone) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job, _ *ports.Completion) error {
	return b.dnsRunsPort.CreateRun(ctx, r, jobs, nil)
}

// undeadRuns returns jobs that have been deleted.
func (b undeadRuns) Job(ctx context.Context, owner access.AccountID, id string) (provisioning.Job, error) {
	j, err := b.dnsRunsPort.Job(ctx, owner, id)
	if err != nil && id == jobID(1) {
		if ids, _ := b.all.Tenants(ctx, owner); len(ids) == 0 {
			return provisioning.Job{ID: id, Account: owner}, nil
		}
	}
	return j, err
}

func (b tracelessRuns) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job, completion *ports.Completion) error {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Trace = ""
	}
	return b.dnsRunsPort.CreateRun(ctx, r, jobs, completion)
}

func TestDNSRunSuitesDetectBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite        []storeCheck
		breakPromise func(Stores) Stores
	}{
		"a domain has two active jobs":    {dnsRunChecks, func(s Stores) Stores { return withPort(s, twoJobs{s, s}) }},
		"a refused run leaves a job":      {dnsRunChecks, func(s Stores) Stores { return withPort(s, halfRuns{s}) }},
		"foreign runs are found":          {dnsRunChecks, func(s Stores) Stores { return withPort(s, anybodysRuns{s, s}) }},
		"foreign jobs are retried":        {dnsRunChecks, func(s Stores) Stores { return withPort(s, anybodysJobs{s, s}) }},
		"the oldest run comes first":      {dnsRunChecks, func(s Stores) Stores { return withPort(s, oldRunsFirst{s}) }},
		"all runs are listed":             {dnsRunChecks, func(s Stores) Stores { return withPort(s, endlessRuns{s}) }},
		"ended runs are active":           {dnsRunChecks, func(s Stores) Stores { return withPort(s, endedRunsToo{s}) }},
		"every job can be retried":        {dnsRetryChecks, func(s Stores) Stores { return withPort(s, retriesAll{s}) }},
		"a retry leaves a worker its job": {dnsRetryChecks, func(s Stores) Stores { return withPort(s, retryKeepsHold{s, s}) }},
		"a run commits no answer":         {dnsRetryChecks, func(s Stores) Stores { return withPort(s, runsAlone{s}) }},
		"a job outlives its domain":       {dnsRetryChecks, func(s Stores) Stores { return withPort(s, undeadRuns{s, s}) }},
		"a trace is lost":                 {dnsRunChecks, func(s Stores) Stores { return withPort(s, tracelessRuns{s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, b.suite, b.breakPromise) })
	}
}

// Each of these types breaks one promise of ports.DNSJobs.
type (
	unfencedJobs struct {
		dnsJobsPort
		all Stores
	}
	impatientJobs struct {
		dnsJobsPort
		all Stores
	}
	earlyJobs   struct{ dnsJobsPort }
	sharedJobs  struct{ dnsJobsPort } // every claim wins
	oneEpoch    struct{ dnsJobsPort }
	keepsLease  struct{ dnsJobsPort }
	losesLease  struct{ dnsJobsPort }
	cutsMessage struct{ dnsJobsPort }
	heldWaiting struct {
		dnsJobsPort
		all Stores
	}
	neverReleased struct {
		dnsJobsPort
		all Stores
	}
	firstComeFirst struct{ Stores }
	busyIsNothing  struct{ Stores }
	allAreDue      struct{ dnsJobsPort }
)

// unfencedJobs saves a job for a worker that has lost it.
func (b unfencedJobs) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	if now, err := b.all.Job(ctx, j.Account, j.ID); err == nil {
		j.Epoch = now.Epoch
	}
	return b.dnsJobsPort.SaveJob(ctx, j)
}

// impatientJobs claims a job although its lease has not expired.
func (b impatientJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, at time.Time) (provisioning.Job, bool, error) {
	j, won, err := b.dnsJobsPort.ClaimJob(ctx, id, lease, at)
	if won || err != nil {
		return j, won, err
	}
	found, lost := firstSuccess(ctx, b.all, func(owner access.AccountID) (provisioning.Job, error) { return b.all.Job(ctx, owner, id) })
	if lost == nil && at.Sub(now) > 100*time.Hour {
		_, _ = b.HoldJob(ctx, found, expiredLease)
	}
	return b.dnsJobsPort.ClaimJob(ctx, id, lease, at)
}

func (b earlyJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, at time.Time) (provisioning.Job, bool, error) {
	return b.dnsJobsPort.ClaimJob(ctx, id, lease, at.Add(time.Minute))
}

func (b sharedJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, at time.Time) (provisioning.Job, bool, error) {
	j, won, err := b.dnsJobsPort.ClaimJob(ctx, id, lease, at)
	if !won && err == nil && id == jobID(1) {
		return j, true, nil
	}
	return j, won, err
}

func (b oneEpoch) ClaimJob(ctx context.Context, id string, lease time.Duration, at time.Time) (provisioning.Job, bool, error) {
	j, won, err := b.dnsJobsPort.ClaimJob(ctx, id, lease, at)
	j.Epoch = 1
	return j, won, err
}

func (b keepsLease) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	status := j.Status
	j.Status = provisioning.Running
	held, err := b.dnsJobsPort.SaveJob(ctx, j)
	if status != provisioning.Waiting {
		j.Status = status
		return b.dnsJobsPort.SaveJob(ctx, j)
	}
	return held, err
}

func (b losesLease) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	held, err := b.dnsJobsPort.SaveJob(ctx, j)
	_, _ = b.HoldJob(ctx, j, expiredLease)
	return held, err
}

func (b cutsMessage) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	j.Message, _, _ = strings.Cut(j.Message, "'")
	return b.dnsJobsPort.SaveJob(ctx, j)
}

func (b heldWaiting) HoldJob(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	held, err := b.dnsJobsPort.HoldJob(ctx, j, lease)
	now, lost := b.all.Job(ctx, j.Account, j.ID)
	return held || lost == nil && now.Epoch == j.Epoch, err
}

func (b neverReleased) ReleaseJob(ctx context.Context, j provisioning.Job, _ time.Time) (bool, error) {
	now, err := b.all.Job(ctx, j.Account, j.ID)
	return err == nil && now.Epoch == j.Epoch, nil
}

func (b firstComeFirst) DueJobs(ctx context.Context, at time.Time, most int) ([]ports.DueJob, error) {
	all, err := b.Stores.DueJobs(ctx, at, 1000)
	slices.SortStableFunc(all, func(a, b ports.DueJob) int { return a.At.Compare(b.At) })
	return all[:min(most, len(all))], err
}

// busyIsNothing orders accounts without counting their running jobs.
func (b busyIsNothing) DueJobs(ctx context.Context, at time.Time, most int) ([]ports.DueJob, error) {
	all, err := b.Stores.DueJobs(ctx, at, 1000)
	seen, rank := map[access.AccountID]int{}, map[string]int{}
	for _, d := range all {
		seen[d.Account]++
		rank[d.ID] = seen[d.Account]
	}
	slices.SortStableFunc(all, func(a, b ports.DueJob) int {
		if rank[a.ID] != rank[b.ID] {
			return rank[a.ID] - rank[b.ID]
		}
		return a.At.Compare(b.At)
	})
	return all[:min(most, len(all))], err
}

func (b allAreDue) DueJobs(ctx context.Context, _ time.Time, most int) ([]ports.DueJob, error) {
	return b.dnsJobsPort.DueJobs(ctx, dueTime.Add(1000*time.Hour), most)
}

func TestDNSJobSuiteDetectsBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, breakPromise := range map[string]func(Stores) Stores{
		"a worker that lost its job writes":          func(s Stores) Stores { return withPort(s, unfencedJobs{s, s}) },
		"the caller's clock ends a lease":            func(s Stores) Stores { return withPort(s, impatientJobs{s, s}) },
		"a job is claimed before its time":           func(s Stores) Stores { return withPort(s, earlyJobs{s}) },
		"several concurrent claims succeed":          func(s Stores) Stores { return withPort(s, sharedJobs{s}) },
		"claims share an epoch":                      func(s Stores) Stores { return withPort(s, oneEpoch{s}) },
		"a waiting job is not stored as waiting":     func(s Stores) Stores { return withPort(s, keepsLease{s}) },
		"a running job loses its lease":              func(s Stores) Stores { return withPort(s, losesLease{s}) },
		"a message is truncated":                     func(s Stores) Stores { return withPort(s, cutsMessage{s}) },
		"the lease of a waiting job is extended":     func(s Stores) Stores { return withPort(s, heldWaiting{s, s}) },
		"a released job stays leased":                func(s Stores) Stores { return withPort(s, neverReleased{s, s}) },
		"one account's jobs come first":              func(s Stores) Stores { return firstComeFirst{s} },
		"running jobs of an account are not counted": func(s Stores) Stores { return busyIsNothing{s} },
		"jobs are due before their time":             func(s Stores) Stores { return withPort(s, allAreDue{s}) },
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, dnsJobChecks, breakPromise) })
	}
}
