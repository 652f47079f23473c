// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestJobCompletesAllStages(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	j := fx.run(t, fx.Worker, fx.createJob(t).ID)
	fx.requireHealthy(t, j)
	if len(fx.provider.applied) != 2 {
		t.Errorf("the zone was written %d times, want once without and once with the DKIM records", len(fx.provider.applied))
	}
	if j.Provider != "cloudflare" || j.StartedAt.IsZero() || j.EndedAt.IsZero() {
		t.Errorf("the job is %+v, want the provider cloudflare and the times of its start and end", j)
	}
	wakeups := fx.wakeups.All()
	if len(wakeups) == 0 {
		t.Error("the job has no wake-up, although its steps wait")
	}
	for _, wakeup := range wakeups {
		if wakeup.Kind != Kind || wakeup.ID != j.ID || wakeup.Account != fx.account.ID || wakeup.At.IsZero() {
			t.Errorf("the wake-up is %+v, want one for the job with a time", wakeup)
		}
	}
}

// TestRecordsByHandAreEnough checks a domain without a DNS connection. The job writes nothing.
// After a person has published the planned records, retries finish the job.
func TestRecordsByHandAreEnough(t *testing.T) {
	fx := newFixture(t)
	id := fx.createJob(t).ID
	for range 3 { // without records, with the records before DKIM, and with the DKIM records
		j := fx.run(t, fx.Worker, id)
		if j.Status == provisioning.Completed {
			d, err := fx.store.DomainByID(t.Context(), fx.account.ID, fx.domain.ID)
			must(t, err)
			if !d.Verified || !d.DKIMEnabled || fx.providers.Writes() != 0 {
				t.Fatalf("after %d writes the stored domain is %+v, want no write, and the domain verified with DKIM", fx.providers.Writes(), d)
			}
			return
		}
		if j.RequiredAction != dns.ConnectionRequired {
			t.Fatalf("the job is %+v, want the action for a missing connection", j)
		}
		survey, err := fx.Domains.Survey(t.Context(), fx.account.ID, fx.domain.ID)
		must(t, err)
		var records []dns.Record
		for _, desired := range survey.Plan.Desired {
			records = append(records, desired.Record)
		}
		fx.fake.DNS.Publish(zone, records...)
		_, err = fx.store.RetryJob(t.Context(), fx.account.ID, id, fx.clock, nil)
		must(t, err)
	}
	t.Fatalf("the job did not complete in three runs: %+v", fx.job(t, id))
}

// TestStopReleasesTheJob checks that a worker that is stopped during a step releases its job at
// once. The job keeps its stage and its next step.
func TestStopReleasesTheJob(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	id := fx.createJob(t).ID
	gate := fx.fake.Hold("VerifyDomain")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	j := fx.runUntil(t, id, provisioning.StagePropagation)
	fx.wait(j.NextAttemptAt)
	go func() { ended <- fx.Handle(ctx, ports.Wakeup{ID: id}) }()
	<-gate.Arrived()
	stop()
	must(t, <-ended)
	gate.Release()
	j = fx.job(t, id)
	if j.Status != provisioning.Queued || j.Stage != provisioning.StageDomainVerification || j.Next != provisioning.Verify {
		t.Fatalf("the job is %+v, want it queued before the step Verify", j)
	}
	if wakeups := fx.wakeups.All(); wakeups[len(wakeups)-1].At.After(time.Now()) {
		t.Errorf("the job is woken at %s, want at once", wakeups[len(wakeups)-1].At)
	}
	fx.requireHealthy(t, fx.run(t, fx.Worker, id))
}

// TestStopsDoNotFailTheJob checks that an attempt does not count as a fault if the stop of its
// worker interrupted it, however often this happens in the same step.
func TestStopsDoNotFailTheJob(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	id := fx.createJob(t).ID
	j := fx.runUntil(t, id, provisioning.StagePropagation)
	fx.wait(j.NextAttemptAt)
	for stops := range 25 { // more than the 20 faults after which a job fails
		gate := fx.fake.Hold("VerifyDomain")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- fx.Handle(ctx, ports.Wakeup{ID: id}) }()
		select {
		case <-gate.Arrived():
		case err := <-ended:
			t.Fatalf("after %d stops, the attempt ended with %v: %+v", stops, err, fx.job(t, id))
		}
		stop()
		must(t, <-ended)
		gate.Release()
		if j := fx.job(t, id); j.Status != provisioning.Queued || j.Faults != 0 {
			t.Fatalf("after %d stops, the job is %s with %d faults, want it queued without faults", stops+1, j.Status, j.Faults)
		}
	}
	fx.requireHealthy(t, fx.run(t, fx.Worker, id))
}

func (fx *fixture) runUntil(t *testing.T, id string, stage provisioning.Stage) provisioning.Job {
	t.Helper()
	for range 100 {
		must(t, fx.Handle(t.Context(), ports.Wakeup{ID: id}))
		j := fx.job(t, id)
		if j.Status == provisioning.Waiting && j.Stage == stage {
			return j
		}
		fx.wait(j.NextAttemptAt)
	}
	t.Fatalf("the job never waits in %s: %+v", stage, fx.job(t, id))
	return provisioning.Job{}
}

// stalledProvider is a provider that answers a read of records only when the test allows it.
type stalledProvider struct {
	*publishingProvider
	arrived, answer chan struct{}
}

func (s stalledProvider) Records(ctx context.Context, z dns.Zone) ([]dns.RRSet, error) {
	sets, err := s.publishingProvider.Records(ctx, z)
	s.arrived <- struct{}{}
	<-s.answer
	return sets, err
}

// TestLateWorkerCannotWrite checks that a worker does not write after its job was claimed by
// a different worker.
func TestLateWorkerCannotWrite(t *testing.T) {
	fx := newFixture(t)
	provider := stalledProvider{fx.provider, make(chan struct{}, 100), make(chan struct{}, 100)}
	fx.connect(t, provider)
	id := fx.createJob(t).ID
	ended := make(chan error, 1)
	go func() { ended <- fx.Handle(t.Context(), ports.Wakeup{ID: id}) }()
	<-provider.arrived
	provider.answer <- struct{}{} // the read for the plan
	<-provider.arrived            // the read before the write
	lateEpoch := fx.endLease(t, id)
	fx.providers.AddAccount("cloudflare", "token", fx.provider)
	fx.requireHealthy(t, fx.run(t, fx.worker(dependencies{fx.fake, fx.store, fx.store, fx.providers}), id))
	jobBefore, writes := fx.job(t, id), fx.providers.Writes()
	provider.answer <- struct{}{}
	must(t, <-ended)
	if fx.providers.Writes() != writes || fx.job(t, id) != jobBefore || jobBefore.Epoch <= lateEpoch {
		t.Fatalf("the late worker changed %d writes to %d, or the job from %+v to %+v, or its epoch is not later than %d", writes, fx.providers.Writes(), jobBefore, fx.job(t, id), lateEpoch)
	}
}

// endLease ends the lease of a job, so that a different worker can claim the job as if the lease
// had expired. It returns the epoch of the ended lease.
func (fx *fixture) endLease(t *testing.T, id string) int64 {
	t.Helper()
	j := fx.job(t, id)
	released, err := fx.store.ReleaseJob(t.Context(), j, fx.clock)
	must(t, err)
	if !released {
		t.Fatalf("no worker has claimed %+v", j)
	}
	return j.Epoch
}

func TestSweepWakesDueJobsAndNoRunningJobs(t *testing.T) {
	fx := newFixture(t)
	j := fx.createJob(t)
	sweep := fx.Sweep(time.Second)
	must(t, sweep.Do(t.Context()))
	wakeups := fx.wakeups.All()
	if len(wakeups) != 1 || wakeups[0].Kind != Kind || wakeups[0].ID != j.ID || wakeups[0].Account != fx.account.ID {
		t.Fatalf("the wake-ups are %+v, want one for the due job", wakeups)
	}
	_, claimed, err := fx.store.ClaimJob(t.Context(), j.ID, apptest.HangTimeout, fx.clock)
	must(t, err)
	must(t, sweep.Do(t.Context()))
	if wakeups := fx.wakeups.All(); !claimed || len(wakeups) != 1 {
		t.Fatalf("claimed is %v, and after a second sweep the wake-ups are %+v, want none for a running job", claimed, wakeups)
	}
}

func TestJobWaitsForTheMailServer(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	id := fx.createJob(t).ID
	j := fx.runUntil(t, id, provisioning.StageDomainVerification)
	if j.Next != provisioning.EnableMail {
		t.Fatalf("the job waits for %s, want EnableMail", j.Next)
	}
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapReady })
	fx.requireHealthy(t, fx.run(t, fx.Worker, id))
}

// laggingPlatform is a mail platform whose reads of records come from a lagging replica while lags
// is true. The replica shows the domain as unverified, so its answers have no service records.
type laggingPlatform struct {
	ports.MailPlatform

	lags *bool
}

func (p laggingPlatform) For(id tenant.GUID) ports.MailTenant {
	return laggingTenant{p.MailPlatform.For(id), p.lags}
}

type laggingTenant struct {
	ports.MailTenant

	lags *bool
}

func (c laggingTenant) Records(ctx context.Context, name string) (domain.Records, error) {
	records, err := c.MailTenant.Records(ctx, name)
	if *c.lags {
		records.Service = nil
	}
	return records, err
}

// TestJobWaitsForTheServiceRecords checks that a job does not continue without the MX and SPF
// records while a replica of the platform does not show them.
func TestJobWaitsForTheServiceRecords(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	lags := true
	worker := fx.worker(dependencies{laggingPlatform{fx.fake, &lags}, fx.store, fx.store, fx.providers})
	id := fx.createJob(t).ID
	for range 20 {
		must(t, worker.Handle(t.Context(), ports.Wakeup{ID: id}))
		fx.wait(fx.job(t, id).NextAttemptAt)
	}
	if j := fx.job(t, id); j.Status != provisioning.Waiting || j.Next != provisioning.EnableMail {
		t.Fatalf("the job is %+v, want it waiting in the step EnableMail", j)
	}
	lags = false
	fx.requireHealthy(t, fx.run(t, worker, id))
}

// TestJobEndsProxyingOfDKIMRecords checks that a job ends the proxying of a DKIM record and then
// completes. The job does not change a foreign DMARC record that the provider proxies.
func TestJobEndsProxyingOfDKIMRecords(t *testing.T) {
	fx := newFixture(t)
	foreignDMARC := dns.RRSet{Name: "_dmarc." + zone, Type: dns.CNAME, TTL: 300, Values: []string{"vendor.test"}, Veiled: true}
	fx.provider.Put(zone, foreignDMARC)
	fx.provider.show(t.Context(), dns.Zone{Name: zone})
	fx.connect(t, fx.provider)
	id := fx.createJob(t).ID
	for range 100 {
		must(t, fx.Handle(t.Context(), ports.Wakeup{ID: id}))
		if fx.job(t, id).Stage == provisioning.StageDKIMPublication {
			break
		}
		fx.wait(fx.job(t, id).NextAttemptAt)
	}
	records, err := fx.provider.Records(t.Context(), dns.Zone{ID: zone})
	must(t, err)
	selector := dns.Find(records, "selector1._domainkey."+zone, dns.CNAME)
	if len(selector.Values) == 0 {
		t.Fatalf("the provider has no DKIM record, although the job should have written it: %+v", fx.job(t, id))
	}
	selector.Veiled = true
	fx.provider.Put(zone, selector)
	fx.provider.show(t.Context(), dns.Zone{Name: zone})
	fx.requireHealthy(t, fx.run(t, fx.Worker, id))
	records, err = fx.provider.Records(t.Context(), dns.Zone{ID: zone})
	must(t, err)
	if !dns.Find(records, foreignDMARC.Name, dns.CNAME).Veiled || dns.Find(records, selector.Name, dns.CNAME).Veiled {
		t.Errorf("the records are %+v, want only the DMARC record proxied", records)
	}
}

// TestFinishedStepsAreNotRepeated checks that a job does not repeat the steps that a Verify request
// has finished. An EnableDKIM request does not repeat the steps that the job has finished.
func TestFinishedStepsAreNotRepeated(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	id := fx.createJob(t).ID
	fx.runUntil(t, id, provisioning.StagePropagation)
	_, err := (&domains.Service{Steps: fx.Domains}).Verify(t.Context(), fx.account.ID, tenantGUID, zone)
	must(t, err)
	fx.wait(fx.job(t, id).NextAttemptAt)
	fx.requireHealthy(t, fx.run(t, fx.Worker, id))
	_, err = (&domains.Service{Steps: fx.Domains}).EnableDKIM(t.Context(), fx.account.ID, tenantGUID, zone)
	must(t, err)
	fx.requireHealthy(t, fx.job(t, id))
}

// TestNewJobStartsAtOnceIfTheClockIsAhead checks the wake-up of a new job in a sandbox whose clock
// was moved. Queues compare the due time with the machine's clock.
func TestNewJobStartsAtOnceIfTheClockIsAhead(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	fx.clock = time.Now().Add(2 * time.Hour)
	service := &Service{Tenants: fx.store, Domains: fx.store, Runs: fx.store, Survey: fx.Domains, Queue: fx.wakeups,
		Now: func() time.Time { return fx.clock }, Random: rand.Reader, Trace: func(context.Context) string { return "" }}
	_, err := service.Provision(t.Context(), fx.account, fx.domain.ID, nil)
	must(t, err)
	if wakeups := fx.wakeups.All(); len(wakeups) != 1 || wakeups[0].At.After(time.Now()) {
		t.Errorf("the wake-ups are %+v, want one that is due at once", wakeups)
	}
}
