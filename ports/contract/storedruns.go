// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

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

// aRun is the nth run, a second later than the one before it, and its one job.
func aRun(owner access.AccountID, d domain.Domain, n int) (provisioning.Run, provisioning.Job) {
	made := now.Add(time.Duration(n) * time.Second)
	r := provisioning.Run{ID: runID(n), Account: owner, TotalDomains: 1, CreatedAt: made}
	return r, provisioning.New(jobID(n), r.ID, owner, d.ID, d.TenantGUID, d.Name, made)
}

// startRun stores the nth run of a domain.
func startRun(t testing.TB, s Stores, owner access.AccountID, d domain.Domain, n int) provisioning.Job {
	t.Helper()
	r, j := aRun(owner, d, n)
	must(t, "create run", s.CreateRun(t.Context(), r, []provisioning.Job{j}))
	return j
}

// manyDomains are domains of an account, in tenants of their own from the nth on.
func manyDomains(t testing.TB, s Stores, owner access.AccountID, n, count int) (all []domain.Domain) {
	t.Helper()
	for i := range count {
		if i%domain.MaxPerTenant == 0 {
			n++
			attach(t, s, owner, n)
		}
		all = append(all, addDomain(t, s, owner, guid(n), fmt.Sprintf("d%d.test", i)))
	}
	return all
}

// claimed by a worker at a time when it is due.
func claimJob(t testing.TB, s Stores, id string, at time.Time) provisioning.Job {
	t.Helper()
	j, won, err := s.ClaimJob(t.Context(), id, leased, at)
	must(t, "claim", err)
	if !won {
		t.Fatalf("job %s could not be claimed", id)
	}
	return j
}

// becomes stores a job in another status.
func becomes(t testing.TB, s Stores, j provisioning.Job, status provisioning.Status) {
	t.Helper()
	j.Status = status
	holds(t, "save", true)(s.SaveJob(t.Context(), j))
}

func storedJob(t testing.TB, s Stores, j provisioning.Job) provisioning.Job {
	t.Helper()
	got, err := s.Job(t.Context(), j.Account, j.ID)
	must(t, "find job", err)
	return got
}

func runIDs(t testing.TB, s Stores, owner access.AccountID, q ports.RunQuery) (ids []string) {
	t.Helper()
	all, err := s.Runs(t.Context(), owner, q)
	must(t, "list runs", err)
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	return ids
}

func inOrder(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s (-want +got):\n%s", what, compare.Diff(want, got))
	}
}

// elaborate is a job with something in every field that may change.
func elaborate(j provisioning.Job) provisioning.Job {
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	j.Stage, j.Status, j.Next = provisioning.StageDKIMPublication, provisioning.Waiting, provisioning.ReadDNS
	j.Provider, j.Required, j.Message = "powerdns", dns.ConflictToSettle, "settle "+hostile
	j.NextAttemptAt, j.StartedAt, j.EndedAt, j.UpdatedAt = at(1), at(2), at(3), at(4)
	j.Progress = provisioning.Progress{
		PlanHash: "hash", Moves: 1, Attempt: 2, Faults: 3, Since: at(5), Away: 6 * time.Second, AwaySince: at(7),
		UnreliableSince: at(8), SeenAt: at(9), PublishedAt: at(10), NegativeTTL: time.Hour,
	}
	return j
}

var dnsRunChecks = []storeCheck{
	{"a run is kept with its job, as they were made", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := ownDomain(t, s, ann, 1)
		r, j := aRun(ann, d, 1)
		j.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		must(t, "create", s.CreateRun(t.Context(), r, []provisioning.Job{j}))
		got, jobs, err := s.Run(t.Context(), ann, r.ID)
		must(t, "find", err)
		if diff := compare.Diff(r.With([]provisioning.Job{j}), got); diff != "" || got.Status != provisioning.Queued {
			t.Fatalf("the run (-want +got):\n%s", diff)
		}
		if diff := compare.Diff([]provisioning.Job{j}, jobs); diff != "" {
			t.Fatalf("the job (-want +got):\n%s", diff)
		}
		if diff := compare.Diff(j, storedJob(t, s, j)); diff != "" {
			t.Fatalf("the job alone (-want +got):\n%s", diff)
		}
	}},
	{"a domain has one active job", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := ownDomain(t, s, ann, 1)
		startRun(t, s, ann, d, 1)
		r, j := aRun(ann, d, 2)
		for i, status := range []provisioning.Status{provisioning.Queued, provisioning.Running, provisioning.Waiting, provisioning.ActionRequired} {
			_, before := aRun(ann, d, 1)
			becomes(t, s, before, status)
			refused(t, string(status), s.CreateRun(t.Context(), r, []provisioning.Job{j}), fault.JobActive)
			active, found, err := s.ActiveJob(t.Context(), ann, d.ID)
			must(t, "active job", err)
			if !found || active.ID != jobID(1) || active.Status != status {
				t.Fatalf("%d: found %v, %+v", i, found, active)
			}
		}
		for n, status := range []provisioning.Status{provisioning.Completed, provisioning.Failed} {
			_, before := aRun(ann, d, n+1)
			becomes(t, s, before, status)
			if _, found, err := s.ActiveJob(t.Context(), ann, d.ID); err != nil || found {
				t.Fatalf("an ended job is active: %v", err)
			}
			startRun(t, s, ann, d, n+2)
		}
		inOrder(t, "runs", runIDs(t, s, ann, ports.RunQuery{Limit: 9}), runID(3), runID(2), runID(1))
	}},
	{"of many runs for a domain at once one is created", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := ownDomain(t, s, ann, 1)
		if n := winners(t, atOnce(crowd, func(i int) error {
			r, j := aRun(ann, d, i)
			return s.CreateRun(t.Context(), r, []provisioning.Job{j})
		}), fault.JobActive); n != 1 {
			t.Fatalf("%d were created", n)
		}
		if ids := runIDs(t, s, ann, ports.RunQuery{Limit: crowd}); len(ids) != 1 {
			t.Fatalf("%d runs are there", len(ids))
		}
	}},
	{"a run has all of its jobs or is not there", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		all := manyDomains(t, s, ann, 1, 3)
		startRun(t, s, ann, all[1], 1)
		r, one := aRun(ann, all[0], 2)
		_, two := aRun(ann, all[1], 3)
		_, three := aRun(ann, all[2], 4)
		refused(t, "one is taken", s.CreateRun(t.Context(), r, []provisioning.Job{one, two, three}), fault.JobActive)
		_, _, err := s.Run(t.Context(), ann, r.ID)
		refused(t, "the run", err, fault.RunNotFound)
		_, found, err := s.ActiveJob(t.Context(), ann, all[0].ID)
		must(t, "active", err)
		if found {
			t.Fatal("a job of a refused run is there")
		}
		must(t, "create", s.CreateRun(t.Context(), r, []provisioning.Job{one, three}))
		_, jobs, err := s.Run(t.Context(), ann, r.ID)
		must(t, "find", err)
		if len(jobs) != 2 {
			t.Fatalf("%d jobs", len(jobs))
		}
	}},
	{"a foreign domain, run and job are as unknown ones", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := ownDomain(t, s, ann, 1)
		foreign := d
		ownDomain(t, s, bob, 2)
		unknown := foreign
		unknown.ID = unknownID
		create := func(of domain.Domain) error {
			r, j := aRun(bob, of, 9)
			return s.CreateRun(t.Context(), r, []provisioning.Job{j})
		}
		refused(t, "create", create(foreign), fault.DomainNotFound)
		same(t, "create", create(foreign), create(unknown))
		becomes(t, s, startRun(t, s, ann, d, 1), provisioning.Waiting)
		for _, id := range []string{"x", unknownID} {
			_, _, run := s.Run(t.Context(), bob, runID(1))
			refused(t, "run", run, fault.RunNotFound)
			_, _, other := s.Run(t.Context(), bob, id)
			same(t, "run", run, other)
			_, job := s.Job(t.Context(), bob, jobID(1))
			refused(t, "job", job, fault.JobNotFound)
			_, other = s.Job(t.Context(), bob, id)
			same(t, "job", job, other)
			_, retry := s.RetryJob(t.Context(), bob, jobID(1), now)
			refused(t, "retry", retry, fault.JobNotFound)
			_, other = s.RetryJob(t.Context(), bob, id, now)
			same(t, "retry", retry, other)
		}
		inOrder(t, "bob's runs", runIDs(t, s, bob, ports.RunQuery{Limit: 9}))
		if _, found, err := s.ActiveJob(t.Context(), bob, d.ID); err != nil || found {
			t.Fatalf("a foreign job is found: %v", err)
		}
		if j := storedJob(t, s, provisioning.Job{Account: ann, ID: jobID(1)}); j.Status != provisioning.Waiting {
			t.Fatalf("ann's became %+v", j)
		}
	}},
	{"runs come newest first, as many as asked for, active ones alone if asked for", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		for n, d := range manyDomains(t, s, ann, 1, 4) {
			startRun(t, s, ann, d, n+1)
		}
		j := claimJob(t, s, jobID(2), now.Add(time.Hour))
		becomes(t, s, j, provisioning.Completed)
		becomes(t, s, claimJob(t, s, jobID(4), now.Add(time.Hour)), provisioning.ActionRequired)
		inOrder(t, "all", runIDs(t, s, ann, ports.RunQuery{Limit: 9}), runID(4), runID(3), runID(2), runID(1))
		inOrder(t, "active", runIDs(t, s, ann, ports.RunQuery{Limit: 9, ActiveOnly: true}), runID(4), runID(3), runID(1))
		inOrder(t, "two", runIDs(t, s, ann, ports.RunQuery{Limit: 2}), runID(4), runID(3))
		all, err := s.Runs(t.Context(), ann, ports.RunQuery{Limit: 9})
		must(t, "list", err)
		var statuses []string
		for _, r := range all {
			statuses = append(statuses, string(r.Status))
		}
		inOrder(t, "statuses", statuses, "action_required", "queued", "completed", "queued")
	}},
}
