// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"errors"
	"fmt"
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

// sweep runs one sweep and the passes that it wakes. It returns the number of these passes.
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

// TestASweepWakesDueTenants checks that a sweep wakes a tenant when it is due. After a failure of
// the platform, a later sweep wakes the tenant again.
func TestASweepWakesDueTenants(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	if n := fx.sweep(t); n != 1 {
		t.Fatalf("the first sweep wakes %d tenants, want 1", n)
	}
	fx.fake.Send(guid, fx.mailboxes[0].Address, 6)
	fx.advance(time.Minute)
	if n := fx.sweep(t); n != 0 {
		t.Fatalf("a minute later %d tenants are woken, want 0", n)
	}
	fx.advance(sendlimit.MaxInterval)
	fx.fake.Fail(fake.Fault{Method: "Sent", Kind: outcome.Throttled, Times: 1})
	if n := fx.sweep(t); n != 1 || len(fx.storedBlocked(t)) != 0 {
		t.Fatalf("while the trace fails: %d tenants are woken and the blocked mailboxes are %q, want 1 tenant and no mailbox", n, fx.storedBlocked(t))
	}
	fx.advance(sendlimit.MinInterval)
	if n := fx.sweep(t); n != 1 || len(fx.storedBlocked(t)) != 1 {
		t.Fatalf("after the failure: %d tenants are woken and the blocked mailboxes are %q, want 1 tenant and 1 mailbox", n, fx.storedBlocked(t))
	}
}

// TestAFailedPassIsRepeatedAtTheEndOfTheDay checks that a failed pass shortly before the end of the
// day does not keep mailboxes blocked on the next day.
func TestAFailedPassIsRepeatedAtTheEndOfTheDay(t *testing.T) {
	fx := newFixture(t)
	fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 5}, 6)
	endOfDay := fx.now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	fx.advance(endOfDay.Sub(fx.now) - time.Minute)
	fx.fake.Fail(fake.Fault{Method: "Sent", Kind: outcome.Throttled, Times: 1})
	if n := fx.sweep(t); n != 1 || len(fx.storedBlocked(t)) != 1 {
		t.Fatalf("a minute before the end of the day: %d tenants are woken and the blocked mailboxes are %q, want 1 tenant and 1 mailbox", n, fx.storedBlocked(t))
	}
	fx.advance(time.Minute)
	if n := fx.sweep(t); n != 1 || len(fx.storedBlocked(t)) != 0 {
		t.Fatalf("on the next day: %d tenants are woken and the blocked mailboxes are %q, want 1 tenant and no mailbox", n, fx.storedBlocked(t))
	}
}

func (fx *fixture) runAll(ctx context.Context) error { return errors.Join(fx.RunAll(ctx)) }

// TestRunAllPassesOverEveryTenant checks that RunAll makes a pass over a tenant with consent, due
// or not, and returns the error of the pass.
func TestRunAllPassesOverEveryTenant(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	for range 2 {
		must(t, fx.runAll(t.Context()))
	}
	fx.fake.Send(guid, fx.mailboxes[0].Address, 6)
	fx.advance(time.Second)
	must(t, fx.runAll(t.Context()))
	fx.checkConsistent(t)
	if woken := fx.sweep(t); len(fx.storedBlocked(t)) != 1 || woken != 0 {
		t.Fatalf("the blocked mailboxes are %q, and the next sweep wakes %d tenants; want 1 mailbox and no tenant", fx.storedBlocked(t), woken)
	}
	fx.fake.Revoke(guid, "consent")
	if err := fx.runAll(t.Context()); !errors.Is(err, fault.AccessDenied) {
		t.Fatalf("without consent: got the error %v, want access_denied", err)
	}
	must(t, fx.runAll(t.Context())) // now excludes the tenant
}

// TestRunAllReturnsTheErrorOfTheStore checks that RunAll returns an error of the store as its own,
// even if a call to the platform failed in the same pass.
func TestRunAllReturnsTheErrorOfTheStore(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Fail(fake.Fault{Method: "Sent", Kind: outcome.Down})
	if platformErr, err := fx.RunAll(t.Context()); outcome.KindOf(platformErr) != outcome.Down || err != nil {
		t.Fatalf("got the errors %v and %v, want a failure of the platform", platformErr, err)
	}
	fx.Claims = unreleasableClaims{fx.Claims}
	if _, err := fx.RunAll(t.Context()); !errors.Is(err, errRelease) {
		t.Errorf("got the error %v, want the error of the store", err)
	}
}

// TestRunAllRecognizesAPluginThatDoesNotStart checks that a failed call counts as a failure of the
// platform even if its error also wraps context.DeadlineExceeded.
func TestRunAllRecognizesAPluginThatDoesNotStart(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.replaceTrace(func(context.Context, ports.MailTenant, sendlimit.TraceQuery) (sendlimit.Trace, error) {
		return sendlimit.Trace{}, fmt.Errorf("%w: %w", &outcome.Error{Kind: outcome.Down}, context.DeadlineExceeded)
	})
	if platformErr, err := fx.RunAll(t.Context()); outcome.KindOf(platformErr) != outcome.Down || err != nil {
		t.Errorf("got the errors %v and %v, want a failure of the platform", platformErr, err)
	}
}

var errRelease = errors.New("the tenant cannot be released")

// unreleasableClaims is a store that cannot release a tenant.
type unreleasableClaims struct{ ports.TenantClaims }

func (unreleasableClaims) ReleaseTenant(context.Context, ports.TenantClaim, time.Time) (bool, error) {
	return false, errRelease
}

// TestRunAllWaitsForALeaseToExpire checks that RunAll makes a pass over a tenant that a different
// process has leased, once the lease has expired. RunAll stops waiting when its context ends.
func TestRunAllWaitsForALeaseToExpire(t *testing.T) {
	fx := newFixture(t)
	passes := 0
	fx.OnPassEnd = func(context.Context, error) { passes++ }
	if _, won, err := fx.store.ClaimTenant(t.Context(), fx.owner, guid, time.Second, fx.now); err != nil || !won {
		t.Fatalf("the claim of the different process: got %v and the error %v, want a claim", won, err)
	}
	if must(t, fx.runAll(t.Context())); passes != 1 {
		t.Fatalf("%d passes, want 1", passes)
	}
	if _, won, err := fx.store.SeizeTenant(t.Context(), fx.owner, guid, time.Hour); err != nil || !won {
		t.Fatalf("the second claim of the different process: got %v and the error %v, want a claim", won, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	fx.Claims = cancellingClaims{fx.Claims, cancel}
	if err := fx.runAll(ctx); !errors.Is(err, context.Canceled) || passes != 1 {
		t.Fatalf("got the error %v and %d passes, want the end of the context and 1 pass", err, passes)
	}
}

// TestRunAllDoesNotWaitForADeletedTenant checks that RunAll ends if a tenant that it waits for is
// deleted.
func TestRunAllDoesNotWaitForADeletedTenant(t *testing.T) {
	fx := newFixture(t)
	claims := &deletingClaims{TenantClaims: fx.store, delete: func() { must(t, fx.store.DeleteTenant(t.Context(), fx.owner, guid, nil)) }}
	fx.Claims = claims
	if must(t, fx.runAll(t.Context())); claims.attempts != 1 {
		t.Fatalf("RunAll tried %d times to claim the deleted tenant, want once", claims.attempts)
	}
}

// deletingClaims is a store whose tenant is leased. During each claim, delete deletes the tenant.
type deletingClaims struct {
	ports.TenantClaims

	delete   func()
	attempts int // number of calls of ClaimTenant
}

func (s *deletingClaims) ClaimTenant(context.Context, access.AccountID, tenant.GUID, time.Duration, time.Time) (claim ports.TenantClaim, won bool, err error) {
	s.attempts++
	s.delete()
	return claim, false, nil
}

// TestRunAllGivesUpOnALongLease checks that RunAll stops waiting for a leased tenant after 1 to 2
// minutes, and that it makes no second pass over a tenant whose pass has failed.
func TestRunAllGivesUpOnALongLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := &leasedTenants{}
		began := time.Now()
		platformErr, err := (&enforcement.Runner{Claims: claims, Now: time.Now}).RunAll(t.Context())
		if waited := time.Since(began); waited <= time.Minute || waited > 2*time.Minute {
			t.Errorf("RunAll waited %s, want between 1 and 2 minutes", waited)
		}
		if outcome.KindOf(platformErr) != outcome.Down || claims.failed.Load() != 1 {
			t.Errorf("%d passes failed with %v, want one failure of the platform", claims.failed.Load(), platformErr)
		}
		if want := "tenants that are still leased after 1m15s: 1"; err == nil || err.Error() != want {
			t.Errorf("got the error %v, want %s", err, want)
		}
	})
}

// TestPassesRunWhileRunAllWaits checks that other passes of the process do not wait until RunAll
// has claimed a leased tenant.
func TestPassesRunWhileRunAllWaits(t *testing.T) {
	claims := &leasedTenants{claimed: make(chan struct{}, 1)}
	runner := &enforcement.Runner{Claims: claims, Now: time.Now}
	ctx, cancel := context.WithCancel(t.Context())
	runAllEnded, passEnded := make(chan error, 1), make(chan error, 1)
	go func() { runAllEnded <- errors.Join(runner.RunAll(ctx)) }()
	<-claims.claimed
	go func() { passEnded <- runner.Run(ctx, "leased", guid) }()
	select {
	case err := <-passEnded:
		must(t, err)
	case <-runAllEnded: // RunAll has given up on the leased tenant
		t.Fatal("a pass waits for RunAll")
	}
	cancel()
	if err := <-runAllEnded; !errors.Is(err, context.Canceled) {
		t.Errorf("got the error %v, want the end of the context", err)
	}
}

// leasedTenants is a store with one tenant in two accounts. In the account "leased" the tenant
// stays leased. In the account "failing" each claim fails.
type leasedTenants struct {
	ports.TenantClaims

	claimed chan struct{} // receives a value when a tenant is claimed, unless it is full or nil
	failed  atomic.Int64  // number of claims that failed
}

func (s *leasedTenants) TenantsDueBy(context.Context, time.Time) ([]ports.DueTenant, error) {
	return []ports.DueTenant{{Account: "failing", Tenant: guid}, {Account: "leased", Tenant: guid}}, nil
}

func (s *leasedTenants) ClaimTenant(_ context.Context, owner access.AccountID, _ tenant.GUID, _ time.Duration, _ time.Time) (claim ports.TenantClaim, won bool, err error) {
	select {
	case s.claimed <- struct{}{}:
	default:
	}
	if owner == "failing" {
		s.failed.Add(1)
		err = &outcome.Error{Kind: outcome.Down}
	}
	return claim, false, err
}

func TestOnlyTenantsWithLimitsExcludesTenantsWithoutALimit(t *testing.T) {
	fx := newFixture(t)
	fx.OnlyTenantsWithLimits = true
	if n := fx.sweep(t); n != 0 {
		t.Fatalf("%d tenants are woken without a limit, want 0", n)
	}
	fx.limit(t, domainOne, 5)
	if n := fx.sweep(t); n != 1 {
		t.Fatalf("%d tenants are woken with a limit, want 1", n)
	}
}

// TestACancelledPassReleasesItsTenant checks that a cancelled pass releases its tenant. The tenant
// is due at once.
func TestACancelledPassReleasesItsTenant(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	failed := 0
	fx.OnPassEnd = func(_ context.Context, err error) {
		if err != nil {
			failed++
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	fx.Claims = cancellingClaims{fx.Claims, cancel}
	if err := fx.Run(ctx, fx.owner, guid); err == nil || failed != 1 {
		t.Fatalf("got %v, and %d passes ended with an error, want an error and 1 pass", err, failed)
	}
	fx.Claims = fx.store
	if n := fx.sweep(t); n != 1 {
		t.Fatalf("%d tenants are woken after the stop, want 1", n)
	}
}

// cancellingClaims cancels the context of the pass when the pass claims its tenant.
type cancellingClaims struct {
	ports.TenantClaims

	cancel func()
}

func (s cancellingClaims) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (ports.TenantClaim, bool, error) {
	defer s.cancel()
	return s.TenantClaims.ClaimTenant(ctx, owner, id, lease, now)
}

// manyDueTenants is a store with dueCount due tenants. ClaimTenant sends to arrived, waits for
// answer, and then reports that the tenant was not claimed.
type manyDueTenants struct {
	ports.TenantClaims

	dueCount        int
	arrived, answer chan struct{}
}

func (s manyDueTenants) DueTenants(_ context.Context, _ time.Time, limit int) ([]ports.DueTenant, error) {
	return make([]ports.DueTenant, min(s.dueCount, limit)), nil
}

func (s manyDueTenants) ClaimTenant(context.Context, access.AccountID, tenant.GUID, time.Duration, time.Time) (claim ports.TenantClaim, won bool, err error) {
	s.arrived <- struct{}{}
	<-s.answer
	return claim, false, nil
}

// TestSweepRepeatsWhileMoreAreDue checks that a sweep schedules the next sweep early if it could
// not wake all due tenants.
func TestSweepRepeatsWhileMoreAreDue(t *testing.T) {
	for dueCount, wantRepeat := range map[int]bool{1: false, 1 << 20: true} { // 1<<20 is more than one sweep wakes
		queue := &fake.Wakeups{}
		runner := &enforcement.Runner{Claims: manyDueTenants{dueCount: dueCount}, Now: time.Now}
		sweep := runner.Periodic(time.Hour, queue)[0]
		must(t, sweep.Do(t.Context()))
		woken := queue.All()
		lastWakeup := woken[len(woken)-1]
		if repeats := lastWakeup.Kind == sweep.Kind; repeats != wantRepeat || repeats && time.Until(lastWakeup.At) > time.Minute {
			t.Errorf("with %d due tenants the last of %d wake-ups is %+v, want the next sweep within a minute: %v", dueCount, len(woken), lastWakeup, wantRepeat)
		}
	}
}

// TestAPassDoesNotStartWithoutASlot starts as many passes as there are slots. A further pass whose
// context is cancelled gets no slot and returns an error.
func TestAPassDoesNotStartWithoutASlot(t *testing.T) {
	claims := manyDueTenants{arrived: make(chan struct{}), answer: make(chan struct{})}
	runner := &enforcement.Runner{Claims: claims, Now: time.Now}
	for kind, handle := range runner.Handlers() {
		ended := make(chan error)
		for range enforcement.ParallelPasses {
			go func() { ended <- handle(t.Context(), ports.Wakeup{Kind: kind, ID: string(guid)}) }()
			<-claims.arrived
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := handle(cancelled, ports.Wakeup{Kind: kind, ID: string(guid)}); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled pass while %d passes run: got %v, want the end of the context", enforcement.ParallelPasses, err)
		}
		close(claims.answer)
		for range enforcement.ParallelPasses {
			must(t, <-ended)
		}
	}
}

// TestConcurrentPlatformCallsAreLimited checks that at most ParallelCalls passes call the platform
// at the same time. The next call starts when one of these calls has ended.
func TestConcurrentPlatformCallsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := &busyPlatform{answers: make(chan struct{})}
		runner := &enforcement.Runner{Claims: busy, Policies: busy, Platform: busy, Now: time.Now}
		var passes sync.WaitGroup
		for range enforcement.ParallelPasses {
			passes.Go(func() {
				if err := runner.Run(t.Context(), "", guid); outcome.KindOf(err) != outcome.Down {
					t.Errorf("a pass failed with %v, want a platform that is down", err)
				}
			})
		}
		for ended := range enforcement.ParallelPasses {
			synctest.Wait()
			if want := min(enforcement.ParallelCalls, enforcement.ParallelPasses-ended); int(busy.calls.Load())-ended != want {
				t.Fatalf("after %d answers %d calls are in progress, want %d", ended, int(busy.calls.Load())-ended, want)
			}
			busy.answers <- struct{}{}
		}
		passes.Wait()
	})
}

// busyPlatform is both a store whose tenants can all be claimed, and a platform whose calls wait
// for the test and then fail.
type busyPlatform struct {
	ports.TenantClaims
	ports.SendPolicies
	ports.MailPlatform
	ports.MailTenant

	calls   atomic.Int64  // number of calls of Rules
	answers chan struct{} // the test sends one element for each call that may end
}

func (b *busyPlatform) ClaimTenant(context.Context, access.AccountID, tenant.GUID, time.Duration, time.Time) (ports.TenantClaim, bool, error) {
	return ports.TenantClaim{TimeZone: sendlimit.DefaultTimeZone}, true, nil
}

func (b *busyPlatform) RenewTenantLease(context.Context, ports.TenantClaim, time.Duration) (bool, error) {
	return true, nil
}

func (b *busyPlatform) ReleaseTenant(context.Context, ports.TenantClaim, time.Time) (bool, error) {
	return true, nil
}

func (b *busyPlatform) For(tenant.GUID) ports.MailTenant { return b }

func (b *busyPlatform) Rules(context.Context) ([]sendlimit.Rule, error) {
	b.calls.Add(1)
	<-b.answers
	return nil, &outcome.Error{Kind: outcome.Down}
}

func (b *busyPlatform) ScopesWithRules(context.Context, access.AccountID, tenant.GUID) ([]string, error) {
	return nil, nil
}
