// SPDX-License-Identifier: Apache-2.0

// Package dnsconnections adds, tests and removes the connections of accounts to DNS providers, and
// finds the connection whose credential has access to a zone.
//
// Start reading at Service.Add in this file. credential.go seals credentials for the store and
// opens them. Service.ForZone in zone_connection.go selects the connection for a zone.
package dnsconnections

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// callTimeout is the timeout of one call to a provider. A credential check can need two HTTP
// requests.
const callTimeout = 30 * time.Second

// Service has the use cases of connections to DNS providers.
type Service struct {
	Connections ports.DNSConnections
	Providers   ports.DNSProviders
	Sealer      ports.Sealer
	Now         func() time.Time
}

// NewConnection is the input of Add.
type NewConnection struct {
	Account    access.AccountID
	Provider   string
	Name       string
	Credential secret.Credential
}

// Add tests a credential and stores it with a new connection, which it returns. If the credential
// fails the test, Add stores nothing. It fails with account_not_found, account_closed,
// provider_credential_rejected, or another error of the provider. If the settings are invalid, that
// error is invalid_request.
func (s *Service) Add(ctx context.Context, input NewConnection) (dnsconnection.Connection, error) {
	zones, err := checkCredential(ctx, s.Providers.For(input.Provider, input.Credential))
	if err != nil {
		return dnsconnection.Connection{}, err
	}
	now := s.Now().UTC().Truncate(time.Microsecond) // the precision of the store
	id, err := ident.NewFrom(rand.Reader, now)
	if err != nil {
		return dnsconnection.Connection{}, err
	}
	c := dnsconnection.Connection{
		ID: id, AccountID: input.Account, Provider: input.Provider, Name: input.Name,
		Status: dnsconnection.Connected, ZonesVisible: zones, TestedAt: now, CreatedAt: now,
	}
	sealed, err := s.seal(c, input.Credential)
	if err != nil {
		return dnsconnection.Connection{}, err
	}
	if err := s.Connections.AddDNSConnection(ctx, c, sealed); err != nil {
		return dnsconnection.Connection{}, fmt.Errorf("add DNS connection: %w", err)
	}
	return c, nil
}

// List returns the connections of an account, or of all accounts when owner is empty.
func (s *Service) List(ctx context.Context, owner access.AccountID) ([]dnsconnection.Connection, error) {
	return s.Connections.DNSConnections(ctx, owner)
}

// Test checks the credential at the provider again, stores the result, and returns the connection.
// If ctx ends during the check, Test stores nothing. It fails with dns_connection_not_found, with
// UnreadableError, or with the error of the check.
func (s *Service) Test(ctx context.Context, owner access.AccountID, id string) (dnsconnection.Connection, error) {
	c, provider, err := s.Open(ctx, owner, id)
	if c.ID == "" {
		return c, err
	}
	zones := 0
	if err == nil {
		zones, err = checkCredential(ctx, provider)
	}
	if ctx.Err() != nil {
		return c, err // the caller cancelled the test, so the error says nothing about the connection
	}
	c.Status, c.TestedAt = dnsconnection.Failed, s.Now().UTC().Truncate(time.Microsecond)
	if err == nil {
		c.Status, c.ZonesVisible = dnsconnection.Connected, zones
	}
	if saveErr := s.Connections.SaveDNSConnectionTest(ctx, c); saveErr != nil {
		return c, saveErr
	}
	return c, err
}

// Remove deletes a connection and its credential permanently, and returns it. It does not call the
// provider. It fails with dns_connection_not_found.
func (s *Service) Remove(ctx context.Context, id string) (dnsconnection.Connection, error) {
	return s.Connections.RemoveDNSConnection(ctx, id)
}

// Open returns a connection and its provider, ready for calls with the stored credential. An empty
// owner matches any account. Open fails with dns_connection_not_found. When the credential cannot
// be read, Open returns the connection together with the error.
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

func checkCredential(ctx context.Context, provider ports.DNSProvider) (zones int, err error) {
	err = reconcile.CallWithin(ctx, callTimeout, func(ctx context.Context) error {
		zones, err = provider.Check(ctx)
		return err
	})
	return zones, translateError(err)
}

// translateError replaces access_denied of a DNS provider with provider_credential_rejected.
// Callers expect access_denied only from the mail platform.
func translateError(err error) error {
	if outcome.KindOf(err) != outcome.Refused || !errors.Is(err, fault.AccessDenied) {
		return err
	}
	return fmt.Errorf("%w (%w)", fault.CredentialRejected.With("the DNS provider rejects the credential"), err)
}
