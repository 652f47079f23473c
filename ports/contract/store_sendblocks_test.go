// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Each of these types breaks one promise of ports.SendRuns about intents.
type (
	intentsAdded struct{ sendRunsPort }
	lateIntents  struct{ sendRunsPort }
	intentsStay  struct{ sendRunsPort }
	intentsGo    struct{ sendRunsPort }
	intentsDone  struct{ sendRunsPort }
	namelessOnes struct{ sendRunsPort }
	foreignOnes  struct {
		sendRunsPort
		all Stores
	}
	ghostIntents struct{ sendRunsPort }
)

func (b intentsAdded) SaveIntents(ctx context.Context, r ports.SendRun, all []sendlimit.Change) (bool, error) {
	before, _ := b.Intents(ctx, r)
	for _, c := range before {
		if !slices.ContainsFunc(all, func(one sendlimit.Change) bool { return one.Box == c.Box }) {
			all = append(slices.Clone(all), c)
		}
	}
	return b.sendRunsPort.SaveIntents(ctx, r, all)
}

func (b lateIntents) SaveIntents(ctx context.Context, r ports.SendRun, all []sendlimit.Change) (bool, error) {
	held, err := b.sendRunsPort.SaveIntents(ctx, r, all)
	if !held && err == nil {
		r.Epoch++
		_, err = b.sendRunsPort.SaveIntents(ctx, r, all)
	}
	return held, err
}

func (b intentsStay) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (bool, error) {
	before, _ := b.Intents(ctx, r)
	for _, one := range before {
		c.Open = append(slices.Clone(c.Open), one.Box)
	}
	return b.sendRunsPort.SaveChanges(ctx, r, c)
}

func (b intentsGo) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (bool, error) {
	c.Open = nil
	return b.sendRunsPort.SaveChanges(ctx, r, c)
}

func (b intentsDone) SaveIntents(ctx context.Context, r ports.SendRun, all []sendlimit.Change) (bool, error) {
	if _, err := b.sendRunsPort.SaveChanges(ctx, r, ports.SendChanges{Done: all}); err != nil {
		return false, err
	}
	return b.sendRunsPort.SaveIntents(ctx, r, all)
}

func (b namelessOnes) Intents(ctx context.Context, r ports.SendRun) ([]sendlimit.Change, error) {
	all, err := b.sendRunsPort.Intents(ctx, r)
	for i := range all {
		all[i].Event.Sent = 0
	}
	return all, err
}

func (b foreignOnes) Intents(ctx context.Context, r ports.SendRun) ([]sendlimit.Change, error) {
	return firstSuccess(ctx, b.all, func(owner access.AccountID) ([]sendlimit.Change, error) {
		r.Account = owner
		return b.sendRunsPort.Intents(ctx, r)
	})
}

// ghostIntents also returns intents of deleted mailboxes.
func (b ghostIntents) Intents(ctx context.Context, r ports.SendRun) ([]sendlimit.Change, error) {
	all, err := b.sendRunsPort.Intents(ctx, r)
	if boxes, _ := b.SendBoxes(ctx, r, dayStart); len(boxes) == 0 {
		all = append(all, sendlimit.Change{Box: unknownMailboxID})
	}
	return all, err
}

func TestSendIntentSuiteDetectsBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, breakPromise := range map[string]func(Stores) Stores{
		"intents accumulate":                       func(s Stores) Stores { return withPort(s, intentsAdded{s}) },
		"a run that lost its tenant saves intents": func(s Stores) Stores { return withPort(s, lateIntents{s}) },
		"intents are never deleted":                func(s Stores) Stores { return withPort(s, intentsStay{s}) },
		"open intents are deleted":                 func(s Stores) Stores { return withPort(s, intentsGo{s}) },
		"an intent counts as applied":              func(s Stores) Stores { return withPort(s, intentsDone{s}) },
		"an intent forgets its event":              func(s Stores) Stores { return withPort(s, namelessOnes{s}) },
		"foreign intents are listed":               func(s Stores) Stores { return withPort(s, foreignOnes{s, s}) },
		"an intent outlives its mailbox":           func(s Stores) Stores { return withPort(s, ghostIntents{s}) },
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, sendIntentChecks, breakPromise) })
	}
}

// Each of these types breaks one promise of ports.SendRuns about claims.
type (
	waitsForRuns struct{ sendRunsPort } // does not take over a tenant that a run has claimed
	lateByClaims struct{ sendRunsPort }
)

func (b waitsForRuns) SeizeTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (ports.SendRun, bool, error) {
	return b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, dueTime.Add(time.Hour))
}

// lateByClaims makes the first claim of a tenant change when the tenant is due.
func (b lateByClaims) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, at time.Time) (ports.SendRun, bool, error) {
	r, won, err := b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, at)
	if err != nil || !won {
		return r, won, err
	}
	if _, err := b.ReleaseTenant(ctx, r, at); err != nil {
		return r, won, err
	}
	return b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, at)
}

// Each of these types trusts a stored time that lies in the future because of clock skew.
type (
	waitsForIt   struct{ sendRunsPort }
	forgetsByIt  struct{ sendRunsPort }
	freshOfLater struct{ sendWatchPort }
)

func (b waitsForIt) DueTenants(ctx context.Context, at time.Time, most int) ([]ports.DueTenant, error) {
	all, err := b.sendRunsPort.DueTenants(ctx, at, most)
	return slices.DeleteFunc(all, func(d ports.DueTenant) bool { return d.At.After(at) }), err
}

func (b forgetsByIt) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	r.Mark = c.Mark
	return b.sendRunsPort.SaveCounts(ctx, r, c)
}

func (b freshOfLater) SendHealth(ctx context.Context, at, behind time.Time) (ports.SendHealth, error) {
	h, err := b.sendWatchPort.SendHealth(ctx, at, behind)
	if err != nil {
		return h, err
	}
	late, err := b.sendWatchPort.SendHealth(ctx, at.Add(1000*time.Hour), behind)
	h.Behind = late.Behind
	return h, err
}

func TestSendRunSuitesDetectTrustInFutureTimes(t *testing.T) {
	store := reusedStore(t)
	for name, broken := range map[string]struct {
		checks       []storeCheck
		breakPromise func(Stores) Stores
	}{
		"a due time in the far future is trusted": {sendRunChecks, func(s Stores) Stores { return withPort(s, waitsForIt{s}) }},
		"a mark in the future deletes counts":     {sendRunChecks, func(s Stores) Stores { return withPort(s, forgetsByIt{s}) }},
		"a count in the future is not lagging":    {sendWatchChecks, func(s Stores) Stores { return withPort(s, freshOfLater{s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, broken.checks, broken.breakPromise) })
	}
}

// Each of these types breaks one promise about when a tenant is due after its limits change.
type (
	waitsItsTime  struct{ Stores } // a changed limit does not make the tenant due
	alwaysHastens struct{ mailboxStorePort }
	releasesLater struct{ sendRunsPort }
)

// farFuture is a time that is later than every time in these checks.
var farFuture = now.Add(1000 * time.Hour)

func (b waitsItsTime) SetSendLimit(ctx context.Context, owner access.AccountID, id string, perDay int, _ time.Time) error {
	return b.Stores.SetSendLimit(ctx, owner, id, perDay, farFuture)
}

func (b waitsItsTime) SavePolicy(ctx context.Context, owner access.AccountID, p sendlimit.Policy, completion *ports.Completion) error {
	p.UpdatedAt = farFuture
	return b.Stores.SavePolicy(ctx, owner, p, completion)
}

func (b alwaysHastens) SetSendLimit(ctx context.Context, owner access.AccountID, id string, perDay int, at time.Time) error {
	if err := b.mailboxStorePort.SetSendLimit(ctx, owner, id, sendlimit.MaxLimit, at); err != nil {
		return err
	}
	return b.mailboxStorePort.SetSendLimit(ctx, owner, id, perDay, at)
}

func (b releasesLater) ReleaseTenant(ctx context.Context, r ports.SendRun, due time.Time) (bool, error) {
	r.Due = time.Time{}
	return b.sendRunsPort.ReleaseTenant(ctx, r, due)
}

func TestSendDueSuiteDetectsBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, breakPromise := range map[string]func(Stores) Stores{
		"a changed limit does not make the tenant due": func(s Stores) Stores { return waitsItsTime{s} },
		"an unchanged limit makes the tenant due":      func(s Stores) Stores { return withPort(s, alwaysHastens{s}) },
		"the end of a run ignores changed limits":      func(s Stores) Stores { return withPort(s, releasesLater{s}) },
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, sendDueChecks, breakPromise) })
	}
}
