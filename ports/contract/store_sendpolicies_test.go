// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

// Each of these types breaks one promise of ports.SendCapacity.
type (
	lastReadWins    struct{ sendRoomPort }
	savesForAnybody struct{ sendRoomPort }
	knowsNobody     struct{ sendRoomPort }
	trialsArePaid   struct{ sendRoomPort }
	readAtOnce      struct{ sendRoomPort }
	keepsYesterday  struct {
		sendRoomPort
		all Stores
	}
	oneMailbox     struct{ sendRoomPort }
	alwaysCounted  struct{ sendRoomPort }
	daysOfUTC      struct{ sendDaysPort }
	savedLosesRoom struct {
		tenantsPort
		all Stores
	}
)

func (b lastReadWins) SaveLicenses(ctx context.Context, owner access.AccountID, id tenant.GUID, l tenant.Licenses, at time.Time) error {
	if held, err := b.sendRoomPort.Sending(ctx, owner, id, at); err == nil && held.LicensesAt.After(at) {
		at = held.LicensesAt
	}
	return b.sendRoomPort.SaveLicenses(ctx, owner, id, l, at)
}

func (b savesForAnybody) SaveLicenses(ctx context.Context, owner access.AccountID, id tenant.GUID, l tenant.Licenses, at time.Time) error {
	if err := b.sendRoomPort.SaveLicenses(ctx, owner, id, l, at); !errors.Is(err, fault.TenantNotFound) {
		return err
	}
	return nil
}

func (b knowsNobody) Sending(ctx context.Context, owner access.AccountID, id tenant.GUID, at time.Time) (tenant.Sending, error) {
	out, err := b.sendRoomPort.Sending(ctx, owner, id, at)
	if errors.Is(err, fault.TenantNotFound) {
		err = nil
	}
	return out, err
}

func (b trialsArePaid) SaveLicenses(ctx context.Context, owner access.AccountID, id tenant.GUID, l tenant.Licenses, at time.Time) error {
	return b.sendRoomPort.SaveLicenses(ctx, owner, id, tenant.Licenses{Paid: l.Paid + l.Trial}, at)
}

// readAtOnce reports licences as read although nobody has read them.
func (b readAtOnce) Sending(ctx context.Context, owner access.AccountID, id tenant.GUID, at time.Time) (tenant.Sending, error) {
	out, err := b.sendRoomPort.Sending(ctx, owner, id, at)
	if err == nil && out.LicensesAt.IsZero() {
		out.LicensesAt = at
	}
	return out, err
}

func (b keepsYesterday) Sending(ctx context.Context, owner access.AccountID, id tenant.GUID, at time.Time) (tenant.Sending, error) {
	out, err := b.sendRoomPort.Sending(ctx, owner, id, at)
	list, _ := b.all.Mailboxes(ctx, owner, id)
	out.Today = 0
	for _, m := range list {
		out.Today += m.SendsToday
	}
	return out, err
}

func (b oneMailbox) Sending(ctx context.Context, owner access.AccountID, id tenant.GUID, at time.Time) (tenant.Sending, error) {
	out, err := b.sendRoomPort.Sending(ctx, owner, id, at)
	out.Today /= 2
	return out, err
}

func (b alwaysCounted) Sending(ctx context.Context, owner access.AccountID, id tenant.GUID, at time.Time) (tenant.Sending, error) {
	out, err := b.sendRoomPort.Sending(ctx, owner, id, at)
	out.TodayAt = at
	return out, err
}

func (b daysOfUTC) SetDay(ctx context.Context, id tenant.GUID, _ string) (access.AccountID, error) {
	return b.sendDaysPort.SetDay(ctx, id, "UTC")
}

func (b savedLosesRoom) SaveTenant(ctx context.Context, owner access.AccountID, t tenant.Tenant) error {
	if held, err := b.all.Sending(ctx, owner, t.GUID, now); err == nil && !held.LicensesAt.IsZero() {
		if err := b.all.SaveLicenses(ctx, owner, t.GUID, tenant.Licenses{}, held.LicensesAt); err != nil {
			return err
		}
	}
	return b.tenantsPort.SaveTenant(ctx, owner, t)
}

func TestSendRoomSuiteDetectsBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, breakPromise := range map[string]func(Stores) Stores{
		"an older reading replaces a later one":       func(s Stores) Stores { return withPort(s, lastReadWins{s}) },
		"licences of a foreign tenant are stored":     func(s Stores) Stores { return withPort(s, savesForAnybody{s}) },
		"an unknown tenant has no messages":           func(s Stores) Stores { return withPort(s, knowsNobody{s}) },
		"a trial licence counts as paid":              func(s Stores) Stores { return withPort(s, trialsArePaid{s}) },
		"licences that were never read count as read": func(s Stores) Stores { return withPort(s, readAtOnce{s}) },
		"yesterday's count is shown as today's":       func(s Stores) Stores { return withPort(s, keepsYesterday{s, s}) },
		"one of two mailboxes is counted":             func(s Stores) Stores { return withPort(s, oneMailbox{s}) },
		"a count always has the current time":         func(s Stores) Stores { return withPort(s, alwaysCounted{s}) },
		"every day is in UTC":                         func(s Stores) Stores { return withPort(s, daysOfUTC{s}) },
		"a save of the tenant loses the licences":     func(s Stores) Stores { return withPort(s, savedLosesRoom{s, s}) },
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, sendRoomChecks, breakPromise) })
	}
}
