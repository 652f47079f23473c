// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var errDead = errors.New("the process is dead")

// life ends a process at one of its steps: before or after the step's effect.
// From then on nothing it does reaches the world.
type life struct {
	mu    sync.Mutex
	left  int
	after bool
	dead  bool
}

func (l *life) step(do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	if l.left > 0 {
		l.left--
		return do()
	}
	l.dead = true
	if l.after {
		_ = do()
	}
	return errDead
}

func answer[T any](l *life, do func() (T, error)) (out T, err error) {
	err = l.step(func() (err error) {
		out, err = do()
		return err
	})
	return out, err
}

type mortalPlatform struct {
	ports.MailPlatform
	*life
}

func (p mortalPlatform) For(id tenant.GUID) ports.MailTenant {
	return mortalTenant{p.MailPlatform.For(id), p.life}
}

type mortalTenant struct {
	ports.MailTenant
	*life
}

func (m mortalTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	return answer(m.life, func() (domain.Platform, error) { return m.MailTenant.VerifyDomain(ctx, name) })
}

func (m mortalTenant) EnableMail(ctx context.Context, name string) error {
	return m.step(func() error { return m.MailTenant.EnableMail(ctx, name) })
}

func (m mortalTenant) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	return answer(m.life, func() (dns.Signing, error) { return m.MailTenant.EnsureSigning(ctx, name) })
}

func (m mortalTenant) EnableSigning(ctx context.Context, name string) error {
	return m.step(func() error { return m.MailTenant.EnableSigning(ctx, name) })
}

type mortalProviders struct {
	ports.DNSProviders
	*life
}

func (p mortalProviders) For(provider string, c secret.Credential) ports.DNSProvider {
	return mortalProvider{p.DNSProviders.For(provider, c), p.life}
}

type mortalProvider struct {
	ports.DNSProvider
	*life
}

func (m mortalProvider) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	return answer(m.life, func() ([]dns.RRSet, error) { return m.DNSProvider.Apply(ctx, z, changes) })
}

type mortalDomains struct {
	stored
	*life
}

func (s mortalDomains) SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	return s.step(func() error { return s.stored.SaveDomain(ctx, owner, d) })
}

type mortalJobs struct {
	ports.DNSJobs
	*life
}

func (s mortalJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, now time.Time) (j provisioning.Job, won bool, err error) {
	err = s.step(func() (err error) {
		j, won, err = s.DNSJobs.ClaimJob(ctx, id, lease, now)
		return err
	})
	return j, won && err == nil, err
}

func (s mortalJobs) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	return answer(s.life, func() (bool, error) { return s.DNSJobs.SaveJob(ctx, j) })
}

func (s mortalJobs) ReleaseJob(ctx context.Context, j provisioning.Job, now time.Time) (bool, error) {
	return answer(s.life, func() (bool, error) { return s.DNSJobs.ReleaseJob(ctx, j, now) })
}

func (s mortalJobs) HoldJob(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	s.mu.Lock()
	dead := s.dead
	s.mu.Unlock()
	if dead {
		return false, errDead
	}
	return s.DNSJobs.HoldJob(ctx, j, lease)
}

// TestEveryCrashConverges ends a worker at every step of a job in turn. When its
// lease is over another takes the job to its end, and nothing was made twice.
func TestEveryCrashConverges(t *testing.T) {
	for _, after := range []bool{false, true} {
		steps := 0
		for finished := false; !finished; steps++ {
			t.Run(fmt.Sprintf("step %d, after its effect %v", steps, after), func(t *testing.T) {
				w := newWorld(t)
				w.connect(t, w.provider)
				id := w.begin(t).ID
				l := &life{left: steps, after: after}
				w.live(t, l, w.worker(reality{
					mortalPlatform{w.fake, l}, mortalDomains{w.store, l}, mortalJobs{w.store, l}, mortalProviders{w.providers, l},
				}), id)
				finished = !l.dead
				if j := w.job(t, id); j.Status == provisioning.Running {
					w.expire(t, id)
				}
				w.healthy(t, w.run(t, w.Worker, id))
			})
		}
		if steps < 25 {
			t.Fatalf("a job has only %d steps at which a worker can die", steps)
		}
	}
}

// live runs a job until its worker dies, or it is at its end.
func (w *world) live(t *testing.T, l *life, by *Worker, id string) {
	t.Helper()
	for !l.dead {
		err := by.Handle(t.Context(), ports.Wakeup{ID: id})
		j := w.job(t, id)
		switch {
		case l.dead:
		case err != nil:
			t.Fatal(err)
		case j.Status == provisioning.Waiting:
			w.wait(j.NextAttemptAt)
		default:
			return
		}
	}
}
