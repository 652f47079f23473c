// SPDX-License-Identifier: Apache-2.0

package domainsteps

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// planLimit bounds a survey's calls to the mail platform, and separately its calls to DNS
// providers. A survey can be made without the answers of either.
const planLimit = 15 * time.Second

// Survey is a live read of a domain's DNS, compared with the records that the mail platform
// requires. Making a survey writes and stores nothing.
type Survey struct {
	Domain domain.Domain
	// Public is the DNS as public resolvers see it. ZoneRead is the input of the plan. If the
	// account's connection reaches the zone, ZoneRead contains the provider's own records instead
	// of the public ones.
	Public, ZoneRead dns.ZoneRead
	// ReadAt is when the read of Public began.
	ReadAt time.Time
	Holder dns.Holder
	Plan   dns.Plan
	// Shown is true when the public read is reliable and has all the records that the domain needs.
	Shown bool

	offer        dns.Offer         // what the plan was made for
	zoneProvider ports.DNSProvider // the provider of the zone, or nil when the account has no access to it
	// resolved decides on earlier writes whose outcome is unknown. It is empty without zoneProvider.
	resolved dns.Resolution
}

// Automation returns whether tenantry can write the changes for the owner, and what is required if
// it cannot.
func (v Survey) Automation() dns.Automation { return v.Holder.Automate(v.ZoneRead, v.Plan) }

// Survey reads a domain's DNS live and plans the changes that it needs.
//
// It fails with domain_not_found, with provider_timeout when the DNS cannot be read, and with an
// error of the mail platform if no records of the domain are known yet.
func (s *Steps) Survey(ctx context.Context, owner access.AccountID, domainID string) (Survey, error) {
	d, err := s.Domains.DomainByID(ctx, owner, domainID)
	if err != nil {
		return Survey{}, err
	}
	if d, err = s.fetchMissing(ctx, owner, d); err != nil {
		return Survey{}, err
	}
	facts, err := s.Facts.Facts(ctx)
	if err != nil {
		return Survey{}, err
	}
	offer := d.Offer(facts.Hosts)
	offer.Policy = s.DMARC
	began := s.Now()
	zoneRead, err := reconcile.ReadZone(ctx, s.DNS, owner, d.Name, dns.Desire(d.Name, offer)...)
	if err != nil {
		return Survey{}, fault.ProviderTimeout.With("the DNS could not be read in time")
	}
	v := Survey{Domain: d, Public: zoneRead, ReadAt: began, offer: offer}
	return s.plan(ctx, owner, v, func() (dns.Holder, dns.ZoneRead, ports.DNSProvider, error) {
		return s.findHolder(ctx, owner, zoneRead)
	})
}

// Replan returns a survey that was just made with a new plan, from the records that the provider
// stores now. It does not read the public DNS again, unless the account has no access to the zone.
// It fails as Survey does.
func (s *Steps) Replan(ctx context.Context, owner access.AccountID, v Survey) (Survey, error) {
	if v.zoneProvider == nil {
		return s.Survey(ctx, owner, v.Domain.ID)
	}
	return s.plan(ctx, owner, v, func() (dns.Holder, dns.ZoneRead, ports.DNSProvider, error) {
		callCtx, cancel := context.WithTimeout(ctx, planLimit)
		defer cancel()
		holder, zoneRead, zoneProvider := readHeld(callCtx, v.Holder, v.Public, v.zoneProvider)
		return holder, zoneRead, zoneProvider, ctx.Err()
	})
}

// plan plans from the provider's own records if the account has access to them, else from the
// public DNS. Name servers flatten CNAMEs, proxy addresses and expand wildcards, so their answers
// can differ from the zone. read returns the results of findHolder.
func (s *Steps) plan(ctx context.Context, owner access.AccountID, v Survey, read func() (dns.Holder, dns.ZoneRead, ports.DNSProvider, error)) (Survey, error) {
	managed, err := s.Writes.Written(ctx, owner, v.Domain.ID)
	if err != nil {
		return Survey{}, err
	}
	open, err := s.Writes.OpenWrites(ctx, owner, v.Domain.ID)
	if err != nil {
		return Survey{}, err
	}
	if v.Holder, v.ZoneRead, v.zoneProvider, err = read(); err != nil {
		return Survey{}, err
	}
	v.resolved = dns.Resolution{}
	if v.zoneProvider != nil {
		v.resolved = dns.Resolve(open, v.ZoneRead.Sets, s.Now())
		managed = append(managed, v.resolved.Written()...)
	}
	v.Plan = dns.NewPlan(v.offer, v.ZoneRead, managed)
	public := dns.NewPlan(v.offer, v.Public, managed)
	v.Shown = public.SafeToApply() && public.Complete()
	return v, nil
}

// fetchMissing asks the mail platform for the records and the signing state that are not stored
// yet. If the platform does not answer, stored records suffice. If no records are stored,
// fetchMissing returns the platform's error.
func (s *Steps) fetchMissing(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	records := len(d.Service) == 0 && (d.Verified || len(d.Verification) == 0)
	signing := d.Verified && d.Signing.Selector1.Name == ""
	if !records && !signing {
		return d, nil
	}
	t, err := s.Tenants.Tenant(ctx, owner, d.TenantGUID)
	if err != nil {
		return d, err
	}
	callCtx, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	err = t.Reachable()
	if records && err == nil {
		err = s.fetchRecords(callCtx, owner, &d)
	}
	if signing && err == nil && t.Bootstrap == tenant.BootstrapReady {
		d, err = s.FetchSigning(callCtx, owner, t, d)
	}
	if len(d.Verification) == 0 && len(d.Service) == 0 {
		return d, err
	}
	return d, nil
}

func (s *Steps) fetchRecords(ctx context.Context, owner access.AccountID, d *domain.Domain) error {
	err := reconcile.Call(ctx, func(ctx context.Context) error {
		began := s.Now()
		r, err := s.Platform.For(d.TenantGUID).Records(ctx, d.Name)
		if err == nil {
			*d = d.WithRecords(r, began)
		}
		return err
	})
	return s.RecordLostConsent(ctx, owner, d.TenantGUID, err)
}

// Write applies a survey's changes at the provider that holds the zone, for a run. It stores the
// intended write first. The values become managed once the provider has confirmed the write. If the
// outcome is unknown, the write stays open, and a later survey decides on it. Write fails with the
// error of the store or of the provider.
func (s *Steps) Write(ctx context.Context, owner access.AccountID, runID string, v Survey) error {
	zone := v.Holder.Access.Zone
	id, err := s.Writes.IntendWrite(ctx, owner, dns.Write{
		DomainID: v.Domain.ID, RunID: runID, Zone: zone.Name, Changes: v.Plan.Changes, Written: v.Plan.Writes, At: s.Now(),
	})
	if err != nil {
		return err
	}
	err = reconcile.Call(ctx, func(ctx context.Context) error {
		_, err := v.zoneProvider.Apply(ctx, zone, v.Plan.Changes)
		return err
	})
	switch {
	case err == nil, dns.IsOverlapped(err):
		return errors.Join(err, s.Writes.ConfirmWrite(ctx, owner, id))
	case outcome.ChangedNothing(err):
		return errors.Join(err, s.Writes.DropWrite(ctx, owner, id))
	default:
		return err
	}
}

// ResolveWrites stores what a survey decided on earlier writes whose outcome was unknown. It fails
// with the error of the store.
func (s *Steps) ResolveWrites(ctx context.Context, owner access.AccountID, v Survey) error {
	for _, w := range v.resolved.Made {
		if err := s.Writes.ConfirmWrite(ctx, owner, w.ID); err != nil {
			return err
		}
	}
	for _, w := range v.resolved.Unmade {
		if err := s.Writes.DropWrite(ctx, owner, w.ID); err != nil {
			return err
		}
	}
	return nil
}

// StoreSurvey stores the DNS state that a survey read, and the records that it fetched from the mail
// platform. It returns the stored domain, and fails when the store fails.
func (s *Steps) StoreSurvey(ctx context.Context, owner access.AccountID, v Survey) (domain.Domain, error) {
	return reconcile.Save(ctx, s.Domains, owner, v.Domain.WithRead(v.Public, v.ReadAt, reconcile.Hosts(ctx, s.Facts)))
}
