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

type crashingProviders struct {
	ports.DNSProviders

	life *fake.CrashingProcess
}

func (p crashingProviders) For(provider string, c secret.Credential) ports.DNSProvider {
	return crashingProvider{p.DNSProviders.For(provider, c), p.life}
}

type crashingProvider struct {
	ports.DNSProvider

	life *fake.CrashingProcess
}

func (m crashingProvider) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	return fake.Answer(ctx, m.life, func() ([]dns.RRSet, error) { return m.DNSProvider.Apply(ctx, z, changes) })
}

type crashingJobs struct {
	ports.DNSJobs

	life *fake.CrashingProcess
}

func (s crashingJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, now time.Time) (j provisioning.Job, won bool, err error) {
	err = s.life.Step(ctx, func() (err error) {
		j, won, err = s.DNSJobs.ClaimJob(ctx, id, lease, now)
		return err
	})
	return j, won && err == nil, err
}

func (s crashingJobs) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	return fake.Answer(ctx, s.life, func() (bool, error) { return s.DNSJobs.SaveJob(ctx, j) })
}

func (s crashingJobs) ReleaseJob(ctx context.Context, j provisioning.Job, now time.Time) (bool, error) {
	return fake.Answer(ctx, s.life, func() (bool, error) { return s.DNSJobs.ReleaseJob(ctx, j, now) })
}

func (s crashingJobs) HoldJob(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	if s.life.Dead() {
		return false, fake.ErrCrashed
	}
	return s.DNSJobs.HoldJob(ctx, j, lease)
}

type crashingWrites struct {
	ports.DNSWrites

	life *fake.CrashingProcess
}

func (s crashingWrites) IntendWrite(ctx context.Context, owner access.AccountID, w dns.Write) (string, error) {
	return fake.Answer(ctx, s.life, func() (string, error) { return s.DNSWrites.IntendWrite(ctx, owner, w) })
}

func (s crashingWrites) ConfirmWrite(ctx context.Context, owner access.AccountID, id string) error {
	return s.life.Step(ctx, func() error { return s.DNSWrites.ConfirmWrite(ctx, owner, id) })
}

func (s crashingWrites) DropWrite(ctx context.Context, owner access.AccountID, id string) error {
	return s.life.Step(ctx, func() error { return s.DNSWrites.DropWrite(ctx, owner, id) })
}

// TestEveryCrashConverges crashes a worker once at each step of a job. After the worker's lease
// has expired, a second worker finishes the job. Nothing is created twice, and all written records
// are managed.
func TestEveryCrashConverges(t *testing.T) {
	for _, after := range []bool{false, true} {
		steps := 0
		for finished := false; !finished; steps++ {
			inFakeTime(t, fmt.Sprintf("step %d, after its effect %v", steps, after), func(t *testing.T) {
				fx := newFixture(t)
				fx.connect(t, fx.provider)
				id := fx.begin(t).ID
				l := fake.NewCrashingProcess(steps, after)
				by := fx.worker(dependencies{
					fake.SteppedMailPlatform(fx.fake, l), fake.SteppedDomains(fx.store, l), crashingJobs{fx.store, l}, crashingProviders{fx.providers, l},
				})
				by.Domains.Writes = crashingWrites{fx.store, l}
				fx.runUntilCrash(t, l, by, id)
				finished = !l.Dead()
				if j := fx.job(t, id); j.Status == provisioning.Running {
					fx.expire(t, id)
				}
				fx.healthy(t, fx.run(t, fx.Worker, id))
				fx.requireManaged(t, fx.recordsHeld(t)...)
			})
		}
		if steps < 25 {
			t.Fatalf("a job has only %d steps at which a worker can crash", steps)
		}
	}
}

// runUntilCrash runs a job until its worker crashes or the job ends.
func (fx *fixture) runUntilCrash(t *testing.T, l *fake.CrashingProcess, by *Worker, id string) {
	t.Helper()
	for !l.Dead() {
		err := by.Handle(t.Context(), ports.Wakeup{ID: id})
		j := fx.job(t, id)
		switch {
		case l.Dead():
		case err != nil:
			t.Fatal(err)
		case j.Status == provisioning.Waiting:
			fx.wait(j.NextAttemptAt)
		default:
			return
		}
	}
}
