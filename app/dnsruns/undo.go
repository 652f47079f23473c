// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"slices"
	"time"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// Undo restores the records that a run changed. Only operators use it.
type Undo struct {
	Writes ports.DNSUndo
	Zones  interface {
		OpenZone(ctx context.Context, owner access.AccountID, domainID string) (domainsteps.OpenedZone, error)
	}
	Now func() time.Time
}

// ZoneUndo is the zone of one domain and the plan of the undo in this zone.
type ZoneUndo struct {
	domainsteps.OpenedZone
	dns.Undo
}

// Plan returns what Run would do now. It changes nothing. It fails with provisioning_run_not_found
// or an error of OpenZone. The result is empty if the run wrote nothing or was undone before.
func (u *Undo) Plan(ctx context.Context, runID string) ([]ZoneUndo, error) {
	owner, writes, err := u.Writes.RunWrites(ctx, runID)
	if err != nil {
		return nil, err
	}
	return u.planZones(ctx, owner, writes)
}

// Run ends the run's active jobs for the domains that the run changed, restores the records, and
// returns the changes. It keeps a record that someone else has changed since the run. An
// interrupted undo can be repeated. Run fails with an error of Plan, BeginUndo or FinishUndo, or
// with the error of a provider.
func (u *Undo) Run(ctx context.Context, runID string) ([]ZoneUndo, error) {
	owner, writes, err := u.Writes.RunWrites(ctx, runID)
	if err != nil || len(writes) == 0 {
		return nil, err
	}
	if _, err := u.planZones(ctx, owner, writes); err != nil {
		return nil, err // a zone cannot be opened, so the run's jobs are not ended
	}
	if writes, err = u.Writes.BeginUndo(ctx, owner, runID, u.Now()); err != nil {
		return nil, err
	}
	zones, err := u.planZones(ctx, owner, writes)
	if err != nil {
		return nil, err
	}
	var counts ports.UndoCounts
	for _, z := range zones {
		if err := z.apply(ctx); err != nil {
			return nil, err
		}
		for _, i := range z.Items {
			switch i.Action {
			case dns.UndoRemove, dns.UndoRestore:
				counts.Restored++
			case dns.UndoLeave:
				counts.Kept++
			}
		}
	}
	return zones, u.Writes.FinishUndo(ctx, owner, runID, writes, counts)
}

func (z ZoneUndo) apply(ctx context.Context) error {
	if len(z.Changes) == 0 {
		return nil
	}
	return reconcile.Call(ctx, func(ctx context.Context) error {
		_, err := z.Provider.Apply(ctx, z.Zone, z.Changes)
		return err
	})
}

// planZones plans the undo of writes, domain by domain in the order of their first write. A write
// whose answer was lost is undone only if the zone shows that the write took effect.
func (u *Undo) planZones(ctx context.Context, owner access.AccountID, writes []dns.Write) ([]ZoneUndo, error) {
	var order []string
	byDomain := map[string][]dns.Write{}
	for _, w := range writes {
		if !slices.Contains(order, w.DomainID) {
			order = append(order, w.DomainID)
		}
		byDomain[w.DomainID] = append(byDomain[w.DomainID], w)
	}
	var zones []ZoneUndo
	for _, id := range order {
		opened, err := u.Zones.OpenZone(ctx, owner, id)
		if err != nil {
			return nil, err
		}
		made := dns.ResolveWrites(byDomain[id], opened.Records, u.Now()).Made
		zones = append(zones, ZoneUndo{opened, dns.NewUndo(opened.Records, made)})
	}
	return zones, nil
}
