// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// Each of these breaks one promise of ports.DNSJobs.
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

// unfencedJobs saves for whoever has the job.
func (b unfencedJobs) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	if now, err := b.all.Job(ctx, j.Account, j.ID); err == nil {
		j.Epoch = now.Epoch
	}
	return b.dnsJobsPort.SaveJob(ctx, j)
}

// impatientJobs takes a job from whoever works on it.
func (b impatientJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, at time.Time) (provisioning.Job, bool, error) {
	j, won, err := b.dnsJobsPort.ClaimJob(ctx, id, lease, at)
	if won || err != nil {
		return j, won, err
	}
	found, lost := everyone(ctx, b.all, func(owner access.AccountID) (provisioning.Job, error) { return b.all.Job(ctx, owner, id) })
	if lost == nil && at.Sub(now) > 100*time.Hour {
		_, _ = b.HoldJob(ctx, found, over)
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
	_, _ = b.HoldJob(ctx, j, over)
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
	return b.dnsJobsPort.DueJobs(ctx, later.Add(1000*time.Hour), most)
}

func TestBrokenJobsAreNoticed(t *testing.T) {
	store := reusedStore(t)
	for name, spoil := range map[string]func(Stores) Stores{
		"a late worker writes":                  func(s Stores) Stores { return with(s, unfencedJobs{s, s}) },
		"the caller's clock ends a lease":       func(s Stores) Stores { return with(s, impatientJobs{s, s}) },
		"a job is claimed before its time":      func(s Stores) Stores { return with(s, earlyJobs{s}) },
		"a race has several winners":            func(s Stores) Stores { return with(s, sharedJobs{s}) },
		"claims share an epoch":                 func(s Stores) Stores { return with(s, oneEpoch{s}) },
		"a job that waits is not stored so":     func(s Stores) Stores { return with(s, keepsLease{s}) },
		"a running job loses its lease":         func(s Stores) Stores { return with(s, losesLease{s}) },
		"a message is cut":                      func(s Stores) Stores { return with(s, cutsMessage{s}) },
		"a job that waits is held":              func(s Stores) Stores { return with(s, heldWaiting{s, s}) },
		"a released job stays leased":           func(s Stores) Stores { return with(s, neverReleased{s, s}) },
		"one account's jobs come first":         func(s Stores) Stores { return firstComeFirst{s} },
		"what an account has at work is no sum": func(s Stores) Stores { return busyIsNothing{s} },
		"jobs are due before their time":        func(s Stores) Stores { return with(s, allAreDue{s}) },
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, dnsJobChecks, spoil) })
	}
}
