// SPDX-License-Identifier: Apache-2.0

package dnsconnections

import (
	"context"
	"errors"
	"slices"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// ErrNoConnection says that the account has no connection to the provider, or
// none at all.
var ErrNoConnection = errors.New("the account has no connection to the DNS provider")

// Reach is a connection of an account that reaches a zone.
type Reach struct {
	Connection dnsconnection.Connection
	Provider   ports.DNSProvider
	Zone       dns.Zone
	// Serves is false when the world does not see what is written here: the
	// zone is idle, or its servers are not those of the delegation.
	Serves bool
}

// Reaching finds the account's connection that reaches the zone with this
// apex, among those to one provider or, when provider is empty, among all. One
// whose zone serves the world, by the names of its delegation, is better than
// one that only has the zone, and an older connection better than a younger.
//
// Without one it is ErrNoConnection when there is none to ask, dns.NoZone when
// all were asked, provider_credential_rejected when a provider did not take
// a credential, and else the first error of a connection that could not be asked.
func (s *Service) Reaching(ctx context.Context, owner access.AccountID, provider, apex string, delegation []string) (Reach, error) {
	all, err := s.Connections.DNSConnections(ctx, owner)
	if err != nil {
		return Reach{}, err
	}
	if provider != "" {
		all = slices.DeleteFunc(all, func(c dnsconnection.Connection) bool { return c.Provider != provider })
	}
	if len(all) == 0 || owner == "" {
		return Reach{}, ErrNoConnection
	}
	var best *Reach
	failed := failures{first: dns.NoZone()}
	for _, c := range all {
		reach, err := s.reach(ctx, owner, c.ID, apex)
		if err != nil {
			failed.add(err)
			continue
		}
		if reach.Serves = reach.Zone.ServesWorld(delegation); reach.Serves {
			return reach, nil
		}
		if best == nil {
			best = &reach
		}
	}
	// Where one could not be asked that may serve the zone, one that does not
	// is no answer.
	if best != nil && (failed.weight < unsure || len(delegation) == 0) {
		return *best, nil
	}
	return Reach{}, failed.first
}

func (s *Service) reach(ctx context.Context, owner access.AccountID, id, apex string) (Reach, error) {
	c, provider, err := s.Open(ctx, owner, id)
	if err != nil {
		return Reach{}, err
	}
	r := Reach{Connection: c, Provider: provider}
	err = call(ctx, func(ctx context.Context) error {
		r.Zone, err = provider.Zone(ctx, apex)
		return err
	})
	if outcome.Of(err) == outcome.Refused && errors.Is(err, fault.AccessDenied) {
		err = rejected(err)
	}
	return r, err
}

// failures keeps the error that says most: one that leaves open whether the
// zone is there, before a credential to replace, before a zone that is not there.
type failures struct {
	first  error
	weight int
}

// The weights of what says more than dns.NoZone.
const (
	certain = iota + 1
	unsure
)

func (f *failures) add(err error) {
	weight := unsure
	switch {
	case dns.IsNoZone(err) || errors.Is(err, fault.DNSConnectionNotFound): // removed meanwhile
		return
	case errors.Is(err, fault.CredentialRejected):
		weight = certain
	}
	if weight > f.weight {
		f.first, f.weight = err, weight
	}
}
