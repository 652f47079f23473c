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

// Each of these breaks one promise of ports.DNSRuns or ports.DNSJobs.
type (
	twoJobs        struct{ Stores } // a domain may have two active ones
	halfRuns       struct{ Stores }
	anybodysRuns   struct{ Stores }
	anybodysJobs   struct{ Stores }
	oldRunsFirst   struct{ Stores }
	endlessRuns    struct{ Stores }
	endedRunsToo   struct{ Stores }
	retriesAll     struct{ Stores }
	retryKeepsHold struct{ Stores }
	runsAlone      struct{ Stores } // commits no answer
	undeadRuns     struct{ Stores }
	tracelessRuns  struct{ Stores }
	unfencedJobs   struct{ Stores }
	impatientJobs  struct{ Stores }
	earlyJobs      struct{ Stores }
	sharedJobs     struct{ Stores } // every claim wins
	oneEpoch       struct{ Stores }
	keepsLease     struct{ Stores }
	losesLease     struct{ Stores }
	cutsMessage    struct{ Stores }
	heldWaiting    struct{ Stores }
	neverReleased  struct{ Stores }
	firstComeFirst struct{ Stores }
	busyIsNothing  struct{ Stores }
	allAreDue      struct{ Stores }
)

func (b twoJobs) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job) error {
	if j, found, _ := b.ActiveJob(ctx, r.Account, jobs[0].DomainID); found {
		j.Status = provisioning.Failed
		_, _ = b.SaveJob(ctx, j)
	}
	return b.Stores.CreateRun(ctx, r, jobs)
}

func (b halfRuns) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job) error {
	if err := b.Stores.CreateRun(ctx, r, jobs[:1]); err != nil || len(jobs) == 1 {
		return err
	}
	r.ID = runID(99)
	return b.Stores.CreateRun(ctx, r, jobs[1:])
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
	r, err = everyone(ctx, b.Stores, func(owner access.AccountID) (r provisioning.Run, err error) {
		r, jobs, err = b.Stores.Run(ctx, owner, id)
		return r, err
	})
	return r, jobs, err
}

func (b anybodysJobs) RetryJob(ctx context.Context, _ access.AccountID, id string, now time.Time) (provisioning.Job, error) {
	return everyone(ctx, b.Stores, func(owner access.AccountID) (provisioning.Job, error) {
		return b.Stores.RetryJob(ctx, owner, id, now)
	})
}

func (b oldRunsFirst) Runs(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	all, err := b.Stores.Runs(ctx, owner, q)
	slices.Reverse(all)
	return all, err
}

func (b endlessRuns) Runs(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	q.Limit = 1000
	return b.Stores.Runs(ctx, owner, q)
}

func (b endedRunsToo) Runs(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	q.ActiveOnly = false
	return b.Stores.Runs(ctx, owner, q)
}

func (b retriesAll) RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time) (provisioning.Job, error) {
	j, err := b.Stores.RetryJob(ctx, owner, id, now)
	if err != nil && fault.Of(err).Code == fault.JobNotRetryable {
		return b.Job(ctx, owner, id)
	}
	return j, err
}

func (b retryKeepsHold) RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time) (provisioning.Job, error) {
	before, err := b.Job(ctx, owner, id)
	if err != nil || before.Status != provisioning.Waiting && before.Status != provisioning.ActionRequired {
		return b.Stores.RetryJob(ctx, owner, id, now)
	}
	j, err := provisioning.Retry(before, now)
	j.Epoch = before.Epoch
	_, _ = b.SaveJob(ctx, j)
	return j, err
}

func (b runsAlone) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job) error {
	return b.Stores.CreateRun(context.WithoutCancel(context.Background()), r, jobs)
}

// undeadRuns shows what was there before.
func (b undeadRuns) Job(ctx context.Context, owner access.AccountID, id string) (provisioning.Job, error) {
	j, err := b.Stores.Job(ctx, owner, id)
	if err != nil && id == jobID(1) {
		if ids, _ := b.Tenants(ctx, owner); len(ids) == 0 {
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
	return b.Stores.CreateRun(ctx, r, jobs)
}

// unfencedJobs saves for whoever has the job.
func (b unfencedJobs) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	if now, err := b.Job(ctx, j.Account, j.ID); err == nil {
		j.Epoch = now.Epoch
	}
	return b.Stores.SaveJob(ctx, j)
}

// impatientJobs takes a job from whoever works on it.
func (b impatientJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, at time.Time) (provisioning.Job, bool, error) {
	j, won, err := b.Stores.ClaimJob(ctx, id, lease, at)
	if won || err != nil {
		return j, won, err
	}
	found, err := everyone(ctx, b.Stores, func(owner access.AccountID) (provisioning.Job, error) { return b.Job(ctx, owner, id) })
	if err != nil || at.Sub(now) < 100*time.Hour {
		return j, false, nil
	}
	_, _ = b.HoldJob(ctx, found, over)
	return b.Stores.ClaimJob(ctx, id, lease, at)
}

func (b earlyJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, at time.Time) (provisioning.Job, bool, error) {
	return b.Stores.ClaimJob(ctx, id, lease, at.Add(time.Minute))
}

func (b sharedJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, at time.Time) (provisioning.Job, bool, error) {
	j, won, err := b.Stores.ClaimJob(ctx, id, lease, at)
	if !won && err == nil && id == jobID(1) {
		return j, true, nil
	}
	return j, won, err
}

func (b oneEpoch) ClaimJob(ctx context.Context, id string, lease time.Duration, at time.Time) (provisioning.Job, bool, error) {
	j, won, err := b.Stores.ClaimJob(ctx, id, lease, at)
	j.Epoch = 1
	return j, won, err
}

func (b keepsLease) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	status := j.Status
	j.Status = provisioning.Running
	held, err := b.Stores.SaveJob(ctx, j)
	if status != provisioning.Waiting {
		j.Status = status
		return b.Stores.SaveJob(ctx, j)
	}
	return held, err
}

func (b losesLease) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	held, err := b.Stores.SaveJob(ctx, j)
	_, _ = b.HoldJob(ctx, j, over)
	return held, err
}

func (b cutsMessage) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	j.Message, _, _ = strings.Cut(j.Message, "'")
	return b.Stores.SaveJob(ctx, j)
}

func (b heldWaiting) HoldJob(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	held, err := b.Stores.HoldJob(ctx, j, lease)
	now, lost := b.Job(ctx, j.Account, j.ID)
	return held || lost == nil && now.Epoch == j.Epoch, err
}

func (b neverReleased) ReleaseJob(ctx context.Context, j provisioning.Job, _ time.Time) (bool, error) {
	now, err := b.Job(ctx, j.Account, j.ID)
	return err == nil && now.Epoch == j.Epoch, nil
}

func (b firstComeFirst) DueJobs(ctx context.Context, at time.Time, most int) ([]ports.DueJob, error) {
	all, err := b.Stores.DueJobs(ctx, at, 1000)
	slices.SortStableFunc(all, func(a, b ports.DueJob) int { return a.At.Compare(b.At) })
	return all[:min(most, len(all))], err
}

// busyIsNothing takes turns, whoever is at work.
func (b busyIsNothing) DueJobs(ctx context.Context, at time.Time, most int) ([]ports.DueJob, error) {
	all, err := b.Stores.DueJobs(ctx, at, 1000)
	seen, place := map[access.AccountID]int{}, map[string]int{}
	for _, d := range all {
		seen[d.Account]++
		place[d.ID] = seen[d.Account]
	}
	slices.SortStableFunc(all, func(a, b ports.DueJob) int {
		if place[a.ID] != place[b.ID] {
			return place[a.ID] - place[b.ID]
		}
		return a.At.Compare(b.At)
	})
	return all[:min(most, len(all))], err
}

func (b allAreDue) DueJobs(ctx context.Context, _ time.Time, most int) ([]ports.DueJob, error) {
	return b.Stores.DueJobs(ctx, later.Add(1000*time.Hour), most)
}

func TestBrokenRunsAreNoticed(t *testing.T) {
	for name, b := range map[string]struct {
		suite []storeCheck
		spoil func(Stores) Stores
	}{
		"a domain has two active jobs":          {dnsRunChecks, func(s Stores) Stores { return twoJobs{s} }},
		"a refused run leaves a job":            {dnsRunChecks, func(s Stores) Stores { return halfRuns{s} }},
		"foreign runs are found":                {dnsRunChecks, func(s Stores) Stores { return anybodysRuns{s} }},
		"foreign jobs are retried":              {dnsRunChecks, func(s Stores) Stores { return anybodysJobs{s} }},
		"the oldest run comes first":            {dnsRunChecks, func(s Stores) Stores { return oldRunsFirst{s} }},
		"all runs are listed":                   {dnsRunChecks, func(s Stores) Stores { return endlessRuns{s} }},
		"ended runs are active":                 {dnsRunChecks, func(s Stores) Stores { return endedRunsToo{s} }},
		"any job is retried":                    {dnsRetryChecks, func(s Stores) Stores { return retriesAll{s} }},
		"a retry leaves a worker its job":       {dnsRetryChecks, func(s Stores) Stores { return retryKeepsHold{s} }},
		"a run commits no answer":               {dnsRetryChecks, func(s Stores) Stores { return runsAlone{s} }},
		"a job outlives its domain":             {dnsRetryChecks, func(s Stores) Stores { return undeadRuns{s} }},
		"a trace is lost":                       {dnsRunChecks, func(s Stores) Stores { return tracelessRuns{s} }},
		"a late worker writes":                  {dnsJobChecks, func(s Stores) Stores { return unfencedJobs{s} }},
		"the caller's clock ends a lease":       {dnsJobChecks, func(s Stores) Stores { return impatientJobs{s} }},
		"a job is claimed before its time":      {dnsJobChecks, func(s Stores) Stores { return earlyJobs{s} }},
		"a race has several winners":            {dnsJobChecks, func(s Stores) Stores { return sharedJobs{s} }},
		"claims share an epoch":                 {dnsJobChecks, func(s Stores) Stores { return oneEpoch{s} }},
		"a job that waits is not stored so":     {dnsJobChecks, func(s Stores) Stores { return keepsLease{s} }},
		"a running job loses its lease":         {dnsJobChecks, func(s Stores) Stores { return losesLease{s} }},
		"a message is cut":                      {dnsJobChecks, func(s Stores) Stores { return cutsMessage{s} }},
		"a job that waits is held":              {dnsJobChecks, func(s Stores) Stores { return heldWaiting{s} }},
		"a released job stays leased":           {dnsJobChecks, func(s Stores) Stores { return neverReleased{s} }},
		"one account's jobs come first":         {dnsJobChecks, func(s Stores) Stores { return firstComeFirst{s} }},
		"what an account has at work is no sum": {dnsJobChecks, func(s Stores) Stores { return busyIsNothing{s} }},
		"jobs are due before their time":        {dnsJobChecks, func(s Stores) Stores { return allAreDue{s} }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, b.suite, b.spoil) })
	}
}
