// SPDX-License-Identifier: Apache-2.0

package dnsconnections

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// ErrNoConnection is returned by ForZone when the account has none of the candidate connections.
var ErrNoConnection = errors.New("the account has no connection to the DNS provider")

// ZoneConnection is an account's connection whose credential has access to a zone.
type ZoneConnection struct {
	Connection dnsconnection.Connection
	Provider   ports.DNSProvider
	Zone       dns.Zone
	// Serves is false when changes to the zone have no effect on public DNS. This happens when the
	// zone is not active at the provider, or when its name servers are not those of the delegation.
	Serves bool
}

// ForZone returns a connection that has access to the zone with this apex. It skips candidates that
// the account no longer has. It returns the first connection whose zone serves the delegation. If
// no zone serves it, ForZone returns the first connection that has access, unless a test failed for
// a reason other than a rejected credential or a missing zone.
//
// ForZone fails with ErrNoConnection when the account has none of the candidates, and with
// dns.NoZoneError when no candidate has access to the zone. If the test of a connection fails,
// ForZone can return the error of this test instead, such as provider_credential_rejected.
func (s *Service) ForZone(ctx context.Context, owner access.AccountID, candidates []dnsconnection.Connection, apex string, delegation []string) (ZoneConnection, error) {
	if owner == "" { // Open would accept the connections of any account
		return ZoneConnection{}, ErrNoConnection
	}
	tested := 0
	var best *ZoneConnection
	zoneErrors := worstError{err: dns.NoZoneError()}
	for _, c := range candidates {
		found, err := s.testZone(ctx, owner, c.ID, apex)
		if errors.Is(err, fault.DNSConnectionNotFound) {
			continue
		}
		tested++
		if err != nil {
			zoneErrors.add(err)
			continue
		}
		if found.Serves = found.Zone.ServesDelegation(delegation); found.Serves {
			return found, nil
		}
		if best == nil {
			best = &found
		}
	}
	if tested == 0 {
		return ZoneConnection{}, ErrNoConnection
	}
	// The zone of best does not serve the domain. If an error has weightUnknown or more, its
	// connection may have the zone that serves the domain, so ForZone returns this error. Without a
	// known delegation, no zone counts as serving the domain, so ForZone returns best.
	if best != nil && (zoneErrors.weight < weightUnknown || len(delegation) == 0) {
		return *best, nil
	}
	return ZoneConnection{}, zoneErrors.err
}

func (s *Service) testZone(ctx context.Context, owner access.AccountID, id, apex string) (ZoneConnection, error) {
	c, provider, err := s.Open(ctx, owner, id)
	if err != nil {
		return ZoneConnection{}, err
	}
	result := ZoneConnection{Connection: c, Provider: provider}
	err = reconcile.CallWithin(ctx, callTimeout, func(ctx context.Context) error {
		result.Zone, err = provider.Zone(ctx, apex)
		return err
	})
	return result, translateError(err)
}

// worstError keeps the error with the highest weight. A rejected credential outranks a missing
// zone. Every other error outranks both, because the zone may still exist. An UnreadableError
// outranks all, because only the operator can correct its cause.
type worstError struct {
	err    error
	weight int
}

// The weights of errors that outrank dns.NoZoneError.
const (
	weightRejected = iota + 1
	weightUnknown
	weightUnreadable
)

func (w *worstError) add(err error) {
	weight := weightUnknown
	switch {
	case dns.IsNoZone(err):
		return
	case errors.Is(err, fault.CredentialRejected):
		weight = weightRejected
	case errors.As(err, &UnreadableError{}):
		weight = weightUnreadable
	}
	if weight > w.weight {
		w.err, w.weight = err, weight
	}
}
