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

// crashPlan crashes a process at one of its steps, before or after the effect of the step. Later
// calls of the process reach neither the store nor the platform.
type crashPlan struct {
	left  int
	at    string // only steps with this name count; empty counts all steps
	after bool
	// pause, if set, runs at the step instead of the crash. It reports whether the lease was lost
	// meanwhile.
	pause func() (lost bool)

	dead    bool
	claimed ports.SendRun
	last    string // the latest step; in the end the step of the crash or pause
}

// step runs one step. A platform call that starts after its lease expired is not made.
func (l *crashPlan) step(name string, calls bool, do func() error) error {
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
		return l.pauseAt(calls, do)
	}
	l.dead = true
	if l.after {
		_ = do()
	}
	return errDead
}

func (l *crashPlan) pauseAt(calls bool, do func() error) error {
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

type crashingRuns struct {
	ports.SendRuns
	*crashPlan
}

func (m crashingRuns) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (ports.SendRun, bool, error) {
	r, won, err := m.SendRuns.ClaimTenant(ctx, owner, id, lease, now)
	m.claimed = r
	return r, won, err
}

func (m crashingRuns) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (held bool, err error) {
	err = m.step("SaveCounts", false, func() error { held, err = m.SendRuns.SaveCounts(ctx, r, c); return err })
	return held, err
}

func (m crashingRuns) SaveOrphanRules(ctx context.Context, r ports.SendRun, names []string) (held bool, err error) {
	err = m.step("SaveOrphanRules", false, func() error { held, err = m.SendRuns.SaveOrphanRules(ctx, r, names); return err })
	return held, err
}

func (m crashingRuns) SaveIntents(ctx context.Context, r ports.SendRun, all []sendlimit.Change) (held bool, err error) {
	err = m.step("SaveIntents", false, func() error { held, err = m.SendRuns.SaveIntents(ctx, r, all); return err })
	return held, err
}

func (m crashingRuns) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (held bool, err error) {
	err = m.step("SaveChanges", false, func() error { held, err = m.SendRuns.SaveChanges(ctx, r, c); return err })
	return held, err
}

func (m crashingRuns) ReleaseTenant(ctx context.Context, r ports.SendRun, due time.Time) (held bool, err error) {
	err = m.step("ReleaseTenant", false, func() error { held, err = m.SendRuns.ReleaseTenant(ctx, r, due); return err })
	return held, err
}

type crashingPlatform struct {
	ports.MailPlatform
	*crashPlan
}

type crashingTenant struct {
	ports.MailTenant
	*crashPlan
}

func (m crashingPlatform) For(id tenant.GUID) ports.MailTenant {
	return crashingTenant{m.MailPlatform.For(id), m.crashPlan}
}

func (m crashingTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (page sendlimit.Trace, err error) {
	err = m.step("Sent", true, func() error { page, err = m.MailTenant.Sent(ctx, q); return err })
	return page, err
}

func (m crashingTenant) Rules(ctx context.Context) (all []sendlimit.Rule, err error) {
	err = m.step("Rules", true, func() error { all, err = m.MailTenant.Rules(ctx); return err })
	return all, err
}

func (m crashingTenant) Block(ctx context.Context, scope string, all []string) (r sendlimit.Rule, err error) {
	err = m.step("Block", true, func() error { r, err = m.MailTenant.Block(ctx, scope, all); return err })
	return r, err
}

func (m crashingTenant) Mailboxes(ctx context.Context) (all []mailbox.Platform, err error) {
	err = m.step("Mailboxes", true, func() error { all, err = m.MailTenant.Mailboxes(ctx); return err })
	return all, err
}

// runWithPlan runs a pass with the plan.
func (fx *fixture) runWithPlan(t *testing.T, l *crashPlan) error {
	t.Helper()
	runs, platform := fx.Runs, fx.Platform
	defer func() { fx.Runs, fx.Platform = runs, platform }()
	fx.Runs, fx.Platform = crashingRuns{runs, l}, crashingPlatform{platform, l}
	return fx.Run(t.Context(), fx.owner, fx.id)
}

// runCrashing runs a pass that crashes at the step with this number, if the pass reaches that step.
// The lease then expires.
func (fx *fixture) runCrashing(t *testing.T, step int, after bool) *crashPlan {
	t.Helper()
	l := &crashPlan{left: step, after: after}
	fx.runCrashingAt(t, l)
	return l
}

func (fx *fixture) runCrashingAt(t *testing.T, l *crashPlan) {
	t.Helper()
	fx.advance(sendlimit.MaxInterval)
	_ = fx.runWithPlan(t, l)
	if l.dead {
		fx.expireLease(t, l.claimed)
	}
}

func (fx *fixture) expireLease(t *testing.T, r ports.SendRun) {
	t.Helper()
	_, err := fx.store.HoldTenant(t.Context(), r, -time.Second)
	must(t, err)
}

// truncatedTrace is a platform whose trace lacks the last hour.
type truncatedTrace struct {
	ports.MailPlatform

	now time.Time
}

func (b truncatedTrace) For(id tenant.GUID) ports.MailTenant {
	return truncatedTraceTenant{b.MailPlatform.For(id), b.now}
}

type truncatedTraceTenant struct {
	ports.MailTenant

	now time.Time
}

func (b truncatedTraceTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	page, err := b.MailTenant.Sent(ctx, q)
	page.Sent = slices.DeleteFunc(slices.Clone(page.Sent), func(s sendlimit.Sent) bool { return s.At.After(b.now.Add(-time.Hour)) })
	return page, err
}
