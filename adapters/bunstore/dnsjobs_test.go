// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// dueTime is a time at which the new jobs and tenants of these tests are due.
var dueTime = now.Add(time.Hour)

// queueJob creates the nth tenant of an account, a domain in it, and a queued job of that domain.
func queueJob(t testing.TB, s *Store, owner access.AccountID, n int) provisioning.Job {
	t.Helper()
	return startRun(t, s, owner, newOwnedDomain(t, s, owner, n), n)
}

func dueJobIDs(t testing.TB, s *Store, at time.Time, limit int) (ids []string) {
	t.Helper()
	dueJobs, err := s.DueJobs(t.Context(), at, limit)
	must(t, "list due jobs", err)
	for _, d := range dueJobs {
		ids = append(ids, d.ID)
	}
	return ids
}

func requireNotClaimed(t testing.TB, label string, s *Store, id string, at time.Time) {
	t.Helper()
	if _, isClaimed, err := s.ClaimJob(t.Context(), id, longLease, at); err != nil || isClaimed {
		t.Fatalf("%s: claimed is %v (%v), want false", label, isClaimed, err)
	}
}

func TestSavedJobIsStoredUnchanged(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		queueJob(t, s, newAccount(t, s, "ann"), 1)
		want := jobWithAllFields(claimJob(t, s, jobID(1), dueTime))
		for range 2 {
			requireLeaseHeld(t, "save", true)(s.SaveJob(t.Context(), want))
			if diff := cmp.Diff(want, storedJob(t, s, want)); diff != "" {
				t.Fatalf("stored (-want +got):\n%s", diff)
			}
		}
	})
}

func TestClaimDoesNotChangeProgressOfJob(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		job := queueJob(t, s, newAccount(t, s, "ann"), 1)
		requireNotClaimed(t, "a job before its next attempt", s, job.ID, job.NextAttemptAt.Add(-time.Microsecond))
		requireNotClaimed(t, "an unknown job", s, unknownID, dueTime)
		requireNotClaimed(t, "a malformed id", s, "x", dueTime)
		got := claimJob(t, s, job.ID, job.NextAttemptAt)
		job.Status, job.Epoch = provisioning.Running, 1
		if diff := cmp.Diff(job, got); diff != "" {
			t.Fatalf("claimed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(job, storedJob(t, s, job)); diff != "" {
			t.Fatalf("stored (-want +got):\n%s", diff)
		}
	})
}

func TestOnlyQueuedRunningAndWaitingJobsAreDueAndClaimed(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		job := queueJob(t, s, newAccount(t, s, "ann"), 1)
		for status, isDue := range map[provisioning.Status]bool{
			provisioning.Queued: true, provisioning.Running: true, provisioning.Waiting: true,
			provisioning.ActionRequired: false, provisioning.Completed: false, provisioning.Failed: false,
		} {
			job = storedJob(t, s, job)
			saveJobStatus(t, s, job, status)
			if n := len(dueJobIDs(t, s, dueTime, 9)); (n == 1) != isDue {
				t.Fatalf("status %s: %d jobs are due, want the job due: %v", status, n, isDue)
			}
			if _, isClaimed, err := s.ClaimJob(t.Context(), job.ID, expiredLease, dueTime); err != nil || isClaimed != isDue {
				t.Fatalf("status %s: claimed is %v, want %v (%v)", status, isClaimed, isDue, err)
			}
		}
	})
}

func TestOneOfConcurrentClaimsOfJobSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		job := queueJob(t, s, newAccount(t, s, "ann"), 1)
		isClaimed := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(i int) (err error) {
			_, isClaimed[i], err = s.ClaimJob(t.Context(), job.ID, longLease, dueTime)
			return err
		}) {
			must(t, "claim", err)
		}
		if n := countTrue(isClaimed); n != 1 {
			t.Fatalf("%d claims succeeded, want 1", n)
		}
	})
}

func TestJobOfDifferentWorkerCanBeClaimedAfterItsLeaseExpires(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		queueJob(t, s, newAccount(t, s, "ann"), 1)
		firstClaim := claimJob(t, s, jobID(1), dueTime)
		requireNotClaimed(t, "a leased job", s, firstClaim.ID, dueTime.Add(1000*time.Hour))
		if ids := dueJobIDs(t, s, dueTime.Add(1000*time.Hour), 9); len(ids) != 0 {
			t.Fatalf("the due jobs are %v, want none while the job is leased", ids)
		}
		requireLeaseHeld(t, "let the lease expire", true)(s.RenewJobLease(t.Context(), firstClaim, expiredLease))
		requireOrder(t, "due", dueJobIDs(t, s, dueTime, 9), firstClaim.ID)
		if secondClaim := claimJob(t, s, firstClaim.ID, dueTime); secondClaim.Epoch != firstClaim.Epoch+1 {
			t.Fatalf("the second claim has the epoch %d, want %d", secondClaim.Epoch, firstClaim.Epoch+1)
		}
	})
}

func TestLeasesOfJobsFollowDatabaseClock(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		queueJob(t, s, newAccount(t, s, "ann"), 1)
		job := claimJob(t, s, jobID(1), dueTime)
		requireNotClaimed(t, "a leased job, long after by the caller's clock", s, job.ID, dueTime.Add(1000*time.Hour))
		requireLeaseHeld(t, "shorten the lease", true)(s.RenewJobLease(t.Context(), job, time.Millisecond))
		retryUntilWon(t, func() (bool, error) {
			_, isClaimed, err := s.ClaimJob(t.Context(), job.ID, longLease, dueTime)
			return isClaimed, err
		})
	})
}

func TestWorkerThatLostItsJobChangesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		queueJob(t, s, newAccount(t, s, "ann"), 1)
		firstClaim := claimJob(t, s, jobID(1), dueTime)
		requireLeaseHeld(t, "let the lease expire", true)(s.RenewJobLease(t.Context(), firstClaim, expiredLease))
		secondClaim := claimJob(t, s, firstClaim.ID, dueTime)
		requireLeaseHeld(t, "renew", false)(s.RenewJobLease(t.Context(), firstClaim, longLease))
		requireLeaseHeld(t, "save", false)(s.SaveJob(t.Context(), jobWithAllFields(firstClaim)))
		requireLeaseHeld(t, "release", false)(s.ReleaseJob(t.Context(), firstClaim, dueTime))
		if diff := cmp.Diff(secondClaim, storedJob(t, s, secondClaim)); diff != "" {
			t.Fatalf("the job of the second worker (-want +got):\n%s", diff)
		}
		requireNotClaimed(t, "the job of the second worker", s, firstClaim.ID, dueTime)
		requireLeaseHeld(t, "save by the second worker", true)(s.SaveJob(t.Context(), jobWithAllFields(secondClaim)))
	})
}

func TestOnlyLastWorkerOfJobCanSave(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		queueJob(t, s, newAccount(t, s, "ann"), 1)
		firstClaim := claimJob(t, s, jobID(1), dueTime)
		requireLeaseHeld(t, "let the lease expire", true)(s.RenewJobLease(t.Context(), firstClaim, expiredLease))
		secondClaim := claimJob(t, s, firstClaim.ID, dueTime)
		firstClaim.Message, secondClaim.Message = "first", "second"
		stillHeld := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(i int) (err error) {
			stillHeld[i], err = s.SaveJob(t.Context(), []provisioning.Job{firstClaim, secondClaim}[i%2])
			return err
		}) {
			must(t, "save", err)
		}
		for i, held := range stillHeld {
			if held != (i%2 == 1) {
				t.Fatalf("save %d: held is %v, want %v", i, held, i%2 == 1)
			}
		}
		if got := storedJob(t, s, secondClaim); got.Message != "second" {
			t.Fatalf("the stored message is %q, want that of the second worker", got.Message)
		}
	})
}

func TestSavedJobStaysLeasedOnlyWhileItRuns(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		queueJob(t, s, newAccount(t, s, "ann"), 1)
		job := claimJob(t, s, jobID(1), dueTime)
		saveJobStatus(t, s, job, provisioning.Running)
		requireNotClaimed(t, "a running job", s, job.ID, dueTime)
		saveJobStatus(t, s, job, provisioning.Waiting)
		requireLeaseHeld(t, "renew the lease of a job that waits", false)(s.RenewJobLease(t.Context(), job, longLease))
		claimJob(t, s, job.ID, dueTime)
	})
}

func TestReleasedJobCanBeClaimedAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		queueJob(t, s, newAccount(t, s, "ann"), 1)
		job := claimJob(t, s, jobID(1), dueTime)
		job.Stage, job.Next, job.ZoneChanges = provisioning.StageApply, provisioning.Apply, 2
		requireLeaseHeld(t, "save", true)(s.SaveJob(t.Context(), job))
		requireLeaseHeld(t, "release", true)(s.ReleaseJob(t.Context(), job, dueTime))
		requireLeaseHeld(t, "release again", false)(s.ReleaseJob(t.Context(), job, dueTime))
		want := job
		want.Status, want.NextAttemptAt = provisioning.Queued, dueTime
		if diff := cmp.Diff(want, storedJob(t, s, job)); diff != "" {
			t.Fatalf("released (-want +got):\n%s", diff)
		}
		requireOrder(t, "due", dueJobIDs(t, s, dueTime, 9), job.ID)
		claimJob(t, s, job.ID, dueTime)
	})
}

func TestDueJobsAreListedOldestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		for n, d := range manyDomains(t, s, ann, 1, 3) {
			startRun(t, s, ann, d, 3-n)
		}
		requireOrder(t, "all", dueJobIDs(t, s, dueTime, 9), jobID(1), jobID(2), jobID(3))
		requireOrder(t, "two", dueJobIDs(t, s, dueTime, 2), jobID(1), jobID(2))
		requireOrder(t, "at the time of job 2", dueJobIDs(t, s, now.Add(2*time.Second), 9), jobID(1), jobID(2))
		dueJobs, err := s.DueJobs(t.Context(), dueTime, 1)
		must(t, "list", err)
		if dueJobs[0].Account != ann || !dueJobs[0].At.Equal(now.Add(time.Second)) {
			t.Fatalf("the first due job is %+v, want job 1 of %s", dueJobs[0], ann)
		}
	})
}

func TestDueJobsAlternateBetweenAccounts(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n, d := range manyDomains(t, s, ann, 1, 6) {
			startRun(t, s, ann, d, n+1)
		}
		for n, d := range manyDomains(t, s, bob, 20, 2) {
			startRun(t, s, bob, d, 10+n)
		}
		requireOrder(t, "order of accounts", dueJobIDs(t, s, dueTime, 5), jobID(1), jobID(10), jobID(2), jobID(11), jobID(3))
		claimJob(t, s, jobID(1), dueTime)
		claimJob(t, s, jobID(2), dueTime)
		requireOrder(t, "while two jobs of ann are leased", dueJobIDs(t, s, dueTime, 3), jobID(10), jobID(11), jobID(3))
	})
}

// addJobs stores the nth tenant of an account with count domains, each with a queued job.
func addJobs(t *testing.T, s *Store, owner access.AccountID, n, count int, at time.Time) {
	t.Helper()
	attached := attachTenant(t, s, owner, n)
	var domains []domainRow
	var runs []dnsRunRow
	var jobs []dnsJobRow
	for i := range count {
		d := domainRow{AccountID: string(owner), ID: newID(), TenantID: attached.ID, Name: fmt.Sprintf("d%d.test", i), Added: true, CreatedAt: at, StoredAt: at}
		r := dnsRunRow{AccountID: string(owner), ID: newID(), TotalDomains: 1, CreatedAt: at}
		domains, runs = append(domains, d), append(runs, r)
		jobs = append(jobs, newDNSJobRow(provisioning.NewJob(newID(), r.ID, owner, d.ID, attached.GUID, d.Name, at)))
	}
	for start := 0; start < count; start += batchSize {
		end := min(start+batchSize, count)
		domainChunk, runChunk, jobChunk := domains[start:end], runs[start:end], jobs[start:end]
		for _, rows := range []any{&domainChunk, &runChunk, &jobChunk} {
			_, err := s.db.NewInsert().Model(rows).Exec(t.Context())
			must(t, "insert", err)
		}
	}
}

// TestLargeBacklogDoesNotDelayOtherAccounts checks that a worker claims the job of a second account
// next. The first account has 1,000 queued jobs, or 10,000 with TENANTRY_SOAK. Workers have already
// claimed 20 of these jobs.
func TestLargeBacklogDoesNotDelayOtherAccounts(t *testing.T) {
	backlog := 1000
	if soak.Enabled() {
		backlog = 10_000
	}
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		s := migratedStore(t, url(t))
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		addJobs(t, s, ann, 1, backlog, now)
		claimFourJobs := func() (claimed []provisioning.Job) {
			for _, id := range dueJobIDs(t, s, dueTime, 4) {
				claimed = append(claimed, claimJob(t, s, id, dueTime))
			}
			return claimed
		}
		for range 5 {
			if n := len(claimFourJobs()); n != 4 {
				t.Fatalf("%d jobs were due, want 4", n)
			}
		}
		addJobs(t, s, bob, 2, 1, dueTime.Add(-time.Minute)) // due later than all jobs of ann
		if got := claimFourJobs()[0]; got.Account != bob {
			t.Errorf("the next job belongs to account %s, want bob's account %s", got.Account, bob)
		}
	})
}

// TestTwoProcessesShareJobs checks that two processes together claim each job exactly once, and
// that all jobs finish.
func TestTwoProcessesShareJobs(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		store1, store2 := migratedStore(t, address), openStore(t, address)
		const jobCount = 60
		ann := newAccount(t, store1, "ann")
		addJobs(t, store1, ann, 1, jobCount, now)
		var mu sync.Mutex
		claimCounts := map[string]int{}
		var wg sync.WaitGroup
		for _, s := range []*Store{store1, store2, store1, store2} {
			wg.Go(func() {
				for {
					dueJobs, err := s.DueJobs(t.Context(), dueTime, 7)
					if err != nil {
						t.Error(err)
						return
					}
					if len(dueJobs) == 0 {
						return
					}
					for _, d := range dueJobs {
						job, isClaimed, err := s.ClaimJob(t.Context(), d.ID, longLease, dueTime)
						if err != nil {
							t.Error(err)
							return
						}
						if !isClaimed {
							continue
						}
						mu.Lock()
						claimCounts[job.ID]++
						mu.Unlock()
						job.Status = provisioning.Completed
						if stillHeld, err := s.SaveJob(t.Context(), job); err != nil || !stillHeld {
							t.Errorf("save of a claimed job: held is %v, want true (%v)", stillHeld, err)
						}
					}
				}
			})
		}
		wg.Wait()
		for id, n := range claimCounts {
			if n != 1 {
				t.Errorf("%s was claimed %d times, want once", id, n)
			}
		}
		if len(claimCounts) != jobCount {
			t.Errorf("%d jobs were claimed, want %d", len(claimCounts), jobCount)
		}
		requireOrder(t, "active runs", runIDs(t, store1, ann, ports.RunQuery{Limit: 100, ActiveOnly: true}))
	})
}

func TestEndLeasesReleasesJobs(t *testing.T) {
	s := migratedStore(t, MemoryURL)
	queueJob(t, s, newAccount(t, s, "ann"), 1)
	firstClaim := claimJob(t, s, jobID(1), dueTime)
	must(t, "end leases", s.EndLeases(t.Context()))
	if secondClaim := claimJob(t, s, jobID(1), dueTime); secondClaim.Epoch != firstClaim.Epoch+1 {
		t.Fatalf("the second claim has the epoch %d, want %d", secondClaim.Epoch, firstClaim.Epoch+1)
	}
}

func TestEndLeasesReleasesTenants(t *testing.T) {
	s := migratedStore(t, MemoryURL)
	fixture := newSendLimitFixture(t, s, "ann", 1)
	firstClaim := fixture.claim(t, s)
	fixture.requireNotClaimed(t, "a claimed tenant", s, dueTime)
	must(t, "end leases", s.EndLeases(t.Context()))
	if secondClaim := fixture.claim(t, s); secondClaim.Epoch != firstClaim.Epoch+1 {
		t.Fatalf("the second claim has the epoch %d, want %d", secondClaim.Epoch, firstClaim.Epoch+1)
	}
}
