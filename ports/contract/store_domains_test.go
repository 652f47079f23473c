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

// Each of these types breaks one promise of ports.Domains or ports.DomainChecks.
type (
	lastWriter     struct{ domainsPort } // saves the whole row
	unlockedChange struct{ racing }      // reads and then saves without a lock
	lastLook       struct{ domainsPort } // keeps the DNS check that was saved last, not the newest
	changesEarly   struct{ domainsPort } // also changes domains that are not added yet
	freshFirst     struct{ domainChecksPort }
	readsAll       struct{ domainChecksPort } // also lists domains that were just checked
	endlessStale   struct{ domainChecksPort }
	ownersLost     struct{ domainChecksPort }
	readsNobody    struct { // omits domains that were never checked
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
	return now, b.SaveDomain(ctx, owner, now, nil)
}

func (b unlockedChange) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (domain.Domain, error) {
	d, err := b.DomainByID(ctx, owner, now.ID)
	if err != nil {
		return d, err
	}
	b.meet()
	return d.With(was, now), b.SaveDomain(ctx, owner, d.With(was, now), nil)
}

func (b lastLook) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (domain.Domain, error) {
	d, err := b.domainsPort.ChangeDomain(ctx, owner, was, now)
	if err == nil && d.CheckedAt.After(now.CheckedAt) && !now.CheckedAt.IsZero() {
		d.Status, d.CheckedAt = now.Status, now.CheckedAt
		err = b.SaveDomain(ctx, owner, d, nil)
	}
	return d, err
}

func (b changesEarly) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (domain.Domain, error) {
	if !was.Added && was.ID != "" {
		return now, b.SaveDomain(ctx, owner, now, nil)
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

func TestDomainSuitesDetectBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		checks       []storeCheck
		breakPromise func(Stores) Stores
	}{
		"the last writer overwrites the whole row":     {changedDomainChecks, func(s Stores) Stores { return withPort(s, lastWriter{s}) }},
		"a change is read and saved without a lock":    {oneCheck(changedDomainChecks, "of concurrent changes none is lost"), func(s Stores) Stores { return unlockedChange{race(s)} }},
		"an older DNS check is kept":                   {changedDomainChecks, func(s Stores) Stores { return withPort(s, lastLook{s}) }},
		"an unfinished domain is changed":              {changedDomainChecks, func(s Stores) Stores { return withPort(s, changesEarly{s}) }},
		"the domain that was checked last comes first": {staleDomainChecks, func(s Stores) Stores { return withPort(s, freshFirst{s}) }},
		"a domain that was just checked is listed":     {staleDomainChecks, func(s Stores) Stores { return withPort(s, readsAll{s}) }},
		"more are listed than the limit":               {staleDomainChecks, func(s Stores) Stores { return withPort(s, endlessStale{s}) }},
		"a domain comes without its account":           {staleDomainChecks, func(s Stores) Stores { return withPort(s, ownersLost{s}) }},
		"a domain that was never checked is left out":  {staleDomainChecks, func(s Stores) Stores { return withPort(s, readsNobody{s, s}) }},
		"a kind of drift is not counted":               {staleDomainChecks, func(s Stores) Stores { return withPort(s, oneDrift{s}) }},
		"the newest check counts":                      {staleDomainChecks, func(s Stores) Stores { return withPort(s, youngestRead{s, s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, b.checks, b.breakPromise) })
	}
}
