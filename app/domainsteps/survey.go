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
)

// planTimeout is the timeout of a survey's calls to the mail platform. The calls to DNS providers
// have a separate timeout of the same length. If a DNS provider does not answer in time, Survey
// plans without its answer. If the mail platform does not answer in time, Survey uses the stored
// records, if there are any.
const planTimeout = 15 * time.Second

// Survey is a live read of a domain's DNS, compared with the records that the mail platform
// requires. A survey changes nothing at a provider. It stores nothing, except a revocation of the
// tenant's consent.
type Survey struct {
	Domain domain.Domain
	// Public is the DNS that the name servers of the domain publish. ZoneRead is the input of the
	// plan. If a connection of the account has access to the zone, ZoneRead contains the records
	// that the provider stores. Otherwise it contains the public records.
	Public, ZoneRead dns.ZoneRead
	// ReadAt is when the read of Public began.
	ReadAt time.Time
	Holder dns.Holder
	Plan   dns.Plan
	// RecordsVisible is true when the public DNS was read reliably and has all records of the plan;
	// see dns.Plan.VisibleIn.
	RecordsVisible bool

	offer dns.Offer // the records that the plan must provide
	zone  heldZone
	// resolution tells which earlier writes of unknown outcome took effect. It is empty if the
	// account has no access to the zone.
	resolution dns.Resolution
}

// Automation returns whether tenantry can write the changes. If tenantry cannot, the result says
// what a person must do first.
func (survey Survey) Automation() dns.Automation {
	return survey.Holder.Automate(survey.ZoneRead, survey.Plan)
}

// Survey reads a domain's DNS live and plans the changes that it needs.
//
// It fails with domain_not_found, or with provider_timeout when the DNS cannot be read. If no
// records of the domain or no facts about the mail platform are known yet, it can also fail with an
// error of the platform.
func (s *Steps) Survey(ctx context.Context, owner access.AccountID, domainID string) (Survey, error) {
	d, err := s.Domains.DomainByID(ctx, owner, domainID)
	if err != nil {
		return Survey{}, err
	}
	if d, err = s.fetchMissingRecords(ctx, owner, d); err != nil {
		return Survey{}, err
	}
	facts, err := s.Facts.Facts(ctx)
	if err != nil {
		return Survey{}, err
	}
	survey := Survey{Domain: d, offer: d.Offer(facts.Hosts)}
	survey.offer.Policy = s.DMARC
	if survey, err = s.readPublic(ctx, owner, survey); err != nil {
		return Survey{}, err
	}
	return s.makePlan(ctx, owner, survey, func() (heldZone, error) { return s.findHolder(ctx, owner, survey.Public) })
}

func (s *Steps) readPublic(ctx context.Context, owner access.AccountID, survey Survey) (Survey, error) {
	began := s.Now()
	public, err := reconcile.ReadZone(ctx, s.DNS, owner, survey.Domain.Name, dns.DesiredRecords(survey.Domain.Name, survey.offer)...)
	if err != nil {
		return Survey{}, fault.ProviderTimeout.With("the DNS could not be read in time")
	}
	survey.Public, survey.ReadAt = public, began
	return survey, nil
}

// Replan returns a recent survey with a new plan, made from the records that the provider stores
// now. It reads the public DNS again only in two cases: the account has no access to the zone, or
// the provider's records depend on names that were not read. It fails as Survey does.
func (s *Steps) Replan(ctx context.Context, owner access.AccountID, survey Survey) (Survey, error) {
	if survey.zone.provider == nil {
		return s.Survey(ctx, owner, survey.Domain.ID)
	}
	replanned, err := s.makePlan(ctx, owner, survey, func() (heldZone, error) {
		callCtx, cancel := context.WithTimeout(ctx, planTimeout)
		defer cancel()
		return survey.zone.withRecords(callCtx), ctx.Err()
	})
	if err == nil && replanned.Plan.Reason == dns.ReasonProviderAhead {
		return s.Survey(ctx, owner, survey.Domain.ID)
	}
	return replanned, err
}

// Reread returns a survey that Write returned, with a new read of the public DNS and a new plan. It
// does not read the records at the provider again, because the answer of the write shows them. No
// other process of tenantry writes the domain's records meanwhile: a domain has at most one active
// job, and an undo refuses a domain whose job a worker is executing. Reread fails as Survey does.
func (s *Steps) Reread(ctx context.Context, owner access.AccountID, written Survey) (Survey, error) {
	survey, err := s.readPublic(ctx, owner, written)
	if err != nil {
		return Survey{}, err
	}
	return s.makePlan(ctx, owner, survey, func() (heldZone, error) { return written.zone, nil })
}

// makePlan returns the survey with its plan. If the account has access to the records that the
// provider stores, makePlan makes the plan from these records. Otherwise it uses the public DNS.
// Public answers can differ from the zone, because name servers flatten CNAMEs, proxy addresses and
// expand wildcards. findHolder returns the zone with the records that its provider stores. makePlan
// reads the stored writes before it calls findHolder. In the reverse order, a write that was made
// in between would seem not to have been made.
func (s *Steps) makePlan(ctx context.Context, owner access.AccountID, survey Survey, findHolder func() (heldZone, error)) (Survey, error) {
	managed, err := s.Writes.Written(ctx, owner, survey.Domain.ID)
	if err != nil {
		return Survey{}, err
	}
	openWrites, err := s.Writes.OpenWrites(ctx, owner, survey.Domain.ID)
	if err != nil {
		return Survey{}, err
	}
	if survey.zone, err = findHolder(); err != nil {
		return Survey{}, err
	}
	survey.Holder, survey.resolution = survey.zone.holder, dns.Resolution{}
	survey.ZoneRead = survey.zone.read(survey.Public, dns.DesiredRecords(survey.Domain.Name, survey.offer)...)
	if survey.zone.provider != nil {
		survey.resolution = dns.ResolveWrites(openWrites, survey.ZoneRead.Sets, s.Now())
		managed = append(managed, survey.resolution.Written()...)
	}
	survey.Plan = dns.NewPlan(survey.offer, survey.ZoneRead, managed)
	publicPlan := dns.NewPlan(survey.offer, survey.Public, managed)
	survey.RecordsVisible = survey.Plan.VisibleIn(publicPlan)
	return survey, nil
}

// fetchMissingRecords asks the mail platform for the records and the signing state that are not
// stored yet. If the platform fails, fetchMissingRecords returns the domain with its stored
// records. If no records are stored, it returns the platform's error.
func (s *Steps) fetchMissingRecords(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	needRecords := len(d.Service) == 0 && (d.Verified || len(d.Verification) == 0)
	needSigning := d.Verified && d.Signing.Selector1.Name == ""
	if !needRecords && !needSigning {
		return d, nil
	}
	t, err := s.Tenants.Tenant(ctx, owner, d.TenantGUID)
	if err != nil {
		return d, err
	}
	callCtx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	err = t.CheckConsent()
	if needRecords && err == nil {
		err = s.fetchRecords(callCtx, owner, &d)
	}
	if needSigning && err == nil && t.Bootstrap == tenant.BootstrapReady {
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

// Write applies a survey's changes at the provider that serves the zone. runID is the id of the run
// that makes the write. Write stores the intended write first. After the provider has confirmed the
// write, tenantry manages the written values. If the outcome is unknown, a later survey finds out
// whether the write took effect. Write returns the survey with the zone as the write left it, for
// Reread. It fails with the error of the store or of the provider.
func (s *Steps) Write(ctx context.Context, owner access.AccountID, runID string, survey Survey) (Survey, error) {
	zone := survey.Holder.Access.Zone
	id, err := s.Writes.IntendWrite(ctx, owner, dns.Write{
		DomainID: survey.Domain.ID, RunID: runID, Zone: zone.Name, Changes: survey.Plan.Changes, Written: survey.Plan.Writes, At: s.Now(),
	})
	if err != nil {
		return Survey{}, err
	}
	var written []dns.RRSet
	err = reconcile.Call(ctx, func(ctx context.Context) (err error) {
		written, err = survey.zone.provider.Apply(ctx, zone, survey.Plan.Changes)
		return err
	})
	survey.zone = survey.zone.withWritten(survey.Plan.Changes, written)
	switch {
	case err == nil, dns.IsOverlapped(err):
		return survey, errors.Join(err, s.Writes.ConfirmWrite(ctx, owner, id))
	case outcome.ChangedNothing(err):
		return Survey{}, errors.Join(err, s.Writes.DropWrite(ctx, owner, id))
	default:
		return Survey{}, err
	}
}

// ResolveWrites stores which earlier writes of unknown outcome took effect according to the survey.
// It fails with the error of the store.
func (s *Steps) ResolveWrites(ctx context.Context, owner access.AccountID, survey Survey) error {
	for _, w := range survey.resolution.Made {
		if err := s.Writes.ConfirmWrite(ctx, owner, w.ID); err != nil {
			return err
		}
	}
	for _, w := range survey.resolution.Unmade {
		if err := s.Writes.DropWrite(ctx, owner, w.ID); err != nil {
			return err
		}
	}
	return nil
}

// StoreSurvey stores the DNS state that a survey read, and the records that it fetched from the
// mail platform. It returns the stored domain, and fails when the store fails.
func (s *Steps) StoreSurvey(ctx context.Context, owner access.AccountID, survey Survey) (domain.Domain, error) {
	return reconcile.SaveDomain(ctx, s.Domains, owner, survey.Domain.WithRead(survey.Public, survey.ReadAt, reconcile.PlatformHosts(ctx, s.Facts)))
}
