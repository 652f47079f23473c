// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// planLimit bounds what a plan asks of mail platform and DNS provider: each of
// them, as the plan can be made without.
const planLimit = 15 * time.Second

// Survey is a domain's DNS as it is now, held against what the mail platform
// asks for. It is read only: nothing is written or stored.
type Survey struct {
	Domain domain.Domain
	// Public is what the world sees; Sight, from which the plan is made, has the
	// provider's own list in its place where the account reaches it.
	Public, Sight dns.Sight
	Holder        dns.Holder
	Plan          dns.Plan
	// Shown: the read of the world is reliable and needs nothing more.
	Shown bool

	at ports.DNSProvider // who holds the zone, when the account reaches it
}

// Automation tells whether the changes can be written for the owner.
func (v Survey) Automation() dns.Automation { return v.Holder.Automate(v.Sight, v.Plan) }

// Survey reads a domain's DNS live and plans what it needs. Refusals:
// domain_not_found before anyone is asked; provider_timeout when the DNS could
// not be read; those of the mail platform while it has not said yet, ever, what
// the domain needs.
func (s *Service) Survey(ctx context.Context, owner access.AccountID, domainID string) (Survey, error) {
	d, err := s.Domains.DomainByID(ctx, owner, domainID)
	if err != nil {
		return Survey{}, err
	}
	if d, err = s.learn(ctx, owner, d); err != nil {
		return Survey{}, err
	}
	offer := dns.Offer{Verification: d.Verification, Service: d.Service, Signing: d.Signing, Policy: s.DMARC}
	sight, err := settling.Sight(ctx, s.DNS, d.Name, dns.Desire(d.Name, offer)...)
	if err != nil {
		return Survey{}, fault.ProviderTimeout.With("the DNS could not be read in time")
	}
	return s.plan(ctx, owner, d, offer, sight)
}

// plan decides from what the world sees, and from the provider's own list where
// the account reaches it: servers flatten, proxy and fill in from wildcards.
func (s *Service) plan(ctx context.Context, owner access.AccountID, d domain.Domain, offer dns.Offer, sight dns.Sight) (Survey, error) {
	ours, err := s.Writes.Written(ctx, owner, d.ID)
	if err != nil {
		return Survey{}, err
	}
	v := Survey{Domain: d, Public: sight}
	if v.Holder, v.Sight, v.at, err = s.hold(ctx, owner, sight); err != nil {
		return Survey{}, err
	}
	v.Plan = dns.NewPlan(offer, v.Sight, ours)
	public := dns.NewPlan(offer, sight, ours)
	v.Shown = public.SafeToApply() && len(public.Changes) == 0
	return v, nil
}
