// SPDX-License-Identifier: Apache-2.0

// Package dnsconnections adds, tests and removes the connections of accounts
// to DNS providers, and finds the one that reaches a zone.
package dnsconnections

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// callLimit bounds one call of a provider. A check may be two requests of it.
const callLimit = 30 * time.Second

// Service holds the use cases of connections to DNS providers.
type Service struct {
	Connections ports.DNSConnections
	Providers   ports.DNSProviders
	Sealer      ports.Sealer
	Now         func() time.Time
}

// New is a connection that is to be added.
type New struct {
	Account    access.AccountID
	Provider   string
	Name       string
	Credential secret.Credential
}

// Add tests a credential and stores it with its connection. One that fails the
// test is not stored. Refusals: account_not_found, account_closed,
// provider_credential_rejected, invalid_request when the settings make no sense.
func (s *Service) Add(ctx context.Context, n New) (dnsconnection.Connection, error) {
	zones, err := check(ctx, s.Providers.For(n.Provider, n.Credential))
	if err != nil {
		return dnsconnection.Connection{}, err
	}
	now := s.Now().UTC().Truncate(time.Microsecond) // as it will be read again
	var random [ident.Entropy]byte
	if _, err := rand.Read(random[:]); err != nil {
		return dnsconnection.Connection{}, err
	}
	c := dnsconnection.Connection{
		ID: ident.New(now, random), AccountID: n.Account, Provider: n.Provider, Name: n.Name,
		Status: dnsconnection.Connected, ZonesVisible: zones, TestedAt: now, CreatedAt: now,
	}
	sealed, err := s.seal(c, n.Credential)
	if err != nil {
		return dnsconnection.Connection{}, err
	}
	if err := s.Connections.AddDNSConnection(ctx, c, sealed); err != nil {
		return dnsconnection.Connection{}, fmt.Errorf("add DNS connection: %w", err)
	}
	return c, nil
}

// List lists the connections of an account, or all when owner is empty.
func (s *Service) List(ctx context.Context, owner access.AccountID) ([]dnsconnection.Connection, error) {
	return s.Connections.DNSConnections(ctx, owner)
}

// Test asks the provider again and stores how that ended, which is also the
// error. Refusal: dns_connection_not_found.
func (s *Service) Test(ctx context.Context, owner access.AccountID, id string) (dnsconnection.Connection, error) {
	c, provider, err := s.Open(ctx, owner, id)
	if c.ID == "" {
		return c, err
	}
	zones := 0
	if err == nil {
		zones, err = check(ctx, provider)
	}
	if ctx.Err() != nil {
		return c, err // given up: that says nothing of the connection
	}
	c.Status, c.TestedAt = dnsconnection.Failed, s.Now().UTC().Truncate(time.Microsecond)
	if err == nil {
		c.Status, c.ZonesVisible = dnsconnection.Connected, zones
	}
	if saved := s.Connections.SaveDNSConnectionTest(ctx, c); saved != nil {
		return c, fmt.Errorf("save test of DNS connection: %w", saved)
	}
	return c, err
}

// Remove deletes a connection and its credential for good. The provider is not
// called. Refusal: dns_connection_not_found.
func (s *Service) Remove(ctx context.Context, id string) (dnsconnection.Connection, error) {
	return s.Connections.RemoveDNSConnection(ctx, id)
}

// Open is the provider as one of the account's connections reaches it; of any
// account's when owner is empty. Refusal: dns_connection_not_found. With any
// other error the connection is there, but its credential cannot be read.
func (s *Service) Open(ctx context.Context, owner access.AccountID, id string) (dnsconnection.Connection, ports.DNSProvider, error) {
	c, sealed, err := s.Connections.DNSConnection(ctx, owner, id)
	if err != nil {
		return dnsconnection.Connection{}, nil, err
	}
	credential, err := s.unseal(c, sealed)
	if err != nil {
		return c, nil, err
	}
	return c, s.Providers.For(c.Provider, credential), nil
}

// check asks a provider for its zones, in time.
func check(ctx context.Context, provider ports.DNSProvider) (zones int, err error) {
	err = call(ctx, func(ctx context.Context) error {
		zones, err = provider.Check(ctx)
		return err
	})
	if outcome.Of(err) == outcome.Refused && errors.Is(err, fault.AccessDenied) {
		return 0, rejected(err)
	}
	return zones, err
}

// rejected is what a provider's no is called here: access_denied is the mail
// platform's.
func rejected(err error) error {
	return fmt.Errorf("%w (%w)", fault.CredentialRejected.With("the DNS provider does not take the credential"), err)
}

// call makes one call of a provider with its deadline. A context that ended
// takes the answer with it: that is an unknown outcome.
func call(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := step(ctx)
	if outcome.Of(err) == 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "the call ended before its answer"}
	}
	return err
}
