// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/ports"
)

// Each of these breaks one promise of ports.Domains or ports.DomainChecks.
type (
	lastWriter     struct{ domainsPort } // saves the whole row
	unlockedChange struct{ racing }      // reads, then saves
	lastLook       struct{ domainsPort } // of two looks at the DNS the last to come stands
	changesEarly   struct{ domainsPort } // also what is not added
	freshFirst     struct{ domainChecksPort }
	readsAll       struct{ domainChecksPort } // lists what was read just now
	endlessStale   struct{ domainChecksPort }
	ownersLost     struct{ domainChecksPort }
	readsNobody    struct { // leaves out what was never read
		domainChecksPort
		all Stores
	}
	oneDrift     struct{ domainChecksPort }
	youngestRead struct {
		domainChecksPort
		all Stores
	}
)

func (b lastWriter) ChangeDomain(ctx context.Context, owner access.AccountID, _, now domain.Domain) (domain.Domain, error) {
	return now, b.SaveDomain(ctx, owner, now)
}

func (b unlockedChange) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (domain.Domain, error) {
	d, err := b.DomainByID(ctx, owner, now.ID)
	if err != nil {
		return d, err
	}
	b.meet()
	return d.With(was, now), b.SaveDomain(ctx, owner, d.With(was, now))
}

func (b lastLook) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (domain.Domain, error) {
	d, err := b.domainsPort.ChangeDomain(ctx, owner, was, now)
	if err == nil && d.CheckedAt.After(now.CheckedAt) && !now.CheckedAt.IsZero() {
		d.Status, d.CheckedAt = now.Status, now.CheckedAt
		err = b.SaveDomain(ctx, owner, d)
	}
	return d, err
}

func (b changesEarly) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (domain.Domain, error) {
	if !was.Added && was.ID != "" {
		return now, b.SaveDomain(ctx, owner, now)
	}
	return b.domainsPort.ChangeDomain(ctx, owner, was, now)
}

func (b freshFirst) StaleDomains(ctx context.Context, before time.Time, most int) ([]ports.StaleDomain, error) {
	all, err := b.domainChecksPort.StaleDomains(ctx, before, most)
	slices.Reverse(all)
	return all, err
}

func (b readsAll) StaleDomains(ctx context.Context, before time.Time, most int) ([]ports.StaleDomain, error) {
	return b.domainChecksPort.StaleDomains(ctx, before.Add(1000*time.Hour), most)
}

func (b endlessStale) StaleDomains(ctx context.Context, before time.Time, most int) ([]ports.StaleDomain, error) {
	return b.domainChecksPort.StaleDomains(ctx, before, 1000*most)
}

func (b ownersLost) StaleDomains(ctx context.Context, before time.Time, most int) ([]ports.StaleDomain, error) {
	all, err := b.domainChecksPort.StaleDomains(ctx, before, most)
	for i := range all {
		all[i].Account = ""
	}
	return all, err
}

func (b readsNobody) StaleDomains(ctx context.Context, before time.Time, most int) ([]ports.StaleDomain, error) {
	all, err := b.domainChecksPort.StaleDomains(ctx, before, most)
	return slices.DeleteFunc(all, func(s ports.StaleDomain) bool {
		d, err := b.all.DomainByID(ctx, s.Account, s.ID)
		return err == nil && d.CheckedAt.IsZero()
	}), err
}

func (b oneDrift) DomainHealth(ctx context.Context) (ports.DomainHealth, error) {
	h, err := b.domainChecksPort.DomainHealth(ctx)
	delete(h.Drifted, domain.MXMoved)
	return h, err
}

func (b youngestRead) DomainHealth(ctx context.Context) (ports.DomainHealth, error) {
	h, err := b.domainChecksPort.DomainHealth(ctx)
	if all, lost := b.domainChecksPort.StaleDomains(ctx, now.Add(1000*time.Hour), 1000); lost == nil && len(all) > 0 {
		d, _ := b.all.DomainByID(ctx, all[len(all)-1].Account, all[len(all)-1].ID)
		h.Oldest = d.CheckedAt
	}
	return h, err
}

func TestBrokenDomainChecksAreNoticed(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		checks []storeCheck
		spoil  func(Stores) Stores
	}{
		"the last writer has the whole row":   {changedDomainChecks, func(s Stores) Stores { return with(s, lastWriter{s}) }},
		"a change is read and saved apart":    {oneCheck(changedDomainChecks, "of a crowd of changes none is lost"), func(s Stores) Stores { return unlockedChange{race(s)} }},
		"an earlier look stands":              {changedDomainChecks, func(s Stores) Stores { return with(s, lastLook{s}) }},
		"an unfinished domain is changed":     {changedDomainChecks, func(s Stores) Stores { return with(s, changesEarly{s}) }},
		"what was read last comes first":      {staleDomainChecks, func(s Stores) Stores { return with(s, freshFirst{s}) }},
		"what was read just now is listed":    {staleDomainChecks, func(s Stores) Stores { return with(s, readsAll{s}) }},
		"more are listed than were asked for": {staleDomainChecks, func(s Stores) Stores { return with(s, endlessStale{s}) }},
		"a domain comes without its account":  {staleDomainChecks, func(s Stores) Stores { return with(s, ownersLost{s}) }},
		"what was never read is left out":     {staleDomainChecks, func(s Stores) Stores { return with(s, readsNobody{s, s}) }},
		"a kind of drift is not counted":      {staleDomainChecks, func(s Stores) Stores { return with(s, oneDrift{s}) }},
		"the youngest read counts":            {staleDomainChecks, func(s Stores) Stores { return with(s, youngestRead{s, s}) }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, b.checks, b.spoil) })
	}
}
