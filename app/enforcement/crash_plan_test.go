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

var errCrashed = errors.New("the process is dead")

// crashPlan crashes the process of a pass at one of its steps, before or after the effect of the
// step. A step is a call that writes to the store, or a call of the platform. Steps after the crash
// have no effect.
type crashPlan struct {
	stepsLeft   int    // steps before the crash; negative if no step crashes
	stepName    string // only steps with this name count; empty counts all steps
	afterEffect bool
	// pause, if set, is called at the step, and the process does not crash. pause reports whether
	// the process lost its lease meanwhile.
	pause func() (lost bool)

	crashed  bool
	claimed  ports.TenantClaim // the claim of the pass
	lastStep string            // the latest step; after a crash or pause, the step of the crash or pause
}

// step executes do, unless the process has crashed. If this is the step of the plan, the process
// crashes or pauses before or after do. callsPlatform is true if do calls the platform. If
// SaveChanges follows a read of the rules, step calls it ReconcileIntents, because it then stores
// the outcomes of an earlier pass's intents.
func (p *crashPlan) step(name string, callsPlatform bool, do func() error) error {
	if p.crashed {
		return errCrashed
	}
	if name == "SaveChanges" && p.lastStep == "Rules" {
		name = "ReconcileIntents"
	}
	counts := p.stepName == "" || p.stepName == name
	isPlannedStep := counts && p.stepsLeft == 0
	if p.stepsLeft >= 0 {
		p.lastStep = name
	}
	if counts {
		p.stepsLeft--
	}
	if !isPlannedStep {
		return do()
	}
	if p.pause != nil {
		return p.pauseAt(callsPlatform, do)
	}
	p.crashed = true
	if p.afterEffect {
		_ = do()
	}
	return errCrashed
}

// pauseAt pauses before or after the effect of do. If the lease was lost during a pause before the
// effect, pauseAt does not make a call to the platform.
func (p *crashPlan) pauseAt(callsPlatform bool, do func() error) error {
	if p.afterEffect {
		err := do()
		p.pause()
		return err
	}
	if lost := p.pause(); lost && callsPlatform {
		return &outcome.Error{Kind: outcome.Unknown, Cause: "context"}
	}
	return do()
}

// crashingClaims is a store in which the writes of a pass are steps, see crashPlan.
type crashingClaims struct {
	ports.TenantClaims
	*crashPlan
}

func (c crashingClaims) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (ports.TenantClaim, bool, error) {
	claim, won, err := c.TenantClaims.ClaimTenant(ctx, owner, id, lease, now)
	c.claimed = claim
	return claim, won, err
}

func (c crashingClaims) SaveCounts(ctx context.Context, claim ports.TenantClaim, counts ports.SendCounts) (held bool, err error) {
	err = c.step("SaveCounts", false, func() error { held, err = c.TenantClaims.SaveCounts(ctx, claim, counts); return err })
	return held, err
}

func (c crashingClaims) SaveOrphanRules(ctx context.Context, claim ports.TenantClaim, names []string) (held bool, err error) {
	err = c.step("SaveOrphanRules", false, func() error { held, err = c.TenantClaims.SaveOrphanRules(ctx, claim, names); return err })
	return held, err
}

func (c crashingClaims) SaveIntents(ctx context.Context, claim ports.TenantClaim, changes []sendlimit.Change) (held bool, err error) {
	err = c.step("SaveIntents", false, func() error { held, err = c.TenantClaims.SaveIntents(ctx, claim, changes); return err })
	return held, err
}

func (c crashingClaims) SaveChanges(ctx context.Context, claim ports.TenantClaim, changes ports.SendChanges) (held bool, err error) {
	err = c.step("SaveChanges", false, func() error { held, err = c.TenantClaims.SaveChanges(ctx, claim, changes); return err })
	return held, err
}

func (c crashingClaims) ReleaseTenant(ctx context.Context, claim ports.TenantClaim, due time.Time) (held bool, err error) {
	err = c.step("ReleaseTenant", false, func() error { held, err = c.TenantClaims.ReleaseTenant(ctx, claim, due); return err })
	return held, err
}

// crashingPlatform is a platform whose calls are steps, see crashPlan.
type crashingPlatform struct {
	ports.MailPlatform
	*crashPlan
}

type crashingTenant struct {
	ports.MailTenant
	*crashPlan
}

func (c crashingPlatform) For(id tenant.GUID) ports.MailTenant {
	return crashingTenant{c.MailPlatform.For(id), c.crashPlan}
}

func (c crashingTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (page sendlimit.Trace, err error) {
	err = c.step("Sent", true, func() error { page, err = c.MailTenant.Sent(ctx, q); return err })
	return page, err
}

func (c crashingTenant) Rules(ctx context.Context) (rules []sendlimit.Rule, err error) {
	err = c.step("Rules", true, func() error { rules, err = c.MailTenant.Rules(ctx); return err })
	return rules, err
}

func (c crashingTenant) Block(ctx context.Context, scope string, mailboxes []string) (rule sendlimit.Rule, err error) {
	err = c.step("Block", true, func() error { rule, err = c.MailTenant.Block(ctx, scope, mailboxes); return err })
	return rule, err
}

func (c crashingTenant) Mailboxes(ctx context.Context) (mailboxes []mailbox.Platform, err error) {
	err = c.step("Mailboxes", true, func() error { mailboxes, err = c.MailTenant.Mailboxes(ctx); return err })
	return mailboxes, err
}

func (fx *fixture) runWithPlan(t *testing.T, plan *crashPlan) error {
	t.Helper()
	claims, platform := fx.Claims, fx.Platform
	defer func() { fx.Claims, fx.Platform = claims, platform }()
	fx.Claims, fx.Platform = crashingClaims{claims, plan}, crashingPlatform{platform, plan}
	return fx.Run(t.Context(), fx.owner, fx.id)
}

// runCrashing runs a pass that crashes at this step, counted from 0, if the pass has that many
// steps. After a crash, the lease expires.
func (fx *fixture) runCrashing(t *testing.T, step int, afterEffect bool) *crashPlan {
	t.Helper()
	plan := &crashPlan{stepsLeft: step, afterEffect: afterEffect}
	fx.runCrashingAt(t, plan)
	return plan
}

// runCrashingAt runs a pass that crashes as the plan says. After a crash, the lease expires.
func (fx *fixture) runCrashingAt(t *testing.T, plan *crashPlan) {
	t.Helper()
	fx.advance(sendlimit.MaxInterval)
	_ = fx.runWithPlan(t, plan)
	if plan.crashed {
		fx.expireLease(t, plan.claimed)
	}
}

func (fx *fixture) expireLease(t *testing.T, claim ports.TenantClaim) {
	t.Helper()
	_, err := fx.store.RenewTenantLease(t.Context(), claim, -time.Second)
	must(t, err)
}

// truncatedTrace is a platform whose trace lacks the last hour.
type truncatedTrace struct {
	ports.MailPlatform

	now time.Time
}

func (p truncatedTrace) For(id tenant.GUID) ports.MailTenant {
	return truncatedTraceTenant{p.MailPlatform.For(id), p.now}
}

type truncatedTraceTenant struct {
	ports.MailTenant

	now time.Time
}

func (p truncatedTraceTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	page, err := p.MailTenant.Sent(ctx, q)
	page.Sent = slices.DeleteFunc(slices.Clone(page.Sent), func(s sendlimit.Sent) bool { return s.At.After(p.now.Add(-time.Hour)) })
	return page, err
}
