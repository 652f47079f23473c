// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// addJobs stores an account with so many domains, each with a queued job.
func addJobs(t *testing.T, s *Store, name string, count int, now time.Time) access.AccountID {
	t.Helper()
	a, err := s.CreateAccount(t.Context(), name+"@example.test", "complete", 0, now)
	must(t, err)
	made, err := s.Attach(t.Context(), a.ID, tenant.Tenant{GUID: tenant.GUID(newID()), ConsentedAt: now}, 100)
	must(t, err)
	var domains []domainRow
	var runs []dnsRunRow
	var jobs []dnsJobRow
	for i := range count {
		d := domainRow{AccountID: string(a.ID), ID: newID(), TenantID: made.ID, Name: fmt.Sprintf("d%d.test", i), Added: true, CreatedAt: now, StoredAt: now}
		r := dnsRunRow{AccountID: string(a.ID), ID: newID(), TotalDomains: 1, CreatedAt: now}
		domains, runs = append(domains, d), append(runs, r)
		jobs = append(jobs, newDNSJobRow(provisioning.New(newID(), r.ID, a.ID, d.ID, made.GUID, d.Name, now)))
	}
	for at := 0; at < count; at += 500 {
		to := min(at+500, count)
		part, of, with := domains[at:to], runs[at:to], jobs[at:to]
		for _, rows := range []any{&part, &of, &with} {
			_, err := s.db.NewInsert().Model(rows).Exec(t.Context())
			must(t, err)
		}
	}
	return a.ID
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLargeBacklogDoesNotDelayOtherAccounts checks that the job of a second account is the
// next one that a worker claims, while all workers are busy with the jobs of the first.
func TestLargeBacklogDoesNotDelayOtherAccounts(t *testing.T) {
	eachShared(t, func(t *testing.T, url func(testing.TB) string) {
		s := migrated(t, url(t))
		addJobs(t, s, "ann", 10_000, began)
		now := began.Add(time.Hour)
		work := func() (claimed []provisioning.Job) {
			due, err := s.DueJobs(t.Context(), now, 4)
			must(t, err)
			for _, d := range due {
				j, won, err := s.ClaimJob(t.Context(), d.ID, time.Minute, now)
				must(t, err)
				if !won {
					t.Fatalf("%s is due and cannot be claimed", d.ID)
				}
				claimed = append(claimed, j)
			}
			return claimed
		}
		for range 5 {
			if n := len(work()); n != 4 {
				t.Fatalf("%d were due", n)
			}
		}
		bob := addJobs(t, s, "bob", 1, began.Add(59*time.Minute))
		if got := work()[0]; got.Account != bob {
			t.Errorf("the next job belongs to account %s, want the second account %s", got.Account, bob)
		}
	})
}

// TestTwoProcessesShareJobs checks that one process at a time works on a job, and that all jobs
// finish.
func TestTwoProcessesShareJobs(t *testing.T) {
	eachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		one, two := migrated(t, address), opened(t, address)
		const jobs = 60
		owner := addJobs(t, one, "ann", jobs, began)
		var mu sync.Mutex
		claims := map[string]int{}
		var wg sync.WaitGroup
		for _, s := range []*Store{one, two, one, two} {
			wg.Go(func() {
				for {
					due, err := s.DueJobs(t.Context(), began.Add(time.Hour), 7)
					if err != nil {
						t.Error(err)
						return
					}
					if len(due) == 0 {
						return
					}
					for _, d := range due {
						j, won, err := s.ClaimJob(t.Context(), d.ID, time.Minute, began.Add(time.Hour))
						if err != nil {
							t.Error(err)
							return
						}
						if !won {
							continue
						}
						mu.Lock()
						claims[j.ID]++
						mu.Unlock()
						j.Status = provisioning.Completed
						if held, err := s.SaveJob(t.Context(), j); err != nil || !held {
							t.Errorf("held %v, %v", held, err)
						}
					}
				}
			})
		}
		wg.Wait()
		for id, n := range claims {
			if n != 1 {
				t.Errorf("%s was claimed %d times", id, n)
			}
		}
		if len(claims) != jobs {
			t.Errorf("%d of %d were claimed", len(claims), jobs)
		}
		active, err := one.Runs(t.Context(), owner, ports.RunQuery{Limit: 100, ActiveOnly: true})
		must(t, err)
		if len(active) != 0 {
			t.Errorf("%d runs are active", len(active))
		}
	})
}

// TestConcurrentProcessesCreateOneRun checks that the unique index admits one of two concurrent
// runs.
func TestConcurrentProcessesCreateOneRun(t *testing.T) {
	eachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		one, two := migrated(t, address), opened(t, address)
		owner := addJobs(t, one, "ann", 1, began)
		due, err := one.DueJobs(t.Context(), began, 1)
		must(t, err)
		j, _, err := one.ClaimJob(t.Context(), due[0].ID, time.Minute, began)
		must(t, err)
		j.Status = provisioning.Failed
		_, err = one.SaveJob(t.Context(), j)
		must(t, err)
		errs := make([]error, 20)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				r := provisioning.Run{ID: newID(), Account: owner, TotalDomains: 1, CreatedAt: began}
				errs[i] = []*Store{one, two}[i%2].CreateRun(t.Context(), r, []provisioning.Job{
					provisioning.New(newID(), r.ID, owner, j.DomainID, j.TenantGUID, j.DomainName, began),
				}, nil)
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, fault.JobActive) {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d were created", won)
		}
	})
}

// TestEndLeasesReleasesJobs and the next test cover the start of the only process of an embedded
// database.
func TestEndLeasesReleasesJobs(t *testing.T) {
	s := migrated(t, Memory)
	addJobs(t, s, "ann", 1, began)
	due, err := s.DueJobs(t.Context(), began, 1)
	must(t, err)
	first, _, err := s.ClaimJob(t.Context(), due[0].ID, time.Hour, began)
	must(t, err)
	must(t, s.EndLeases(t.Context()))
	second, won, err := s.ClaimJob(t.Context(), first.ID, time.Hour, began)
	must(t, err)
	if !won || second.Epoch != first.Epoch+1 {
		t.Fatalf("won %v, epoch %d after %d", won, second.Epoch, first.Epoch)
	}
}

func TestEndLeasesReleasesTenants(t *testing.T) {
	s := migrated(t, Memory)
	first, _ := addClaimedMailbox(t, s)
	now := time.Now().Add(time.Hour)
	if _, won, err := s.ClaimTenant(t.Context(), first.Account, first.Tenant, time.Hour, now); won || err != nil {
		t.Fatalf("taken from a run: %v, %v", won, err)
	}
	must(t, s.EndLeases(t.Context()))
	second, won, err := s.ClaimTenant(t.Context(), first.Account, first.Tenant, time.Hour, now)
	must(t, err)
	if !won || second.Epoch != first.Epoch+1 {
		t.Fatalf("won %v, epoch %d after %d", won, second.Epoch, first.Epoch)
	}
}
