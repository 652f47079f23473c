// SPDX-License-Identifier: Apache-2.0

package domainsteps

import (
	"context"
	"errors"
	"slices"

	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// findHolder finds the DNS provider that serves a domain's zone. If a connection of the account
// reaches the zone, findHolder returns zoneRead with the records that the provider stores, and the
// provider. Otherwise it returns zoneRead and nil.
//
// If the provider does not answer, findHolder marks the returned read as unreliable, because the
// zone may contain records that its name servers do not show.
func (s *Steps) findHolder(ctx context.Context, owner access.AccountID, zoneRead dns.ZoneRead) (dns.Holder, dns.ZoneRead, ports.DNSProvider, error) {
	providers, err := s.Connections.Providers.Providers(ctx)
	if err != nil {
		return dns.Holder{}, zoneRead, nil, err
	}
	connections, err := s.Connections.List(ctx, owner)
	if err != nil {
		return dns.Holder{}, zoneRead, nil, err
	}
	callCtx, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	accesses, zoneProvider := s.findConnection(callCtx, owner, zoneRead, dns.Detect(zoneRead, providers).Provider.ID, connections)
	holder, zoneRead, zoneProvider := readProviderRecords(callCtx, dns.FindHolder(zoneRead, providers, accesses), zoneRead, zoneProvider)
	return holder, zoneRead, zoneProvider, ctx.Err()
}

// readProviderRecords returns zoneRead with the records that the provider stores, if a connection
// of the account reaches the zone. Otherwise the returned provider is nil.
func readProviderRecords(ctx context.Context, holder dns.Holder, zoneRead dns.ZoneRead, zoneProvider ports.DNSProvider) (dns.Holder, dns.ZoneRead, ports.DNSProvider) {
	if holder.Access.Standing == dns.ZoneAccessible {
		records, err := zoneProvider.Records(ctx, holder.Access.Zone)
		if holder.Access.Standing, holder.Access.Detail = accessStanding(err); holder.Access.Standing == dns.ZoneAccessible {
			return holder, zoneRead.WithProviderRecords(records), zoneProvider
		}
	}
	if holder.Access.Standing.RecordsUnknown() && zoneRead.Complete {
		zoneRead.Complete, zoneRead.Reason = false, dns.ReasonProviderUnavailable
	}
	return holder, zoneRead, nil
}

// providerOrder lists the connected providers without duplicates. The provider detected from the
// name servers comes first.
func providerOrder(first string, connections []dnsconnection.Connection) []string {
	var order []string
	for _, c := range connections {
		if !slices.Contains(order, c.Provider) {
			order = append(order, c.Provider)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int {
		switch first {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	return order
}

// findConnection asks the account's connections for the zone, provider by provider, until a
// provider serves the zone. It begins with the provider whose id is the argument first. It returns
// the access to each provider that it asked. It also returns the provider that serves the zone, or
// nil.
func (s *Steps) findConnection(ctx context.Context, owner access.AccountID, zoneRead dns.ZoneRead, first string, connections []dnsconnection.Connection) (accesses []dns.Access, zoneProvider ports.DNSProvider) {
	if zoneRead.Zone == "" || len(zoneRead.Delegation) == 0 {
		return nil, nil
	}
	for _, provider := range providerOrder(first, connections) {
		candidates := slices.DeleteFunc(slices.Clone(connections), func(c dnsconnection.Connection) bool { return c.Provider != provider })
		found, err := s.Connections.ForZone(ctx, owner, candidates, zoneRead.Zone, zoneRead.Delegation)
		a := dns.Access{Provider: provider, Zone: found.Zone}
		a.Standing, a.Detail = accessStanding(err)
		accesses = append(accesses, a)
		if found.Serves {
			return accesses, found.Provider
		}
	}
	return accesses, nil
}

// accessStanding translates the error of a provider call into the standing of the connection:
// whether the connection reaches the zone, or why not. detail is set only when the provider refuses
// the settings.
func accessStanding(err error) (standing dns.Standing, detail string) {
	var refusal *outcome.Error
	switch {
	case err == nil:
		return dns.ZoneAccessible, ""
	case dns.IsNoZone(err):
		return dns.ZoneInaccessible, ""
	case errors.Is(err, dnsconnections.ErrNoConnection): // the connection was removed in the meantime
		return dns.NoConnection, ""
	case outcome.IsTooLarge(err):
		return dns.AnswerTooLarge, ""
	case !errors.As(err, &refusal) || refusal.Kind != outcome.Refused:
		return dns.ProviderSilent, ""
	case errors.Is(err, fault.AccessDenied):
		return dns.ProviderRefuses, ""
	default:
		return dns.SettingsRefused, refusal.Detail
	}
}
