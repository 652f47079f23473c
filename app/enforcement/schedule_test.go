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

// bell keeps what it was asked to wake.
type bell struct{ rung []ports.Wakeup }

func (b *bell) Wake(_ context.Context, all ...ports.Wakeup) error {
	b.rung = append(b.rung, all...)
	return nil
}

// sweeps is one sweep, with the work that it wakes.
func (h *house) sweeps(t *testing.T) (woken int) {
	t.Helper()
	b := &bell{}
	for _, p := range h.Periodic(time.Minute, b) {
		must(t, p.Do(t.Context()))
	}
	for _, w := range b.rung {
		must(t, h.Handlers()[w.Kind](t.Context(), w))
	}
	return len(b.rung)
}

// A sweep wakes a tenant when it is due, and trouble at the platform is left to
// the next one.
func TestSweep(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	if n := h.sweeps(t); n != 1 {
		t.Fatalf("the first sweep wakes %d", n)
	}
	h.fake.Send(guid, h.boxes[0].Address, 6)
	h.advance(time.Minute)
	if n := h.sweeps(t); n != 0 {
		t.Fatalf("a minute later %d are woken", n)
	}
	h.advance(sendlimit.Latest)
	h.fake.Fail(fake.Fault{Method: "Sent", Kind: outcome.Throttled, Times: 1})
	if n := h.sweeps(t); n != 1 || len(h.blocked(t)) != 0 {
		t.Fatalf("%d are woken, blocked are %q", n, h.blocked(t))
	}
	h.advance(sendlimit.Soonest)
	if n := h.sweeps(t); n != 1 || len(h.blocked(t)) != 1 {
		t.Fatalf("%d are woken, blocked are %q", n, h.blocked(t))
	}
}

// The sandbox looks at all at once, due or not; what fails is told.
func TestRunAll(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	for range 2 {
		must(t, h.RunAll(t.Context()))
	}
	h.fake.Send(guid, h.boxes[0].Address, 6)
	h.advance(time.Second)
	must(t, h.RunAll(t.Context()))
	h.agrees(t)
	if len(h.blocked(t)) != 1 || h.sweeps(t) != 0 {
		t.Fatalf("blocked are %q", h.blocked(t))
	}
	h.fake.Revoke(guid, "consent")
	if err := h.RunAll(t.Context()); !errors.Is(err, fault.AccessDenied) {
		t.Fatal(err)
	}
	must(t, h.RunAll(t.Context())) // a tenant without consent is left out
}

// In the sandbox a sweep counts nobody without a limit.
func TestOnlyLimited(t *testing.T) {
	h := newHouse(t)
	h.OnlyLimited = true
	if n := h.sweeps(t); n != 0 {
		t.Fatalf("%d are woken without a limit", n)
	}
	h.limit(t, one, 5)
	if n := h.sweeps(t); n != 1 {
		t.Fatalf("%d are woken with one", n)
	}
}

// A look that is stopped hands its tenant back, which is due at once.
func TestAStoppedLook(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	ended := 0
	h.Ended = func(_ context.Context, err error) {
		if err != nil {
			ended++
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	h.Runs = stopping{h.Runs, stop}
	if err := h.Run(ctx, h.owner, guid); err == nil || ended != 1 {
		t.Fatalf("%v, %d ended badly", err, ended)
	}
	h.Runs = h.store
	if n := h.sweeps(t); n != 1 {
		t.Fatalf("%d are woken after the stop", n)
	}
}

// stopping are runs during which the process is told to stop.
type stopping struct {
	ports.SendRuns

	stop func()
}

func (s stopping) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (ports.SendRun, bool, error) {
	defer s.stop()
	return s.SendRuns.ClaimTenant(ctx, owner, id, lease, now)
}

// crowd is a list of due tenants without end, of which none can be taken.
type crowd struct {
	ports.SendRuns

	due          int
	inside, gone chan struct{}
}

func (c crowd) DueTenants(_ context.Context, _ time.Time, most int) ([]ports.DueTenant, error) {
	return make([]ports.DueTenant, min(c.due, most)), nil
}

func (c crowd) ClaimTenant(context.Context, access.AccountID, tenant.GUID, time.Duration, time.Time) (r ports.SendRun, won bool, err error) {
	c.inside <- struct{}{}
	<-c.gone
	return r, false, nil
}

// A sweep that cannot wake all who are due comes again at once, any other at its
// time.
func TestASweepGoesOn(t *testing.T) {
	for due, again := range map[int]bool{1: false, 1 << 20: true} {
		b := &bell{}
		r := &enforcement.Runner{Runs: crowd{due: due}, Now: time.Now}
		sweep := r.Periodic(time.Hour, b)[0]
		must(t, sweep.Do(t.Context()))
		last := b.rung[len(b.rung)-1]
		if on := last.Kind == sweep.Kind; on != again || on && time.Until(last.At) > time.Minute {
			t.Errorf("of %d due tenants %d are woken, then %+v", due, len(b.rung), last)
		}
	}
}

// Looks wait for their turn, and where it does not come the tenant stays due.
func TestLooksAtOnce(t *testing.T) {
	c := crowd{inside: make(chan struct{}), gone: make(chan struct{})}
	r := &enforcement.Runner{Runs: c, Now: time.Now}
	for kind, look := range r.Handlers() {
		ended := make(chan error)
		for range enforcement.AtOnce {
			go func() { ended <- look(t.Context(), ports.Wakeup{Kind: kind, ID: string(guid)}) }()
			<-c.inside
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := look(stopped, ports.Wakeup{Kind: kind, ID: string(guid)}); !errors.Is(err, context.Canceled) {
			t.Errorf("a look beside %d others: %v", enforcement.AtOnce, err)
		}
		close(c.gone)
		for range enforcement.AtOnce {
			must(t, <-ended)
		}
	}
}

// Of the looks that are under way only some ask the platform, and the next one
// does when a call has ended.
func TestCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{answers: make(chan struct{})}
		r := &enforcement.Runner{Runs: b, Platform: b, Now: time.Now}
		var looks sync.WaitGroup
		for range enforcement.AtOnce {
			looks.Go(func() {
				if err := r.Run(t.Context(), "", guid); outcome.Of(err) != outcome.Down {
					t.Errorf("a look: %v", err)
				}
			})
		}
		for ended := range enforcement.AtOnce {
			synctest.Wait()
			if want := min(enforcement.CallsAtOnce, enforcement.AtOnce-ended); int(b.asked.Load())-ended != want {
				t.Fatalf("after %d answers %d calls are under way, want %d", ended, int(b.asked.Load())-ended, want)
			}
			b.answers <- struct{}{}
		}
		looks.Wait()
	})
}

// busy is a platform that fails when it is told to, and runs of tenants of which
// each can be taken.
type busy struct {
	ports.SendRuns
	ports.MailPlatform
	ports.MailTenant

	asked   atomic.Int64
	answers chan struct{}
}

func (b *busy) ClaimTenant(context.Context, access.AccountID, tenant.GUID, time.Duration, time.Time) (ports.SendRun, bool, error) {
	return ports.SendRun{Place: sendlimit.UsualPlace}, true, nil
}

func (b *busy) HoldTenant(context.Context, ports.SendRun, time.Duration) (bool, error) {
	return true, nil
}

func (b *busy) ReleaseTenant(context.Context, ports.SendRun, time.Time) (bool, error) {
	return true, nil
}

func (b *busy) For(tenant.GUID) ports.MailTenant { return b }

func (b *busy) Rules(context.Context) ([]sendlimit.Rule, error) {
	b.asked.Add(1)
	<-b.answers
	return nil, &outcome.Error{Kind: outcome.Down}
}
