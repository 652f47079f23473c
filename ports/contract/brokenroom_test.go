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

// Each of these breaks one promise of ports.SendRoom.
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

// readAtOnce has licences known that nobody has read.
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

func TestSendRoomSuiteNoticesBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, spoil := range map[string]func(Stores) Stores{
		"an older reading replaces a later one": func(s Stores) Stores { return with(s, lastReadWins{s}) },
		"licences of anybody's tenant":          func(s Stores) Stores { return with(s, savesForAnybody{s}) },
		"an unknown tenant sends nothing":       func(s Stores) Stores { return with(s, knowsNobody{s}) },
		"a trial counts as bought":              func(s Stores) Stores { return with(s, trialsArePaid{s}) },
		"never read is read":                    func(s Stores) Stores { return with(s, readAtOnce{s}) },
		"yesterday's count is today's":          func(s Stores) Stores { return with(s, keepsYesterday{s, s}) },
		"one mailbox of two":                    func(s Stores) Stores { return with(s, oneMailbox{s}) },
		"a count is always of now":              func(s Stores) Stores { return with(s, alwaysCounted{s}) },
		"each day is UTC's":                     func(s Stores) Stores { return with(s, daysOfUTC{s}) },
		"a save of the tenant loses them":       func(s Stores) Stores { return with(s, savedLosesRoom{s, s}) },
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, sendRoomChecks, spoil) })
	}
}
