// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// crashingProviders returns DNS providers whose writes are steps of a fake.CrashingProcess. That
// process crashes at one of its steps.
type crashingProviders struct {
	ports.DNSProviders

	process *fake.CrashingProcess
}

func (p crashingProviders) For(provider string, c secret.Credential) ports.DNSProvider {
	return crashingProvider{p.DNSProviders.For(provider, c), p.process}
}

type crashingProvider struct {
	ports.DNSProvider

	process *fake.CrashingProcess
}

func (p crashingProvider) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	return fake.StepWithResult(ctx, p.process, func() ([]dns.RRSet, error) { return p.DNSProvider.Apply(ctx, z, changes) })
}

// crashingJobs is a store in which each call that claims, saves or releases a job is a step of a
// fake.CrashingProcess.
type crashingJobs struct {
	ports.DNSJobs

	process *fake.CrashingProcess
}

func (s crashingJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, now time.Time) (j provisioning.Job, won bool, err error) {
	err = s.process.Step(ctx, func() (err error) {
		j, won, err = s.DNSJobs.ClaimJob(ctx, id, lease, now)
		return err
	})
	return j, won && err == nil, err
}

func (s crashingJobs) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	return fake.StepWithResult(ctx, s.process, func() (bool, error) { return s.DNSJobs.SaveJob(ctx, j) })
}

func (s crashingJobs) ReleaseJob(ctx context.Context, j provisioning.Job, now time.Time) (bool, error) {
	return fake.StepWithResult(ctx, s.process, func() (bool, error) { return s.DNSJobs.ReleaseJob(ctx, j, now) })
}

func (s crashingJobs) RenewJobLease(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	if s.process.Dead() {
		return false, fake.ErrCrashed
	}
	return s.DNSJobs.RenewJobLease(ctx, j, lease)
}

// crashingWrites is a store in which each call that records a write to a zone is a step of a
// fake.CrashingProcess.
type crashingWrites struct {
	ports.DNSWrites

	process *fake.CrashingProcess
}

func (s crashingWrites) IntendWrite(ctx context.Context, owner access.AccountID, w dns.Write) (string, error) {
	return fake.StepWithResult(ctx, s.process, func() (string, error) { return s.DNSWrites.IntendWrite(ctx, owner, w) })
}

func (s crashingWrites) ConfirmWrite(ctx context.Context, owner access.AccountID, id string) error {
	return s.process.Step(ctx, func() error { return s.DNSWrites.ConfirmWrite(ctx, owner, id) })
}

func (s crashingWrites) DropWrite(ctx context.Context, owner access.AccountID, id string) error {
	return s.process.Step(ctx, func() error { return s.DNSWrites.DropWrite(ctx, owner, id) })
}

// TestEveryCrashConverges crashes the process of a worker once at each step, before and after the
// effect of the step. After the lease of this worker has ended, a second worker finishes the job.
// Nothing is created twice, and the store lists all written records as managed by tenantry.
func TestEveryCrashConverges(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		crashStep := 0
		for finished := false; !finished; crashStep++ {
			inFakeTime(t, fmt.Sprintf("step %d, after its effect %v", crashStep, afterEffect), func(t *testing.T) {
				fx := newFixture(t)
				fx.connect(t, fx.provider)
				id := fx.createJob(t).ID
				process := fake.NewCrashingProcess(crashStep, afterEffect)
				worker := fx.worker(dependencies{
					fake.SteppedMailPlatform(fx.fake, process), fake.SteppedDomains(fx.store, process), crashingJobs{fx.store, process}, crashingProviders{fx.providers, process},
				})
				worker.Domains.Writes = crashingWrites{fx.store, process}
				fx.runUntilCrash(t, process, worker, id)
				finished = !process.Dead()
				if j := fx.job(t, id); j.Status == provisioning.Running {
					fx.endLease(t, id)
				}
				fx.requireHealthy(t, fx.run(t, fx.Worker, id))
				fx.requireManaged(t, fx.providerRecords(t)...)
			})
		}
		if crashStep < 25 { // a complete job has more steps, so some calls were not steps of the process
			t.Fatalf("a worker crashed at only %d steps of a job, want at least 25", crashStep-1)
		}
	}
}

func (fx *fixture) runUntilCrash(t *testing.T, process *fake.CrashingProcess, worker *Worker, id string) {
	t.Helper()
	for !process.Dead() {
		err := worker.Handle(t.Context(), ports.Wakeup{ID: id})
		j := fx.job(t, id)
		switch {
		case process.Dead():
		case err != nil:
			t.Fatalf("Handle failed before the crash: %v", err)
		case j.Status == provisioning.Waiting:
			fx.wait(j.NextAttemptAt)
		default:
			return
		}
	}
}
