// SPDX-License-Identifier: Apache-2.0

package domains

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

// hold finds who holds a domain's zone, and returns the sight as the provider
// holds the zone, and the provider, when the account reaches it there. A provider that gives no
// answer makes the sight unreliable: it may hold what its servers do not show.
func (s *Service) hold(ctx context.Context, owner access.AccountID, sight dns.Sight) (dns.Holder, dns.Sight, ports.DNSProvider, error) {
	providers, err := s.Connections.Providers.Providers(ctx)
	if err != nil {
		return dns.Holder{}, sight, nil, err
	}
	connections, err := s.Connections.List(ctx, owner)
	if err != nil {
		return dns.Holder{}, sight, nil, err
	}
	asked, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	all, at := s.reaching(asked, owner, sight, inOrder(dns.Detect(sight, providers).Provider.ID, connections))
	h := dns.FindHolder(sight, providers, all)
	if h.Access.Standing == dns.ReachesZone {
		held, err := at.Records(asked, h.Access.Zone)
		if h.Access.Standing, h.Access.Detail = standing(err); h.Access.Standing == dns.ReachesZone {
			return h, sight.Holding(held), at, nil
		}
	}
	if h.Access.Standing.Unread() && sight.Complete {
		sight.Complete, sight.Reason = false, dns.ReasonSilent
	}
	return h, sight, nil, ctx.Err()
}

// inOrder lists the providers to which there are connections: first the one
// whose servers the names tell.
func inOrder(first string, connections []dnsconnection.Connection) []string {
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

// reaching asks the account's connections for the zone, provider by provider,
// until one serves it; at is the way there.
func (s *Service) reaching(ctx context.Context, owner access.AccountID, sight dns.Sight, order []string) (all []dns.Access, at ports.DNSProvider) {
	if sight.Zone == "" || len(sight.Delegation) == 0 {
		return nil, nil
	}
	for _, provider := range order {
		found, err := s.Connections.Reaching(ctx, owner, provider, sight.Zone, sight.Delegation)
		a := dns.Access{Provider: provider, Zone: found.Zone}
		a.Standing, a.Detail = standing(err)
		all = append(all, a)
		if found.Serves {
			return all, found.Provider
		}
	}
	return all, nil
}

// standing is what the end of a call of a provider says of a connection, and
// why when its settings are refused.
func standing(err error) (is dns.Standing, why string) {
	var refusal *outcome.Error
	switch {
	case err == nil:
		return dns.ReachesZone, ""
	case dns.IsNoZone(err):
		return dns.ZoneUnreached, ""
	case errors.Is(err, dnsconnections.ErrNoConnection): // removed meanwhile
		return dns.NoConnection, ""
	case outcome.TooLarge(err):
		return dns.AnswerTooLarge, ""
	case !errors.As(err, &refusal) || refusal.Kind != outcome.Refused:
		return dns.ProviderSilent, ""
	case errors.Is(err, fault.AccessDenied):
		return dns.ProviderRefuses, ""
	default:
		return dns.SettingsRefused, refusal.Detail
	}
}
