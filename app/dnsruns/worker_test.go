// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestJobGoesAllTheWay(t *testing.T) {
	w := newFixture(t)
	w.connect(t, w.provider)
	j := w.run(t, w.Worker, w.begin(t).ID)
	w.healthy(t, j)
	if len(w.provider.applied) != 2 {
		t.Errorf("the zone was written %d times, want once before and once with DKIM", len(w.provider.applied))
	}
	if j.Provider != "cloudflare" || j.StartedAt.IsZero() || j.EndedAt.IsZero() {
		t.Errorf("the job ended %+v", j)
	}
	for _, a := range w.wakeups.All() {
		if a.Kind != Kind || a.ID != j.ID || a.Account != w.acc.ID || a.At.IsZero() {
			t.Errorf("woken %+v", a)
		}
	}
}

// TestRecordsByHandAreEnough checks a domain without a DNS connection. The job writes nothing. It
// finishes by retries after a person has published the planned records.
func TestRecordsByHandAreEnough(t *testing.T) {
	w := newFixture(t)
	id := w.begin(t).ID
	for range 3 {
		j := w.run(t, w.Worker, id)
		if j.Status == provisioning.Completed {
			w.healthyByHand(t)
			return
		}
		if j.Required != dns.ConnectionRequired {
			t.Fatalf("the job is %+v", j)
		}
		v, err := w.Domains.Survey(t.Context(), w.acc.ID, w.domain.ID)
		must(t, err)
		var all []dns.Record
		for _, d := range v.Plan.Desired {
			all = append(all, d.Record)
		}
		w.fake.DNS.Publish(zone, all...)
		_, err = w.store.RetryJob(t.Context(), w.acc.ID, id, w.clock, nil)
		must(t, err)
	}
	t.Fatalf("the job is %+v", w.job(t, id))
}

func (w *fixture) healthyByHand(t *testing.T) {
	t.Helper()
	d, err := w.store.DomainByID(t.Context(), w.acc.ID, w.domain.ID)
	must(t, err)
	if !d.Verified || !d.DKIM || w.providers.Writes() != 0 {
		t.Fatalf("stored %+v after %d writes", d, w.providers.Writes())
	}
}

// TestStopHandsBack checks that a stopping worker releases its job at once, in the state before the
// step.
func TestStopHandsBack(t *testing.T) {
	w := newFixture(t)
	w.connect(t, w.provider)
	id := w.begin(t).ID
	gate := w.fake.Hold("VerifyDomain")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	j := w.runUntil(t, id, provisioning.StagePropagation)
	w.wait(j.NextAttemptAt)
	go func() { ended <- w.Handle(ctx, ports.Wakeup{ID: id}) }()
	<-gate.Arrived()
	stop()
	must(t, <-ended)
	gate.Release()
	j = w.job(t, id)
	if j.Status != provisioning.Queued || j.Stage != provisioning.StageDomainVerification || j.Next != provisioning.Verify {
		t.Fatalf("the job is %+v", j)
	}
	if all := w.wakeups.All(); all[len(all)-1].At.After(time.Now()) {
		t.Errorf("it is woken at %s", all[len(all)-1].At)
	}
	w.healthy(t, w.run(t, w.Worker, id))
}

// runUntil runs the job until it waits in the stage.
func (w *fixture) runUntil(t *testing.T, id string, stage provisioning.Stage) provisioning.Job {
	t.Helper()
	for range 100 {
		must(t, w.Handle(t.Context(), ports.Wakeup{ID: id}))
		j := w.job(t, id)
		if j.Status == provisioning.Waiting && j.Stage == stage {
			return j
		}
		w.wait(j.NextAttemptAt)
	}
	t.Fatalf("the job never waits in %s: %+v", stage, w.job(t, id))
	return provisioning.Job{}
}

// stalled is a provider that answers only when the test allows it.
type stalled struct {
	*published
	arrived, open chan struct{}
}

func (s stalled) Records(ctx context.Context, z dns.Zone) ([]dns.RRSet, error) {
	sets, err := s.published.Records(ctx, z)
	s.arrived <- struct{}{}
	<-s.open
	return sets, err
}

// TestLateWorkerCannotWrite checks that a worker does not write after its job was claimed by
// another worker.
func TestLateWorkerCannotWrite(t *testing.T) {
	w := newFixture(t)
	at := stalled{w.provider, make(chan struct{}, 100), make(chan struct{}, 100)}
	w.connect(t, at)
	id := w.begin(t).ID
	ended := make(chan error, 1)
	go func() { ended <- w.Handle(t.Context(), ports.Wakeup{ID: id}) }()
	<-at.arrived
	at.open <- struct{}{} // the plan
	<-at.arrived          // the list before the write
	late := w.expire(t, id)
	w.providers.Hold("cloudflare", "token", w.provider)
	w.healthy(t, w.run(t, w.worker(dependencies{w.fake, w.store, w.store, w.providers}), id))
	before, writes := w.job(t, id), w.providers.Writes()
	at.open <- struct{}{}
	must(t, <-ended)
	if w.providers.Writes() != writes || w.job(t, id) != before || before.Epoch <= late {
		t.Fatalf("the late worker wrote: %d writes, %+v", w.providers.Writes(), w.job(t, id))
	}
}

// expire expires the lease of a job and returns the epoch of the lease.
func (w *fixture) expire(t *testing.T, id string) int64 {
	t.Helper()
	j := w.job(t, id)
	held, err := w.store.ReleaseJob(t.Context(), j, w.clock)
	must(t, err)
	if !held {
		t.Fatalf("no worker holds %+v", j)
	}
	return j.Epoch
}

// TestSweepWakesWhatIsDue checks that the sweep queues a job without a wake-up.
func TestSweepWakesWhatIsDue(t *testing.T) {
	w := newFixture(t)
	j := w.begin(t)
	sweep := w.Sweep(time.Second)
	must(t, sweep.Do(t.Context()))
	all := w.wakeups.All()
	if len(all) != 1 || all[0].Kind != Kind || all[0].ID != j.ID || all[0].Account != w.acc.ID {
		t.Fatalf("woken %+v", all)
	}
	_, won, err := w.store.ClaimJob(t.Context(), j.ID, time.Minute, w.clock)
	must(t, err)
	must(t, sweep.Do(t.Context()))
	if n := len(w.wakeups.All()); !won || n != 1 {
		t.Fatalf("a running job was woken (%d)", n)
	}
}

// TestWaitsForTheMailServer checks that a job waits, instead of failing, while the tenant's mail
// server is not prepared.
func TestWaitsForTheMailServer(t *testing.T) {
	w := newFixture(t)
	w.connect(t, w.provider)
	w.change(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	id := w.begin(t).ID
	j := w.runUntil(t, id, provisioning.StageDomainVerification)
	if j.Next != provisioning.EnableMail {
		t.Fatalf("the job waits for %s", j.Next)
	}
	w.change(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapReady })
	w.healthy(t, w.run(t, w.Worker, id))
}

// TestPassesAndJobsShareTheirWork checks that a job does not repeat what a customer's verify has
// done, and that enable-dkim does not repeat what a job has done.
func TestPassesAndJobsShareTheirWork(t *testing.T) {
	w := newFixture(t)
	w.connect(t, w.provider)
	id := w.begin(t).ID
	w.runUntil(t, id, provisioning.StagePropagation)
	_, err := (&domains.Service{Steps: w.Domains}).Verify(t.Context(), w.acc.ID, theTenant, zone)
	must(t, err)
	w.wait(w.job(t, id).NextAttemptAt)
	w.healthy(t, w.run(t, w.Worker, id))
	_, err = (&domains.Service{Steps: w.Domains}).EnableDKIM(t.Context(), w.acc.ID, theTenant, zone)
	must(t, err)
	w.healthy(t, w.job(t, id))
}
