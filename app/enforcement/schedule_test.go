// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// sweep runs one sweep and the passes that it wakes, and returns their number.
func (fx *fixture) sweep(t *testing.T) (woken int) {
	t.Helper()
	queue := &fake.Wakeups{}
	for _, p := range fx.Periodic(time.Minute, queue) {
		must(t, p.Do(t.Context()))
	}
	for _, w := range queue.All() {
		must(t, fx.Handlers()[w.Kind](t.Context(), w))
	}
	return len(queue.All())
}

// A sweep wakes a tenant when it is due. After a platform failure, a later sweep wakes it again.
func TestASweepWakesDueTenants(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	if n := fx.sweep(t); n != 1 {
		t.Fatalf("the first sweep wakes %d", n)
	}
	fx.fake.Send(guid, fx.boxes[0].Address, 6)
	fx.advance(time.Minute)
	if n := fx.sweep(t); n != 0 {
		t.Fatalf("a minute later %d are woken", n)
	}
	fx.advance(sendlimit.MaxInterval)
	fx.fake.Fail(fake.Fault{Method: "Sent", Kind: outcome.Throttled, Times: 1})
	if n := fx.sweep(t); n != 1 || len(fx.storedBlocked(t)) != 0 {
		t.Fatalf("%d are woken, the blocked mailboxes are %q", n, fx.storedBlocked(t))
	}
	fx.advance(sendlimit.MinInterval)
	if n := fx.sweep(t); n != 1 || len(fx.storedBlocked(t)) != 1 {
		t.Fatalf("%d are woken, the blocked mailboxes are %q", n, fx.storedBlocked(t))
	}
}

// RunAll makes a pass over every tenant, due or not, and returns the errors.
func TestRunAllPassesOverEveryTenant(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	for range 2 {
		must(t, fx.RunAll(t.Context()))
	}
	fx.fake.Send(guid, fx.boxes[0].Address, 6)
	fx.advance(time.Second)
	must(t, fx.RunAll(t.Context()))
	fx.checkConsistent(t)
	if len(fx.storedBlocked(t)) != 1 || fx.sweep(t) != 0 {
		t.Fatalf("the blocked mailboxes are %q", fx.storedBlocked(t))
	}
	fx.fake.Revoke(guid, "consent")
	if err := fx.RunAll(t.Context()); !errors.Is(err, fault.AccessDenied) {
		t.Fatal(err)
	}
	must(t, fx.RunAll(t.Context())) // a tenant without consent is excluded
}

// With OnlyLimited a sweep excludes tenants without a limit.
func TestOnlyLimitedExcludesTenantsWithoutALimit(t *testing.T) {
	fx := newFixture(t)
	fx.OnlyLimited = true
	if n := fx.sweep(t); n != 0 {
		t.Fatalf("%d are woken without a limit", n)
	}
	fx.limit(t, one, 5)
	if n := fx.sweep(t); n != 1 {
		t.Fatalf("%d are woken with a limit", n)
	}
}

// A cancelled pass releases its tenant, which is due at once.
func TestACancelledPassReleasesItsTenant(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	ended := 0
	fx.OnPassEnd = func(_ context.Context, err error) {
		if err != nil {
			ended++
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	fx.Runs = stoppingRuns{fx.Runs, stop}
	if err := fx.Run(ctx, fx.owner, guid); err == nil || ended != 1 {
		t.Fatalf("%v, %d returned an unexpected error", err, ended)
	}
	fx.Runs = fx.store
	if n := fx.sweep(t); n != 1 {
		t.Fatalf("%d are woken after the stop", n)
	}
}

// stoppingRuns cancels the context of the process during a claim.
type stoppingRuns struct {
	ports.SendRuns

	stop func()
}

func (s stoppingRuns) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (ports.SendRun, bool, error) {
	defer s.stop()
	return s.SendRuns.ClaimTenant(ctx, owner, id, lease, now)
}

// endlessDueRuns lists any number of due tenants, none of which can be claimed.
type endlessDueRuns struct {
	ports.SendRuns

	due          int
	inside, gone chan struct{}
}

func (c endlessDueRuns) DueTenants(_ context.Context, _ time.Time, most int) ([]ports.DueTenant, error) {
	return make([]ports.DueTenant, min(c.due, most)), nil
}

func (c endlessDueRuns) ClaimTenant(context.Context, access.AccountID, tenant.GUID, time.Duration, time.Time) (r ports.SendRun, won bool, err error) {
	c.inside <- struct{}{}
	<-c.gone
	return r, false, nil
}

// A sweep that could not wake every due tenant runs again at once.
func TestSweepRepeatsWhileMoreAreDue(t *testing.T) {
	for due, again := range map[int]bool{1: false, 1 << 20: true} {
		queue := &fake.Wakeups{}
		r := &enforcement.Runner{Runs: endlessDueRuns{due: due}, Now: time.Now}
		sweep := r.Periodic(time.Hour, queue)[0]
		must(t, sweep.Do(t.Context()))
		woken := queue.All()
		last := woken[len(woken)-1]
		if on := last.Kind == sweep.Kind; on != again || on && time.Until(last.At) > time.Minute {
			t.Errorf("of %d due tenants %d are woken, then %+v", due, len(woken), last)
		}
	}
}

// Passes wait for a slot. A tenant whose pass gets no slot stays due.
func TestPassesWaitForASlot(t *testing.T) {
	c := endlessDueRuns{inside: make(chan struct{}), gone: make(chan struct{})}
	r := &enforcement.Runner{Runs: c, Now: time.Now}
	for kind, handle := range r.Handlers() {
		ended := make(chan error)
		for range enforcement.ParallelPasses {
			go func() { ended <- handle(t.Context(), ports.Wakeup{Kind: kind, ID: string(guid)}) }()
			<-c.inside
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := handle(stopped, ports.Wakeup{Kind: kind, ID: string(guid)}); !errors.Is(err, context.Canceled) {
			t.Errorf("a pass while %d others run: %v", enforcement.ParallelPasses, err)
		}
		close(c.gone)
		for range enforcement.ParallelPasses {
			must(t, <-ended)
		}
	}
}

// Only a limited number of passes call the platform at the same time. The next call starts when one
// of these calls has ended.
func TestConcurrentPlatformCallsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busyPlatform{answers: make(chan struct{})}
		r := &enforcement.Runner{Runs: b, Policies: b, Platform: b, Now: time.Now}
		var passes sync.WaitGroup
		for range enforcement.ParallelPasses {
			passes.Go(func() {
				if err := r.Run(t.Context(), "", guid); outcome.KindOf(err) != outcome.Down {
					t.Errorf("a pass: %v", err)
				}
			})
		}
		for ended := range enforcement.ParallelPasses {
			synctest.Wait()
			if want := min(enforcement.ParallelCalls, enforcement.ParallelPasses-ended); int(b.asked.Load())-ended != want {
				t.Fatalf("after %d answers %d calls are in progress, want %d", ended, int(b.asked.Load())-ended, want)
			}
			b.answers <- struct{}{}
		}
		passes.Wait()
	})
}

// busyPlatform is both a platform whose calls can fail, and a store whose tenants can all be
// claimed.
type busyPlatform struct {
	ports.SendRuns
	ports.SendPolicies
	ports.MailPlatform
	ports.MailTenant

	asked   atomic.Int64
	answers chan struct{}
}

func (b *busyPlatform) ClaimTenant(context.Context, access.AccountID, tenant.GUID, time.Duration, time.Time) (ports.SendRun, bool, error) {
	return ports.SendRun{TimeZone: sendlimit.DefaultTimeZone}, true, nil
}

func (b *busyPlatform) HoldTenant(context.Context, ports.SendRun, time.Duration) (bool, error) {
	return true, nil
}

func (b *busyPlatform) ReleaseTenant(context.Context, ports.SendRun, time.Time) (bool, error) {
	return true, nil
}

func (b *busyPlatform) For(tenant.GUID) ports.MailTenant { return b }

func (b *busyPlatform) Rules(context.Context) ([]sendlimit.Rule, error) {
	b.asked.Add(1)
	<-b.answers
	return nil, &outcome.Error{Kind: outcome.Down}
}

func (b *busyPlatform) ScopesWithRules(context.Context, access.AccountID, tenant.GUID) ([]string, error) {
	return nil, nil
}
