// SPDX-License-Identifier: Apache-2.0

package domainsteps

import (
	"context"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// OpenedZone is the zone of a domain at the DNS provider that serves it.
type OpenedZone struct {
	Domain domain.Domain
	Zone   dns.Zone
	// Records are all record sets of the zone, as the provider stores them.
	Records  []dns.RRSet
	Provider ports.DNSProvider
}

// OpenZone opens the zone of a domain through the account's connection to the DNS provider that
// serves the zone now. It fails with domain_not_found, with provider_timeout if the DNS cannot be
// read, and with dns_connection_required if no connection reaches the zone or the provider gives no
// usable answer.
func (s *Steps) OpenZone(ctx context.Context, owner access.AccountID, domainID string) (OpenedZone, error) {
	d, err := s.Domains.DomainByID(ctx, owner, domainID)
	if err != nil {
		return OpenedZone{}, err
	}
	zoneRead, err := reconcile.ReadZone(ctx, s.DNS, owner, d.Name)
	if err != nil {
		return OpenedZone{}, fault.ProviderTimeout.With("the DNS of %s could not be read in time", d.Name)
	}
	zone, err := s.findHolder(ctx, owner, zoneRead)
	if err != nil {
		return OpenedZone{}, err
	}
	if zone.provider == nil {
		zoneRead = zone.read(zoneRead)
		a := zone.holder.Automate(zoneRead, dns.Plan{Reliable: zoneRead.Complete, Reason: zoneRead.Reason})
		return OpenedZone{}, fault.ConnectionRequired.With("the zone of %s cannot be changed. %s", d.Name, a.Message)
	}
	return OpenedZone{Domain: d, Zone: zone.holder.Access.Zone, Records: zone.records, Provider: zone.provider}, nil
}
