// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

const unknownID = "10000000-0000-4000-8000-000000000000"

func runID(n int) string { return fmt.Sprintf("30000000-0000-4000-8000-%012d", n) }

func jobID(n int) string { return fmt.Sprintf("40000000-0000-4000-8000-%012d", n) }

// newRun returns the nth run, created n seconds after now, and a job of it.
func newRun(owner access.AccountID, d domain.Domain, n int) (provisioning.Run, provisioning.Job) {
	createdAt := now.Add(time.Duration(n) * time.Second)
	run := provisioning.Run{ID: runID(n), Account: owner, TotalDomains: 1, CreatedAt: createdAt}
	return run, provisioning.NewJob(jobID(n), run.ID, owner, d.ID, d.TenantGUID, d.Name, createdAt)
}

// startRun stores the nth run of a domain and returns its job.
func startRun(t testing.TB, s *Store, owner access.AccountID, d domain.Domain, n int) provisioning.Job {
	t.Helper()
	run, job := newRun(owner, d, n)
	must(t, "create run", s.CreateRun(t.Context(), run, []provisioning.Job{job}, nil))
	return job
}

// manyDomains creates domains of an account. It attaches new tenants for them, numbered from n+1,
// with at most domain.MaxPerTenant domains each.
func manyDomains(t testing.TB, s *Store, owner access.AccountID, n, count int) (domains []domain.Domain) {
	t.Helper()
	for i := range count {
		if i%domain.MaxPerTenant == 0 {
			n++
			attachTenant(t, s, owner, n)
		}
		domains = append(domains, addDomain(t, s, owner, guid(n), fmt.Sprintf("d%d.test", i)))
	}
	return domains
}

// claimJob claims a job that must be due.
func claimJob(t testing.TB, s *Store, id string, at time.Time) provisioning.Job {
	t.Helper()
	job, isClaimed, err := s.ClaimJob(t.Context(), id, longLease, at)
	must(t, "claim", err)
	if !isClaimed {
		t.Fatalf("job %s: claimed is %v, want true", id, isClaimed)
	}
	return job
}

func saveJobStatus(t testing.TB, s *Store, job provisioning.Job, status provisioning.Status) {
	t.Helper()
	job.Status = status
	requireLeaseHeld(t, "save", true)(s.SaveJob(t.Context(), job))
}

func storedJob(t testing.TB, s *Store, job provisioning.Job) provisioning.Job {
	t.Helper()
	got, err := s.Job(t.Context(), job.Account, job.ID)
	must(t, "find job", err)
	return got
}

func runIDs(t testing.TB, s *Store, owner access.AccountID, query ports.RunQuery) (ids []string) {
	t.Helper()
	runs, err := s.Runs(t.Context(), owner, query)
	must(t, "list runs", err)
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

func requireOrder(t testing.TB, label string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s (-want +got):\n%s", label, cmp.Diff(want, got))
	}
}

// jobWithAllFields returns job with a value in every field that the steps of a job change.
func jobWithAllFields(job provisioning.Job) provisioning.Job {
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	job.Stage, job.Status, job.Next = provisioning.StageDKIMPublication, provisioning.Waiting, provisioning.ReadDNS
	job.Provider, job.RequiredAction, job.Message = "powerdns", dns.ConflictToResolve, "resolve "+hostileText
	job.NextAttemptAt, job.StartedAt, job.EndedAt, job.UpdatedAt = at(1), at(2), at(3), at(4)
	job.Progress = provisioning.Progress{
		PlanHash: "hash", ZoneChanges: 1, Attempt: 2, Faults: 3, StageSince: at(5), OutageTime: 6 * time.Second, OutageSince: at(7),
		UnreliableSince: at(8), MissingSince: at(11), VisibleSince: at(9), PublishedAt: at(10), NegativeTTL: time.Hour,
	}
	return job
}

func TestRunIsStoredWithItsJob(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		run, job := newRun(ann, d, 1)
		job.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		must(t, "create", s.CreateRun(t.Context(), run, []provisioning.Job{job}, nil))
		got, jobs, err := s.Run(t.Context(), ann, run.ID)
		must(t, "find", err)
		if diff := cmp.Diff(run.With([]provisioning.Job{job}), got); diff != "" || got.Status != provisioning.Queued {
			t.Fatalf("the run (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]provisioning.Job{job}, jobs); diff != "" {
			t.Fatalf("the job (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(job, storedJob(t, s, job)); diff != "" {
			t.Fatalf("the job alone (-want +got):\n%s", diff)
		}
	})
}

func TestDomainHasOneActiveJob(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		startRun(t, s, ann, d, 1)
		run, job := newRun(ann, d, 2)
		for _, status := range []provisioning.Status{provisioning.Queued, provisioning.Running, provisioning.Waiting, provisioning.ActionRequired} {
			_, job1 := newRun(ann, d, 1)
			saveJobStatus(t, s, job1, status)
			requireRefusal(t, string(status), s.CreateRun(t.Context(), run, []provisioning.Job{job}, nil), fault.JobActive)
			active, found, err := s.ActiveJob(t.Context(), ann, d.ID)
			must(t, "active job", err)
			if !found || active.ID != jobID(1) || active.Status != status {
				t.Fatalf("found is %v, and the active job is %+v, want job 1 with the status %s", found, active, status)
			}
		}
		for n, status := range []provisioning.Status{provisioning.Completed, provisioning.Failed} {
			_, endedJob := newRun(ann, d, n+1)
			saveJobStatus(t, s, endedJob, status)
			if _, found, err := s.ActiveJob(t.Context(), ann, d.ID); err != nil || found {
				t.Fatalf("status %s: found is %v, want no active job (%v)", status, found, err)
			}
			startRun(t, s, ann, d, n+2)
		}
		requireOrder(t, "runs", runIDs(t, s, ann, ports.RunQuery{Limit: 9}), runID(3), runID(2), runID(1))
	})
}

func TestOneOfConcurrentRunsForDomainIsCreated(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		if n := countWinners(t, concurrently(concurrency, func(i int) error {
			run, job := newRun(ann, d, i)
			return s.CreateRun(t.Context(), run, []provisioning.Job{job}, nil)
		}), fault.JobActive); n != 1 {
			t.Fatalf("%d runs were created, want 1", n)
		}
		if ids := runIDs(t, s, ann, ports.RunQuery{Limit: concurrency}); len(ids) != 1 {
			t.Fatalf("%d runs are stored, want 1", len(ids))
		}
	})
}

func TestRunIsStoredWithAllOfItsJobsOrNotAtAll(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		domains := manyDomains(t, s, ann, 1, 3)
		startRun(t, s, ann, domains[1], 1)
		run, job1 := newRun(ann, domains[0], 2)
		_, job2 := newRun(ann, domains[1], 3)
		_, job3 := newRun(ann, domains[2], 4)
		requireRefusal(t, "one domain has an active job", s.CreateRun(t.Context(), run, []provisioning.Job{job1, job2, job3}, nil), fault.JobActive)
		_, _, err := s.Run(t.Context(), ann, run.ID)
		requireRefusal(t, "the run", err, fault.RunNotFound)
		_, found, err := s.ActiveJob(t.Context(), ann, domains[0].ID)
		must(t, "active job", err)
		if found {
			t.Fatal("a job of a refused run is stored, want none")
		}
		must(t, "create", s.CreateRun(t.Context(), run, []provisioning.Job{job3, job1}, nil))
		_, jobs, err := s.Run(t.Context(), ann, run.ID)
		must(t, "find", err)
		if len(jobs) != 2 || jobs[0].ID != job1.ID {
			t.Fatalf("got %+v, want two jobs, ordered by domain", jobs)
		}
	})
}

func TestForeignRunsAndJobsGetTheSameAnswerAsUnknownOnes(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := newOwnedDomain(t, s, ann, 1)
		newOwnedDomain(t, s, bob, 2)
		unknownDomain := d
		unknownDomain.ID = unknownID
		create := func(target domain.Domain) error {
			run, job := newRun(bob, target, 9)
			return s.CreateRun(t.Context(), run, []provisioning.Job{job}, nil)
		}
		requireRefusal(t, "create", create(d), fault.DomainNotFound)
		requireSameError(t, "create", create(d), create(unknownDomain))
		saveJobStatus(t, s, startRun(t, s, ann, d, 1), provisioning.Waiting)
		for _, id := range []string{"x", unknownID} {
			_, _, foreignRunErr := s.Run(t.Context(), bob, runID(1))
			requireRefusal(t, "run", foreignRunErr, fault.RunNotFound)
			_, _, unknownErr := s.Run(t.Context(), bob, id)
			requireSameError(t, "run", foreignRunErr, unknownErr)
			_, foreignJobErr := s.Job(t.Context(), bob, jobID(1))
			requireRefusal(t, "job", foreignJobErr, fault.JobNotFound)
			_, unknownErr = s.Job(t.Context(), bob, id)
			requireSameError(t, "job", foreignJobErr, unknownErr)
			_, foreignRetryErr := s.RetryJob(t.Context(), bob, jobID(1), now, nil)
			requireRefusal(t, "retry", foreignRetryErr, fault.JobNotFound)
			_, unknownErr = s.RetryJob(t.Context(), bob, id, now, nil)
			requireSameError(t, "retry", foreignRetryErr, unknownErr)
		}
		_, unknownErr := s.RetryJob(t.Context(), ann, unknownID, now, nil)
		requireRefusal(t, "retry of an unknown job by an account with a job", unknownErr, fault.JobNotFound)
		_, _, unknownErr = s.Run(t.Context(), ann, unknownID)
		requireRefusal(t, "an unknown run of an account with a run", unknownErr, fault.RunNotFound)
		_, unknownErr = s.Job(t.Context(), ann, unknownID)
		requireRefusal(t, "an unknown job of an account with a job", unknownErr, fault.JobNotFound)
		requireOrder(t, "bob's runs", runIDs(t, s, bob, ports.RunQuery{Limit: 9}))
		if _, found, err := s.ActiveJob(t.Context(), bob, d.ID); err != nil || found {
			t.Fatalf("a foreign job: found is %v, want false (%v)", found, err)
		}
		if job := storedJob(t, s, provisioning.Job{Account: ann, ID: jobID(1)}); job.Status != provisioning.Waiting {
			t.Fatalf("the job of ann became %+v, want it to be waiting", job)
		}
	})
}

func TestRunsAreListedNewestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		for n, d := range manyDomains(t, s, ann, 1, 4) {
			startRun(t, s, ann, d, n+1)
		}
		saveJobStatus(t, s, claimJob(t, s, jobID(2), now.Add(time.Hour)), provisioning.Completed)
		saveJobStatus(t, s, claimJob(t, s, jobID(4), now.Add(time.Hour)), provisioning.ActionRequired)
		requireOrder(t, "all", runIDs(t, s, ann, ports.RunQuery{Limit: 9}), runID(4), runID(3), runID(2), runID(1))
		requireOrder(t, "active", runIDs(t, s, ann, ports.RunQuery{Limit: 9, ActiveOnly: true}), runID(4), runID(3), runID(1))
		requireOrder(t, "two", runIDs(t, s, ann, ports.RunQuery{Limit: 2}), runID(4), runID(3))
		runs, err := s.Runs(t.Context(), ann, ports.RunQuery{Limit: 9})
		must(t, "list", err)
		var statuses []string
		for _, run := range runs {
			statuses = append(statuses, string(run.Status))
		}
		requireOrder(t, "statuses", statuses, "action_required", "queued", "completed", "queued")
	})
}

func TestRetryQueuesOnlyJobsThatWaitOrNeedAction(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		startRun(t, s, ann, d, 1)
		for _, status := range []provisioning.Status{provisioning.Queued, provisioning.Running, provisioning.Completed, provisioning.Failed} {
			_, job := newRun(ann, d, 1)
			saveJobStatus(t, s, job, status)
			_, err := s.RetryJob(t.Context(), ann, job.ID, now, nil)
			requireRefusal(t, string(status), err, fault.JobNotRetryable)
		}
		for _, status := range []provisioning.Status{provisioning.Waiting, provisioning.ActionRequired} {
			jobBefore := storedJob(t, s, provisioning.Job{Account: ann, ID: jobID(1)})
			stopped := jobWithAllFields(jobBefore)
			saveJobStatus(t, s, stopped, status)
			stopped.Status = status
			got, err := s.RetryJob(t.Context(), ann, stopped.ID, now.Add(time.Hour), nil)
			must(t, "retry", err)
			want, err := provisioning.Retry(stopped, now.Add(time.Hour))
			must(t, "decide", err)
			if diff := cmp.Diff(want, got); diff != "" || got.Epoch != jobBefore.Epoch+1 {
				t.Fatalf("%s (-want +got):\n%s", status, diff)
			}
			if diff := cmp.Diff(got, storedJob(t, s, got)); diff != "" {
				t.Fatalf("%s: the stored job differs from the returned job (-returned +stored):\n%s", status, diff)
			}
			requireLeaseHeld(t, "save by the earlier worker", false)(s.SaveJob(t.Context(), stopped))
		}
	})
}

func TestOneOfConcurrentRetriesOfJobSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		saveJobStatus(t, s, startRun(t, s, ann, newOwnedDomain(t, s, ann, 1), 1), provisioning.ActionRequired)
		if n := countWinners(t, concurrently(concurrency, func(int) error {
			_, err := s.RetryJob(t.Context(), ann, jobID(1), now, nil)
			return err
		}), fault.JobNotRetryable); n != 1 {
			t.Fatalf("%d retries succeeded, want 1", n)
		}
	})
}

func TestRunsAreDeletedWithTheirDomainsAndAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		startRun(t, s, ann, newOwnedDomain(t, s, ann, 1), 1)
		startRun(t, s, bob, newOwnedDomain(t, s, bob, 2), 2)
		job1, job2 := claimJob(t, s, jobID(1), now.Add(time.Hour)), claimJob(t, s, jobID(2), now.Add(time.Hour))
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1), nil))
		closeAccount(t, s, bob)
		for _, job := range []provisioning.Job{job1, job2} {
			requireOrder(t, "runs", runIDs(t, s, job.Account, ports.RunQuery{Limit: 9}))
			_, _, err := s.Run(t.Context(), job.Account, job.RunID)
			requireRefusal(t, "run", err, fault.RunNotFound)
			_, err = s.Job(t.Context(), job.Account, job.ID)
			requireRefusal(t, "job", err, fault.JobNotFound)
			requireLeaseHeld(t, "renew", false)(s.RenewJobLease(t.Context(), job, longLease))
			requireLeaseHeld(t, "save", false)(s.SaveJob(t.Context(), job))
			requireLeaseHeld(t, "release", false)(s.ReleaseJob(t.Context(), job, now))
			if _, isClaimed, err := s.ClaimJob(t.Context(), job.ID, longLease, now.Add(time.Hour)); err != nil || isClaimed {
				t.Fatalf("a deleted job: claimed is %v, want false (%v)", isClaimed, err)
			}
		}
		startRun(t, s, ann, newOwnedDomain(t, s, ann, 1), 1)
		requireOrder(t, "the runs after the tenant was attached again", runIDs(t, s, ann, ports.RunQuery{Limit: 9}), runID(1))
	})
}

func TestRunAndItsAnswerAreCommittedTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		run, job := newRun(ann, d, 1)
		for n, change := range []func(storedAnswer *ports.StoredAnswer) error{
			func(storedAnswer *ports.StoredAnswer) error {
				return s.CreateRun(t.Context(), run, []provisioning.Job{job}, storedAnswer)
			},
			func(storedAnswer *ports.StoredAnswer) error {
				_, err := s.RetryJob(t.Context(), ann, job.ID, now, storedAnswer)
				return err
			},
		} {
			claim := newClaim(ann, byte(n))
			attempt := mustClaim(t, s, claim)
			requireRefusal(t, "an attempt that lost its key", change(newStoredAnswer(claim, "20000000-0000-4000-8000-000000000000")), fault.KeyInProgress)
			must(t, "change", change(newStoredAnswer(claim, attempt)))
			if record := requireRecord(t, s, claim.Key); string(record.Answer) != "answer" || record.Leased {
				t.Fatalf("the record of the key is %+v, want the answer and no lease", record)
			}
			saveJobStatus(t, s, storedJob(t, s, job), provisioning.Waiting)
		}
	})
}

// TestConcurrentProcessesCreateOneRun lets two processes create runs for one domain at the same
// time. The unique index dns_jobs_active must let one of the runs through.
func TestConcurrentProcessesCreateOneRun(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		store1, store2 := migratedStore(t, address), openStore(t, address)
		ann := newAccount(t, store1, "ann")
		d := newOwnedDomain(t, store1, ann, 1)
		saveJobStatus(t, store1, startRun(t, store1, ann, d, 0), provisioning.Failed)
		errs := concurrently(concurrency, func(i int) error {
			run, job := newRun(ann, d, i+1)
			return []*Store{store1, store2}[i%2].CreateRun(t.Context(), run, []provisioning.Job{job}, nil)
		})
		if n := countWinners(t, errs, fault.JobActive); n != 1 {
			t.Errorf("%d runs were created, want 1", n)
		}
	})
}
