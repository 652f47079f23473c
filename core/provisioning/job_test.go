// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

func TestRunStatusSummarizesTheJobs(t *testing.T) {
	jobsWith := func(started bool, statuses ...Status) (jobs []Job) {
		for _, s := range statuses {
			job := newJob()
			job.Status = s
			if started {
				job.StartedAt = start
			}
			jobs = append(jobs, job)
		}
		return jobs
	}
	for _, tc := range []struct {
		jobs []Job
		want Status
	}{
		{jobsWith(false, Queued), Queued},
		{jobsWith(false, Queued, Queued), Queued},
		{jobsWith(true, Queued), Running}, // retried
		{jobsWith(true, Waiting), Running},
		{jobsWith(true, ActionRequired, Running), Running},
		{jobsWith(true, Failed, ActionRequired, Queued, Waiting), ActionRequired},
		{jobsWith(true, Failed, Waiting, Completed), Running},
		{append(jobsWith(true, Completed), jobsWith(false, Queued)...), Running},
		{jobsWith(true, Failed, Completed), Failed},
		{jobsWith(true, Completed, Completed), Completed},
	} {
		if got := (Run{}).With(tc.jobs).Status; got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.jobs, got, tc.want)
		}
	}
}

func TestRunTimesSpanTheJobs(t *testing.T) {
	minutesAfterStart := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	firstJob, secondJob := newJob(), newJob()
	run := Run{ID: "run", TotalDomains: 2, CreatedAt: start}
	want := run
	want.Status = Queued
	if diff := cmp.Diff(want, run.With([]Job{firstJob, secondJob})); diff != "" {
		t.Errorf("new jobs (-want +got):\n%s", diff)
	}
	firstJob.Status, firstJob.StartedAt, firstJob.EndedAt, firstJob.UpdatedAt = Completed, minutesAfterStart(2), minutesAfterStart(5), minutesAfterStart(5)
	secondJob.Status, secondJob.StartedAt, secondJob.UpdatedAt = Waiting, minutesAfterStart(1), minutesAfterStart(4)
	want.Status, want.StartedAt, want.UpdatedAt = Running, minutesAfterStart(1), minutesAfterStart(5)
	if diff := cmp.Diff(want, run.With([]Job{firstJob, secondJob})); diff != "" {
		t.Errorf("one of two jobs ended (-want +got):\n%s", diff)
	}
	secondJob.Status, secondJob.EndedAt = Failed, minutesAfterStart(3)
	want.Status, want.CompletedAt = Failed, minutesAfterStart(5)
	if diff := cmp.Diff(want, run.With([]Job{firstJob, secondJob})); diff != "" {
		t.Errorf("both jobs ended (-want +got):\n%s", diff)
	}
}

func TestOnlyEndedJobsAreInactive(t *testing.T) {
	for s, want := range map[Status]bool{Queued: true, Running: true, Waiting: true, ActionRequired: true, Completed: false, Failed: false} {
		if s.IsActive() != want {
			t.Errorf("%s: active is %t, want %t", s, !want, want)
		}
	}
}

// TestZoneOfSummarizesAPlan checks the facts of a plan on which a job's decisions depend.
func TestZoneOfSummarizesAPlan(t *testing.T) {
	holder := dns.Holder{
		Detection: dns.Detection{Provider: dns.Provider{ID: "powerdns", Title: "PowerDNS"}, Title: "PowerDNS"},
		Access:    dns.Access{Provider: "powerdns", Standing: dns.ZoneAccessible},
	}
	read := dns.ZoneRead{Domain: "contoso.test", Zone: "contoso.test", Complete: true}
	offer := dns.Offer{Verification: []dns.Record{{Type: dns.TXT, Name: "contoso.test", Content: "MS=ms1"}}}
	plan := dns.NewPlan(offer, read, nil)
	zone := ZoneOf(holder, holder.Automate(read, plan), plan)
	if zone.Provider != "powerdns" || !zone.FromProvider || !zone.Reliable || zone.Conflict || !zone.Changes || zone.Hash != plan.Hash() || zone.requiredAction() != "" {
		t.Errorf("a plan without problems: got %+v, want changes and no required action", zone)
	}
	read.Sets = []dns.RRSet{{Name: "contoso.test", Type: dns.MX, Values: []string{"10 mx.else.test"}}}
	plan = dns.NewPlan(offer, read, nil)
	if zone = ZoneOf(holder, holder.Automate(read, plan), plan); !zone.Conflict || zone.requiredAction() != dns.ConflictToResolve || zone.Message == "" {
		t.Errorf("a plan with a conflict: got %+v, want the action %s with a message", zone, dns.ConflictToResolve)
	}
	holder.Access.Standing = dns.NoConnection
	if zone = ZoneOf(holder, holder.Automate(read, plan), plan); zone.FromProvider || zone.requiredAction() != dns.ConnectionRequired {
		t.Errorf("a plan without a connection: got %+v, want the action %s", zone, dns.ConnectionRequired)
	}
	if got := (Zone{}).requiredAction(); got != dns.ReadUnreliable {
		t.Errorf("no plan requires %q, want %s", got, dns.ReadUnreliable)
	}
}
