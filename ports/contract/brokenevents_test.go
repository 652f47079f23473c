// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// Each of these breaks one promise of ports.EnforcementEvents.
type (
	totalOfPage     struct{ Stores }
	oldestEvents    struct{ Stores }
	unfiltered      struct{ Stores }
	anybodysEvents  struct{ Stores }
	openTenants     struct{ Stores }
	eventsTwice     struct{ Stores }
	halfBatch       struct{ Stores }
	dropsTheMoment  struct{ Stores }
	dropsNothing    struct{ Stores }
	goneWithTenants struct{ Stores }
)

func (b totalOfPage) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.Stores.Events(ctx, owner, q)
	page.Total = len(page.Events)
	return page, err
}

func (b oldestEvents) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.Stores.Events(ctx, owner, q)
	slices.Reverse(page.Events)
	return page, err
}

func (b unfiltered) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	q.Action = ""
	return b.Stores.Events(ctx, owner, q)
}

func (b anybodysEvents) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	all, _ := b.Accounts(ctx)
	for _, a := range all {
		if page, err := b.Stores.Events(ctx, a.ID, q); err == nil && page.Total > 0 {
			return page, nil
		}
	}
	return b.Stores.Events(ctx, owner, q)
}

func (b openTenants) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.Stores.Events(ctx, owner, q)
	if err != nil && fault.Of(err).Code == fault.TenantNotFound {
		return ports.EventPage{}, nil
	}
	return page, err
}

func (b eventsTwice) RecordEvents(ctx context.Context, owner access.AccountID, events []sendlimit.Event) error {
	again := slices.Clone(events)
	for i := range again {
		if again[i].Sent == 99 {
			again[i].ID = jobID(i)
		}
	}
	return b.Stores.RecordEvents(ctx, owner, again)
}

func (b halfBatch) RecordEvents(ctx context.Context, owner access.AccountID, events []sendlimit.Event) error {
	return b.Stores.RecordEvents(ctx, owner, events[:(len(events)+1)/2])
}

func (b dropsTheMoment) DropEvents(ctx context.Context, before time.Time) (int, error) {
	return b.Stores.DropEvents(ctx, before.Add(24*time.Hour))
}

func (dropsNothing) DropEvents(context.Context, time.Time) (int, error) { return 0, nil }

func (b goneWithTenants) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	if held, _ := b.TenantCount(ctx, owner); held == 0 {
		return ports.EventPage{}, nil
	}
	return b.Stores.Events(ctx, owner, q)
}

func TestBrokenEventsAreNoticed(t *testing.T) {
	store := reusedStore(t)
	for name, spoil := range map[string]func(Stores) Stores{
		"the total is the page's":        func(s Stores) Stores { return totalOfPage{s} },
		"the oldest come first":          func(s Stores) Stores { return oldestEvents{s} },
		"a filter is forgotten":          func(s Stores) Stores { return unfiltered{s} },
		"foreign events are listed":      func(s Stores) Stores { return anybodysEvents{s} },
		"a foreign tenant has no events": func(s Stores) Stores { return openTenants{s} },
		"an event is written again":      func(s Stores) Stores { return eventsTwice{s} },
		"a part of a batch is lost":      func(s Stores) Stores { return halfBatch{s} },
		"a day that is not over goes":    func(s Stores) Stores { return dropsTheMoment{s} },
		"nothing is ever dropped":        func(s Stores) Stores { return dropsNothing{s} },
		"events go with the last tenant": func(s Stores) Stores { return goneWithTenants{s} },
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, enforcementEventChecks, spoil) })
	}
}
