// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// Each of these breaks one promise about intents.
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
	return everyone(ctx, b.all, func(owner access.AccountID) ([]sendlimit.Change, error) {
		r.Account = owner
		return b.sendRunsPort.Intents(ctx, r)
	})
}

// ghostIntents keeps those of mailboxes that are gone.
func (b ghostIntents) Intents(ctx context.Context, r ports.SendRun) ([]sendlimit.Change, error) {
	all, err := b.sendRunsPort.Intents(ctx, r)
	if boxes, _ := b.SendBoxes(ctx, r, midnight); len(boxes) == 0 {
		all = append(all, sendlimit.Change{Box: unknownMailbox})
	}
	return all, err
}

func TestBrokenIntentsAreNoticed(t *testing.T) {
	store := reusedStore(t)
	for name, spoil := range map[string]func(Stores) Stores{
		"intents add up":                 func(s Stores) Stores { return with(s, intentsAdded{s}) },
		"a late run intends":             func(s Stores) Stores { return with(s, lateIntents{s}) },
		"intents stay for ever":          func(s Stores) Stores { return with(s, intentsStay{s}) },
		"what is open goes":              func(s Stores) Stores { return with(s, intentsGo{s}) },
		"what is intended is so":         func(s Stores) Stores { return with(s, intentsDone{s}) },
		"an intent forgets its event":    func(s Stores) Stores { return with(s, namelessOnes{s}) },
		"foreign intents are listed":     func(s Stores) Stores { return with(s, foreignOnes{s, s}) },
		"an intent outlives its mailbox": func(s Stores) Stores { return with(s, ghostIntents{s}) },
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, sendIntentChecks, spoil) })
	}
}
