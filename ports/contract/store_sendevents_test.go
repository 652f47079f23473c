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

// Each of these types breaks one promise of ports.EnforcementEvents.
type (
	totalOfPage    struct{ enforcementEventsPort }
	oldestEvents   struct{ enforcementEventsPort }
	unfiltered     struct{ enforcementEventsPort }
	anybodysEvents struct {
		enforcementEventsPort
		all Stores
	}
	openTenants     struct{ enforcementEventsPort }
	eventsTwice     struct{ enforcementEventsPort }
	halfBatch       struct{ enforcementEventsPort }
	dropsTheMoment  struct{ enforcementEventsPort }
	dropsNothing    struct{ enforcementEventsPort }
	goneWithTenants struct {
		enforcementEventsPort
		all Stores
	}
)

func (b totalOfPage) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.enforcementEventsPort.Events(ctx, owner, q)
	page.Total = len(page.Events)
	return page, err
}

func (b oldestEvents) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.enforcementEventsPort.Events(ctx, owner, q)
	slices.Reverse(page.Events)
	return page, err
}

func (b unfiltered) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	q.Action = ""
	return b.enforcementEventsPort.Events(ctx, owner, q)
}

func (b anybodysEvents) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	all, _ := b.all.Accounts(ctx)
	for _, a := range all {
		if page, err := b.enforcementEventsPort.Events(ctx, a.ID, q); err == nil && page.Total > 0 {
			return page, nil
		}
	}
	return b.enforcementEventsPort.Events(ctx, owner, q)
}

func (b openTenants) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.enforcementEventsPort.Events(ctx, owner, q)
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
	return b.enforcementEventsPort.RecordEvents(ctx, owner, again)
}

func (b halfBatch) RecordEvents(ctx context.Context, owner access.AccountID, events []sendlimit.Event) error {
	return b.enforcementEventsPort.RecordEvents(ctx, owner, events[:(len(events)+1)/2])
}

func (b dropsTheMoment) DropEvents(ctx context.Context, before time.Time) (int, error) {
	return b.enforcementEventsPort.DropEvents(ctx, before.Add(24*time.Hour))
}

func (dropsNothing) DropEvents(context.Context, time.Time) (int, error) { return 0, nil }

func (b goneWithTenants) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	if held, _ := b.all.TenantCount(ctx, owner); held == 0 {
		return ports.EventPage{}, nil
	}
	return b.enforcementEventsPort.Events(ctx, owner, q)
}

func TestEnforcementEventSuiteDetectsBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, breakPromise := range map[string]func(Stores) Stores{
		"the total is the page's":                 func(s Stores) Stores { return withPort(s, totalOfPage{s}) },
		"the oldest come first":                   func(s Stores) Stores { return withPort(s, oldestEvents{s}) },
		"a filter is forgotten":                   func(s Stores) Stores { return withPort(s, unfiltered{s}) },
		"foreign events are listed":               func(s Stores) Stores { return withPort(s, anybodysEvents{s, s}) },
		"a foreign tenant has no events":          func(s Stores) Stores { return withPort(s, openTenants{s}) },
		"an event is stored twice":                func(s Stores) Stores { return withPort(s, eventsTwice{s}) },
		"a part of a batch is lost":               func(s Stores) Stores { return withPort(s, halfBatch{s}) },
		"the current day is dropped":              func(s Stores) Stores { return withPort(s, dropsTheMoment{s}) },
		"nothing is ever dropped":                 func(s Stores) Stores { return withPort(s, dropsNothing{s}) },
		"events are deleted with the last tenant": func(s Stores) Stores { return withPort(s, goneWithTenants{s, s}) },
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, enforcementEventChecks, breakPromise) })
	}
}
