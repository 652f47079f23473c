// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// Each of these breaks what changed limits promise of when a tenant is due.
type (
	waitsItsTime  struct{ Stores } // a changed limit waits for the usual time
	alwaysHastens struct{ mailboxStorePort }
	releasesLater struct{ sendRunsPort }
)

// elsewhere is a time at which no check of these says that a limit changed.
var elsewhere = now.Add(1000 * time.Hour)

func (b waitsItsTime) SetSendLimit(ctx context.Context, owner access.AccountID, id string, perDay int, _ time.Time) error {
	return b.Stores.SetSendLimit(ctx, owner, id, perDay, elsewhere)
}

func (b waitsItsTime) SavePolicy(ctx context.Context, owner access.AccountID, p sendlimit.Policy) error {
	p.UpdatedAt = elsewhere
	return b.Stores.SavePolicy(ctx, owner, p)
}

func (b alwaysHastens) SetSendLimit(ctx context.Context, owner access.AccountID, id string, perDay int, at time.Time) error {
	if err := b.mailboxStorePort.SetSendLimit(ctx, owner, id, sendlimit.Most, at); err != nil {
		return err
	}
	return b.mailboxStorePort.SetSendLimit(ctx, owner, id, perDay, at)
}

func (b releasesLater) ReleaseTenant(ctx context.Context, r ports.SendRun, due time.Time) (bool, error) {
	r.Due = time.Time{}
	return b.sendRunsPort.ReleaseTenant(ctx, r, due)
}

func TestSendDueSuiteNoticesBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, spoil := range map[string]func(Stores) Stores{
		"a changed limit waits":                 func(s Stores) Stores { return waitsItsTime{s} },
		"the same limit hastens":                func(s Stores) Stores { return with(s, alwaysHastens{s}) },
		"the end of a run forgets what changed": func(s Stores) Stores { return with(s, releasesLater{s}) },
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, sendDueChecks, spoil) })
	}
}
