// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

var dnsRetryChecks = []storeCheck{
	{"a retry queues a job that waits or needs an action, and no other", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := ownDomain(t, s, ann, 1)
		startRun(t, s, ann, d, 1)
		for _, status := range []provisioning.Status{provisioning.Queued, provisioning.Running, provisioning.Completed, provisioning.Failed} {
			_, j := aRun(ann, d, 1)
			becomes(t, s, j, status)
			_, err := s.RetryJob(t.Context(), ann, j.ID, now)
			refused(t, string(status), err, fault.JobNotRetryable)
		}
		for _, status := range []provisioning.Status{provisioning.Waiting, provisioning.ActionRequired} {
			before := storedJob(t, s, provisioning.Job{Account: ann, ID: jobID(1)})
			stopped := elaborate(before)
			becomes(t, s, stopped, status)
			stopped.Status = status
			got, err := s.RetryJob(t.Context(), ann, stopped.ID, now.Add(time.Hour))
			must(t, "retry", err)
			want, err := provisioning.Retry(stopped, now.Add(time.Hour))
			must(t, "decide", err)
			if diff := compare.Diff(want, got); diff != "" || got.Epoch != before.Epoch+1 {
				t.Fatalf("%s (-want +got):\n%s", status, diff)
			}
			if diff := compare.Diff(got, storedJob(t, s, got)); diff != "" {
				t.Fatalf("%s is stored otherwise (-want +got):\n%s", status, diff)
			}
			holds(t, "save by who had it", false)(s.SaveJob(t.Context(), stopped))
		}
	}},
	{"of many retries at once one wins", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		becomes(t, s, startRun(t, s, ann, ownDomain(t, s, ann, 1), 1), provisioning.ActionRequired)
		if n := winners(t, atOnce(crowd, func(int) error {
			_, err := s.RetryJob(t.Context(), ann, jobID(1), now)
			return err
		}), fault.JobNotRetryable); n != 1 {
			t.Fatalf("%d retries won", n)
		}
	}},
	{"runs end with their domains and with their account", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		startRun(t, s, ann, ownDomain(t, s, ann, 1), 1)
		startRun(t, s, bob, ownDomain(t, s, bob, 2), 2)
		j, k := claimJob(t, s, jobID(1), now.Add(time.Hour)), claimJob(t, s, jobID(2), now.Add(time.Hour))
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1)))
		closeAccount(t, s, bob)
		for _, j := range []provisioning.Job{j, k} {
			inOrder(t, "runs", runIDs(t, s, j.Account, ports.RunQuery{Limit: 9}))
			_, _, err := s.Run(t.Context(), j.Account, j.RunID)
			refused(t, "run", err, fault.RunNotFound)
			_, err = s.Job(t.Context(), j.Account, j.ID)
			refused(t, "job", err, fault.JobNotFound)
			holds(t, "hold", false)(s.HoldJob(t.Context(), j, leased))
			holds(t, "save", false)(s.SaveJob(t.Context(), j))
			holds(t, "release", false)(s.ReleaseJob(t.Context(), j, now))
			if _, won, err := s.ClaimJob(t.Context(), j.ID, leased, now.Add(time.Hour)); err != nil || won {
				t.Fatalf("claimed: %v", err)
			}
		}
		startRun(t, s, ann, ownDomain(t, s, ann, 1), 1)
		inOrder(t, "the runs of the tenant that came back", runIDs(t, s, ann, ports.RunQuery{Limit: 9}), runID(1))
	}},
	{"a run and a retry commit the answer that tells of them, or are refused with it", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := ownDomain(t, s, ann, 1)
		r, j := aRun(ann, d, 1)
		for key, change := range []func(ctx context.Context) error{
			func(ctx context.Context) error { return s.CreateRun(ctx, r, []provisioning.Job{j}) },
			func(ctx context.Context) error { _, err := s.RetryJob(ctx, ann, j.ID, now); return err },
		} {
			c := claimOf(ann, byte(key))
			attempt := claimed(t, s, c)
			refused(t, "an attempt that lost its key", change(completing(t, c, "20000000-0000-4000-8000-000000000000")), fault.KeyInProgress)
			must(t, "change", change(completing(t, c, attempt)))
			if a := remembered(t, s, c.Place); string(a.Answer) != "answer" || a.Leased {
				t.Fatalf("got %+v", a)
			}
			becomes(t, s, storedJob(t, s, j), provisioning.Waiting)
		}
	}},
}
