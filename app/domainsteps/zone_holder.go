// SPDX-License-Identifier: Apache-2.0

package domainsteps

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// heldZone is the zone of a domain, as the DNS provider stores it. If no connection of the account
// can read the records of the zone, provider is nil and records is empty.
type heldZone struct {
	holder   dns.Holder
	records  []dns.RRSet // all record sets that the provider stores
	provider ports.DNSProvider
}

// findHolder finds the DNS provider that serves the zone of a public read, and reads the records
// that this provider stores. It fails with service_unavailable if the access to the zone depends on
// a connection whose credential cannot be decrypted or decoded, because only the operator can
// correct this. A job then waits until the keyset is restored.
func (s *Steps) findHolder(ctx context.Context, owner access.AccountID, public dns.ZoneRead) (heldZone, error) {
	providers, err := s.Connections.Providers.Providers(ctx)
	if err != nil {
		return heldZone{}, err
	}
	connections, err := s.Connections.List(ctx, owner)
	if err != nil {
		return heldZone{}, err
	}
	callCtx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	found := s.findConnection(callCtx, owner, public, dns.Detect(public, providers).Provider.ID, connections)
	zone := heldZone{holder: dns.FindHolder(public, providers, found.accesses), provider: found.provider}
	if err := found.unreadable[zone.holder.Access.Provider]; err != nil {
		return heldZone{}, fmt.Errorf("%w (%w)", fault.ServiceUnavailable.With("the stored credential of a DNS connection cannot be read"), err)
	}
	return zone.withRecords(callCtx), ctx.Err()
}

// withRecords returns the zone with the records that the provider stores now. If they cannot be
// read, the result has no provider.
func (z heldZone) withRecords(ctx context.Context) heldZone {
	if z.holder.Access.Standing == dns.ZoneAccessible {
		records, err := z.provider.Records(ctx, z.holder.Access.Zone)
		if z.holder.Access.Standing, z.holder.Access.Detail = accessStanding(err); z.holder.Access.Standing == dns.ZoneAccessible {
			z.records = records
			return z
		}
	}
	return heldZone{holder: z.holder}
}

// withWritten returns the zone after a write of these changes. written are the changed record sets
// as the provider stores them.
func (z heldZone) withWritten(changes []dns.Change, written []dns.RRSet) heldZone {
	z.records = dns.WithoutChanged(z.records, changes)
	for _, set := range written {
		if len(set.Values) > 0 {
			z.records = append(z.records, set)
		}
	}
	return z
}

// read returns the records from which the wanted records are planned. These are the records of the
// provider if there is access to them, otherwise those of the public read. If the provider gave no
// usable answer, read marks the result as unreliable, because the zone may contain records that its
// name servers do not show.
func (z heldZone) read(public dns.ZoneRead, wanted ...dns.Desired) dns.ZoneRead {
	if z.provider != nil {
		return public.WithProviderRecords(z.records, wanted...)
	}
	if z.holder.Access.Standing.RecordsUnknown() && public.Complete {
		public.Complete, public.Reason = false, dns.ReasonProviderUnavailable
	}
	return public
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

// foundConnection is the result of findConnection.
type foundConnection struct {
	accesses   []dns.Access      // the access to each provider that was asked
	provider   ports.DNSProvider // the provider that serves the zone, or nil
	unreadable map[string]error  // the dnsconnections.UnreadableError of a provider, by its id
}

// findConnection asks the account's connections for the zone, provider by provider, until a
// provider serves the zone. It begins with the provider whose id is first, if the account has a
// connection to it.
func (s *Steps) findConnection(ctx context.Context, owner access.AccountID, zoneRead dns.ZoneRead, first string, connections []dnsconnection.Connection) foundConnection {
	result := foundConnection{unreadable: map[string]error{}}
	if zoneRead.Zone == "" || len(zoneRead.Delegation) == 0 {
		return result
	}
	for _, provider := range providerOrder(first, connections) {
		candidates := slices.DeleteFunc(slices.Clone(connections), func(c dnsconnection.Connection) bool { return c.Provider != provider })
		found, err := s.Connections.ForZone(ctx, owner, candidates, zoneRead.Zone, zoneRead.Delegation)
		if errors.As(err, &dnsconnections.UnreadableError{}) {
			result.unreadable[provider] = err
		}
		a := dns.Access{Provider: provider, Zone: found.Zone}
		a.Standing, a.Detail = accessStanding(err)
		result.accesses = append(result.accesses, a)
		if found.Serves {
			result.provider = found.Provider
			return result
		}
	}
	return result
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
