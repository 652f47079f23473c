// SPDX-License-Identifier: Apache-2.0

package dnsconnections

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// ErrNoConnection is returned by ForZone when the account has none of the connections that are
// candidates.
var ErrNoConnection = errors.New("the account has no connection to the DNS provider")

// ZoneConnection is an account's connection whose credential has access to a zone.
type ZoneConnection struct {
	Connection dnsconnection.Connection
	Provider   ports.DNSProvider
	Zone       dns.Zone
	// Serves is false when changes to the zone have no effect on public DNS. This is so when the
	// zone is idle, or when its servers are not in the delegation.
	Serves bool
}

// ForZone returns the connection that has access to the zone with this apex. It considers the
// candidates that the account still has. It prefers a zone whose servers are in the delegation.
// Among equal zones it prefers the first candidate.
//
// It fails with ErrNoConnection when the account has none of the candidates, and with dns.NoZone
// when no candidate has access to the zone. If a connection could not be tested, it can fail with
// that connection's error, such as provider_credential_rejected.
func (s *Service) ForZone(ctx context.Context, owner access.AccountID, candidates []dnsconnection.Connection, apex string, delegation []string) (ZoneConnection, error) {
	if owner == "" { // Open would accept the connections of any account
		return ZoneConnection{}, ErrNoConnection
	}
	tested := 0
	var best *ZoneConnection
	failed := failures{first: dns.NoZone()}
	for _, c := range candidates {
		found, err := s.testZone(ctx, owner, c.ID, apex)
		if errors.Is(err, fault.DNSConnectionNotFound) {
			continue
		}
		tested++
		if err != nil {
			failed.add(err)
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
	// Do not return best, whose zone does not serve, if a connection that could not be tested may
	// have the zone that does.
	if best != nil && (failed.weight < weightUnknown || len(delegation) == 0) {
		return *best, nil
	}
	return ZoneConnection{}, failed.first
}

func (s *Service) testZone(ctx context.Context, owner access.AccountID, id, apex string) (ZoneConnection, error) {
	c, provider, err := s.Open(ctx, owner, id)
	if err != nil {
		return ZoneConnection{}, err
	}
	r := ZoneConnection{Connection: c, Provider: provider}
	err = call(ctx, func(ctx context.Context) error {
		r.Zone, err = provider.Zone(ctx, apex)
		return err
	})
	if outcome.Of(err) == outcome.Refused && errors.Is(err, fault.AccessDenied) {
		err = credentialRejected(err)
	}
	return r, err
}

// failures keeps the most significant error. A rejected credential outranks a missing zone. An
// error that leaves open whether the zone exists outranks both.
type failures struct {
	first  error
	weight int
}

// The weights of errors that outrank dns.NoZone.
const (
	weightRejected = iota + 1
	weightUnknown
)

func (f *failures) add(err error) {
	weight := weightUnknown
	switch {
	case dns.IsNoZone(err):
		return
	case errors.Is(err, fault.CredentialRejected):
		weight = weightRejected
	}
	if weight > f.weight {
		f.first, f.weight = err, weight
	}
}
