// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var errDead = errors.New("the process is dead")

// life ends a process at one of its steps, before or after the step's effect.
// From then on nothing it does reaches the store or the platform.
type life struct {
	left  int
	after bool
	dead  bool
	has   ports.SendRun
}

func (l *life) step(do func() error) error {
	last := l.left == 0
	l.left--
	if l.dead || last && !l.after {
		l.dead = true
		return errDead
	}
	err := do()
	if l.dead = last; last {
		return errDead
	}
	return err
}

type mortalRuns struct {
	ports.SendRuns
	*life
}

func (m mortalRuns) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (ports.SendRun, bool, error) {
	r, won, err := m.SendRuns.ClaimTenant(ctx, owner, id, lease, now)
	m.has = r
	return r, won, err
}

func (m mortalRuns) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (held bool, err error) {
	err = m.step(func() error { held, err = m.SendRuns.SaveCounts(ctx, r, c); return err })
	return held, err
}

func (m mortalRuns) SaveChanges(ctx context.Context, r ports.SendRun, changes []sendlimit.Change, emptied []string) (held bool, err error) {
	err = m.step(func() error { held, err = m.SendRuns.SaveChanges(ctx, r, changes, emptied); return err })
	return held, err
}

func (m mortalRuns) ReleaseTenant(ctx context.Context, r ports.SendRun, due time.Time) (held bool, err error) {
	err = m.step(func() error { held, err = m.SendRuns.ReleaseTenant(ctx, r, due); return err })
	return held, err
}

type mortalPlatform struct {
	ports.MailPlatform
	*life
}

type mortalTenant struct {
	ports.MailTenant
	*life
}

func (m mortalPlatform) For(id tenant.GUID) ports.MailTenant {
	return mortalTenant{m.MailPlatform.For(id), m.life}
}

func (m mortalTenant) Sent(ctx context.Context, from, to time.Time, cursor string) (page sendlimit.Trace, err error) {
	err = m.step(func() error { page, err = m.MailTenant.Sent(ctx, from, to, cursor); return err })
	return page, err
}

func (m mortalTenant) Block(ctx context.Context, scope string, all []string) (r sendlimit.Rule, err error) {
	err = m.step(func() error { r, err = m.MailTenant.Block(ctx, scope, all); return err })
	return r, err
}

// dies is a run whose process ends at a step, if it has so many. Its lease ends
// some time later.
func (h *house) dies(t *testing.T, step int, after bool) bool {
	t.Helper()
	l := &life{left: step, after: after}
	h.Runs, h.Platform = mortalRuns{h.store, l}, mortalPlatform{h.fake, l}
	_ = h.run(t)
	h.Runs, h.Platform = h.store, h.fake
	if l.dead {
		_, err := h.store.HoldTenant(t.Context(), l.has, -time.Second)
		must(t, err)
	}
	return l.dead
}

// TestARunThatEndsAnywhere: the next run makes good what one left undone that
// blocks a mailbox of one domain and lets one of the other go, with one event
// each and no rule written twice.
func TestARunThatEndsAnywhere(t *testing.T) {
	for _, after := range []bool{false, true} {
		for step, dead := 0, true; dead; step++ {
			h := newHouse(t)
			ada, bob := h.boxes[0].Address, h.boxes[2].Address
			h.limit(t, one, 5)
			h.limit(t, two, 5)
			h.fake.Send(guid, bob, 6)
			must(t, h.run(t))
			h.fake.Send(guid, ada, 6)
			h.limit(t, two, 6)
			dead = h.dies(t, step, after)
			must(t, h.run(t))
			h.agrees(t)
			if events := h.events(t); len(events[ada]) != 1 || len(events[bob]) != 2 || h.fake.Effects("Block") != 3 {
				t.Fatalf("step %d, after its effect %v: %d writes, events %+v", step, after, h.fake.Effects("Block"), events)
			}
			if step > 50 {
				t.Fatal("the run never ends")
			}
		}
	}
}
