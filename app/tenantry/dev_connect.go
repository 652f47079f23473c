// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"

	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/secret"
)

// connectDNS connects an account of the sandbox to a simulated DNS provider, as
// an operator does. An account that is connected stays so: the sandbox connects
// its own at each start.
func (s *service) connectDNS(ctx context.Context, owner access.AccountID, provider string, all secret.Credential) error {
	there, err := s.connections.List(ctx, owner)
	if err != nil || slices.ContainsFunc(there, func(c dnsconnection.Connection) bool { return c.Provider == provider }) {
		return err
	}
	about, err := s.host.Describe(ctx, provider)
	if err != nil {
		return err
	}
	theirs := secret.Credential{Settings: map[string]string{}, Secrets: all.Secrets}
	for _, field := range about.FieldsOf(true) {
		if value := all.Settings[field.Name]; value != "" {
			theirs.Settings[field.Name] = value
		}
	}
	_, err = s.connections.Add(ctx, dnsconnections.New{Account: owner, Provider: provider, Name: "sandbox", Credential: theirs})
	return err
}
