// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var errDead = errors.New("the process is dead")

// life ends a process at one of its steps, before or after the step's effect.
// From then on nothing it does reaches the store or the platform.
type life struct {
	left  int
	at    string // what steps count, all unless set
	after bool
	// pause, if set, happens at the step instead of the end. It reports whether
	// the tenant was lost meanwhile.
	pause func() (lost bool)

	dead bool
	has  ports.SendRun
	last string // the step before this one, then the one it ended or paused at
}

// step does one step. A call of the platform that was not made when its lease
// ended never is.
func (l *life) step(name string, calls bool, do func() error) error {
	if l.dead {
		return errDead
	}
	if name == "SaveChanges" && l.last == "Rules" {
		name = "Settle"
	}
	counts := l.at == "" || l.at == name
	last := counts && l.left == 0
	if l.left >= 0 {
		l.last = name
	}
	if counts {
		l.left--
	}
	if !last {
		return do()
	}
	if l.pause != nil {
		return l.rests(calls, do)
	}
	l.dead = true
	if l.after {
		_ = do()
	}
	return errDead
}

func (l *life) rests(calls bool, do func() error) error {
	if l.after {
		err := do()
		l.pause()
		return err
	}
	if lost := l.pause(); lost && calls {
		return &outcome.Error{Kind: outcome.Unknown, Cause: "context"}
	}
	return do()
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
	err = m.step("SaveCounts", false, func() error { held, err = m.SendRuns.SaveCounts(ctx, r, c); return err })
	return held, err
}

func (m mortalRuns) SaveIntents(ctx context.Context, r ports.SendRun, all []sendlimit.Change) (held bool, err error) {
	err = m.step("SaveIntents", false, func() error { held, err = m.SendRuns.SaveIntents(ctx, r, all); return err })
	return held, err
}

func (m mortalRuns) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (held bool, err error) {
	err = m.step("SaveChanges", false, func() error { held, err = m.SendRuns.SaveChanges(ctx, r, c); return err })
	return held, err
}

func (m mortalRuns) ReleaseTenant(ctx context.Context, r ports.SendRun, due time.Time) (held bool, err error) {
	err = m.step("ReleaseTenant", false, func() error { held, err = m.SendRuns.ReleaseTenant(ctx, r, due); return err })
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

func (m mortalTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (page sendlimit.Trace, err error) {
	err = m.step("Sent", true, func() error { page, err = m.MailTenant.Sent(ctx, q); return err })
	return page, err
}

func (m mortalTenant) Rules(ctx context.Context) (all []sendlimit.Rule, err error) {
	err = m.step("Rules", true, func() error { all, err = m.MailTenant.Rules(ctx); return err })
	return all, err
}

func (m mortalTenant) Block(ctx context.Context, scope string, all []string) (r sendlimit.Rule, err error) {
	err = m.step("Block", true, func() error { r, err = m.MailTenant.Block(ctx, scope, all); return err })
	return r, err
}

func (m mortalTenant) Mailboxes(ctx context.Context) (all []mailbox.Platform, err error) {
	err = m.step("Mailboxes", true, func() error { all, err = m.MailTenant.Mailboxes(ctx); return err })
	return all, err
}

// lives is a run with that life.
func (h *house) lives(t *testing.T, l *life) error {
	t.Helper()
	runs, platform := h.Runs, h.Platform
	defer func() { h.Runs, h.Platform = runs, platform }()
	h.Runs, h.Platform = mortalRuns{runs, l}, mortalPlatform{platform, l}
	return h.Run(t.Context(), h.owner, h.id)
}

// dies is a run, when the tenant is due again, whose process ends at a step, if
// it has so many. Its lease ends some time later.
func (h *house) dies(t *testing.T, step int, after bool) *life {
	t.Helper()
	l := &life{left: step, after: after}
	h.diesAt(t, l)
	return l
}

func (h *house) diesAt(t *testing.T, l *life) {
	t.Helper()
	h.advance(sendlimit.Latest)
	_ = h.lives(t, l)
	if l.dead {
		h.leaseEnds(t, l.has)
	}
}

func (h *house) leaseEnds(t *testing.T, r ports.SendRun) {
	t.Helper()
	_, err := h.store.HoldTenant(t.Context(), r, -time.Second)
	must(t, err)
}

// blinking is a platform whose trace lacks the messages of its last hour.
type blinking struct {
	ports.MailPlatform

	now time.Time
}

func (b blinking) For(id tenant.GUID) ports.MailTenant {
	return blinkingTenant{b.MailPlatform.For(id), b.now}
}

type blinkingTenant struct {
	ports.MailTenant

	now time.Time
}

func (b blinkingTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	page, err := b.MailTenant.Sent(ctx, q)
	page.Sent = slices.DeleteFunc(slices.Clone(page.Sent), func(s sendlimit.Sent) bool { return s.At.After(b.now.Add(-time.Hour)) })
	return page, err
}
