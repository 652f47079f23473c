// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/provisioning"
)

// later is when all jobs of these checks are due.
var later = now.Add(time.Hour)

// queued is the one job of an account.
func queued(t testing.TB, s Stores, owner access.AccountID, n int) provisioning.Job {
	t.Helper()
	return startRun(t, s, owner, ownDomain(t, s, owner, n), n)
}

func due(t testing.TB, s Stores, at time.Time, most int) (ids []string) {
	t.Helper()
	all, err := s.DueJobs(t.Context(), at, most)
	must(t, "list due jobs", err)
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	return ids
}

func notClaimed(t testing.TB, what string, s Stores, id string, at time.Time) {
	t.Helper()
	if _, won, err := s.ClaimJob(t.Context(), id, leased, at); err != nil || won {
		t.Fatalf("%s was claimed: %v", what, err)
	}
}

var dnsJobChecks = []storeCheck{
	{"what was decided of a job is kept", func(t testing.TB, s Stores) {
		queued(t, s, newAccount(t, s, "ann"), 1)
		want := elaborate(claimJob(t, s, jobID(1), later))
		for range 2 {
			holds(t, "save", true)(s.SaveJob(t.Context(), want))
			if diff := compare.Diff(want, storedJob(t, s, want)); diff != "" {
				t.Fatalf("stored (-want +got):\n%s", diff)
			}
		}
	}},
	{"a claim takes a job that is due, and leaves what is known of it", func(t testing.TB, s Stores) {
		j := queued(t, s, newAccount(t, s, "ann"), 1)
		notClaimed(t, "an early one", s, j.ID, j.NextAttemptAt.Add(-time.Microsecond))
		notClaimed(t, "an unknown one", s, unknownID, later)
		notClaimed(t, "nonsense", s, "x", later)
		got := claimJob(t, s, j.ID, j.NextAttemptAt)
		j.Status, j.Epoch = provisioning.Running, 1
		if diff := compare.Diff(j, got); diff != "" {
			t.Fatalf("claimed (-want +got):\n%s", diff)
		}
		if diff := compare.Diff(j, storedJob(t, s, j)); diff != "" {
			t.Fatalf("stored (-want +got):\n%s", diff)
		}
	}},
	{"only jobs that have something to do are due and claimed", func(t testing.TB, s Stores) {
		j := queued(t, s, newAccount(t, s, "ann"), 1)
		for status, has := range map[provisioning.Status]bool{
			provisioning.Queued: true, provisioning.Running: true, provisioning.Waiting: true,
			provisioning.ActionRequired: false, provisioning.Completed: false, provisioning.Failed: false,
		} {
			j = storedJob(t, s, j)
			becomes(t, s, j, status)
			if n := len(due(t, s, later, 9)); (n == 1) != has {
				t.Fatalf("%s: %d are due", status, n)
			}
			if _, won, err := s.ClaimJob(t.Context(), j.ID, over, later); err != nil || won != has {
				t.Fatalf("%s: claimed %v, %v", status, won, err)
			}
		}
	}},
	{"of many claims at once one wins", func(t testing.TB, s Stores) {
		j := queued(t, s, newAccount(t, s, "ann"), 1)
		won := make([]bool, crowd)
		for _, err := range atOnce(crowd, func(i int) (err error) {
			_, won[i], err = s.ClaimJob(t.Context(), j.ID, leased, later)
			return err
		}) {
			must(t, "claim", err)
		}
		if n := count(won); n != 1 {
			t.Fatalf("%d won", n)
		}
	}},
	{"a job is claimed from another only when the lease is over", func(t testing.TB, s Stores) {
		queued(t, s, newAccount(t, s, "ann"), 1)
		first := claimJob(t, s, jobID(1), later)
		notClaimed(t, "a leased job", s, first.ID, later.Add(1000*time.Hour))
		if ids := due(t, s, later.Add(1000*time.Hour), 9); len(ids) != 0 {
			t.Fatalf("a leased job is due: %v", ids)
		}
		holds(t, "let the lease end", true)(s.HoldJob(t.Context(), first, over))
		inOrder(t, "due", due(t, s, later, 9), first.ID)
		if second := claimJob(t, s, first.ID, later); second.Epoch != first.Epoch+1 {
			t.Fatalf("epoch %d after %d", second.Epoch, first.Epoch)
		}
	}},
	{"leases follow the database's clock", func(t testing.TB, s Stores) {
		queued(t, s, newAccount(t, s, "ann"), 1)
		first := claimJob(t, s, jobID(1), later)
		notClaimed(t, "by the caller's clock", s, first.ID, later.Add(1000*time.Hour))
		holds(t, "shorten the lease", true)(s.HoldJob(t.Context(), first, time.Millisecond))
		untilWon(t, func() (bool, error) {
			_, won, err := s.ClaimJob(t.Context(), first.ID, leased, later)
			return won, err
		})
	}},
	{"a worker that lost its job changes nothing", func(t testing.TB, s Stores) {
		queued(t, s, newAccount(t, s, "ann"), 1)
		first := claimJob(t, s, jobID(1), later)
		holds(t, "let the lease end", true)(s.HoldJob(t.Context(), first, over))
		second := claimJob(t, s, first.ID, later)
		holds(t, "hold", false)(s.HoldJob(t.Context(), first, leased))
		holds(t, "save", false)(s.SaveJob(t.Context(), elaborate(first)))
		holds(t, "release", false)(s.ReleaseJob(t.Context(), first, later))
		if diff := compare.Diff(second, storedJob(t, s, second)); diff != "" {
			t.Fatalf("the job of the second (-want +got):\n%s", diff)
		}
		notClaimed(t, "the job of the second", s, first.ID, later)
		holds(t, "the second", true)(s.SaveJob(t.Context(), elaborate(second)))
	}},
	{"two who had a job one after the other race, and the last one's word stands", func(t testing.TB, s Stores) {
		queued(t, s, newAccount(t, s, "ann"), 1)
		first := claimJob(t, s, jobID(1), later)
		holds(t, "let the lease end", true)(s.HoldJob(t.Context(), first, over))
		second := claimJob(t, s, first.ID, later)
		first.Message, second.Message = "first", "second"
		held := make([]bool, crowd)
		for _, err := range atOnce(crowd, func(i int) (err error) {
			held[i], err = s.SaveJob(t.Context(), []provisioning.Job{first, second}[i%2])
			return err
		}) {
			must(t, "save", err)
		}
		for i, h := range held {
			if h != (i%2 == 1) {
				t.Fatalf("%d: held is %v", i, h)
			}
		}
		if got := storedJob(t, s, second); got.Message != "second" {
			t.Fatalf("stored is %q", got.Message)
		}
	}},
	{"a saved job stays leased while it runs, and no longer", func(t testing.TB, s Stores) {
		queued(t, s, newAccount(t, s, "ann"), 1)
		j := claimJob(t, s, jobID(1), later)
		becomes(t, s, j, provisioning.Running)
		notClaimed(t, "a running job", s, j.ID, later)
		becomes(t, s, j, provisioning.Waiting)
		holds(t, "hold a job that waits", false)(s.HoldJob(t.Context(), j, leased))
		claimJob(t, s, j.ID, later)
	}},
	{"a released job is another's at once, as it was stored", func(t testing.TB, s Stores) {
		queued(t, s, newAccount(t, s, "ann"), 1)
		j := claimJob(t, s, jobID(1), later)
		j.Stage, j.Next, j.Moves = provisioning.StageApply, provisioning.Apply, 2
		holds(t, "save", true)(s.SaveJob(t.Context(), j))
		holds(t, "release", true)(s.ReleaseJob(t.Context(), j, later))
		holds(t, "release again", false)(s.ReleaseJob(t.Context(), j, later))
		want := j
		want.Status, want.NextAttemptAt = provisioning.Queued, later
		if diff := compare.Diff(want, storedJob(t, s, j)); diff != "" {
			t.Fatalf("released (-want +got):\n%s", diff)
		}
		inOrder(t, "due", due(t, s, later, 9), j.ID)
		claimJob(t, s, j.ID, later)
	}},
	{"due jobs come oldest first, as many as asked for, and none early", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		for n, d := range manyDomains(t, s, ann, 1, 3) {
			startRun(t, s, ann, d, 3-n)
		}
		inOrder(t, "all", due(t, s, later, 9), jobID(1), jobID(2), jobID(3))
		inOrder(t, "two", due(t, s, later, 2), jobID(1), jobID(2))
		inOrder(t, "at the second's time", due(t, s, now.Add(2*time.Second), 9), jobID(1), jobID(2))
		all, err := s.DueJobs(t.Context(), later, 1)
		must(t, "list", err)
		if all[0].Account != ann || !all[0].At.Equal(now.Add(time.Second)) {
			t.Fatalf("got %+v", all[0])
		}
	}},
	{"accounts take turns, and who has much at work comes later", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n, d := range manyDomains(t, s, ann, 1, 6) {
			startRun(t, s, ann, d, n+1)
		}
		for n, d := range manyDomains(t, s, bob, 20, 2) {
			startRun(t, s, bob, d, 10+n)
		}
		inOrder(t, "turns", due(t, s, later, 5), jobID(1), jobID(10), jobID(2), jobID(11), jobID(3))
		claimJob(t, s, jobID(1), later)
		claimJob(t, s, jobID(2), later)
		inOrder(t, "with two of ann's at work", due(t, s, later, 3), jobID(10), jobID(11), jobID(3))
	}},
}
