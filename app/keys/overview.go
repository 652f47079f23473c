// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"fmt"
	"slices"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

// Profile reads the Overview of accounts.
type Profile struct {
	Tenants     ports.Tenants
	Platforms   ports.SendingPlatforms
	Providers   ports.DNSProviders
	Connections ports.DNSConnections
}

// Overview has the number of tenants of an account, and the available providers.
type Overview struct {
	TenantCount      int // all tenants of the account, even those that the caller's key may not use
	SendingPlatforms []integration.Provider
	DNSProviders     []AvailableProvider
}

// AvailableProvider is a DNS provider that has a plugin. Connected is true if the account has a
// connection to it.
type AvailableProvider struct {
	dns.Provider

	Connected bool
}

// Overview returns the overview of an account. It calls no provider, but starts the plugins that
// have not described themselves yet. It leaves out a provider whose plugin returns no description
// in time.
func (p *Profile) Overview(ctx context.Context, owner access.AccountID) (Overview, error) {
	tenantCount, err := p.Tenants.TenantCount(ctx, owner)
	if err != nil {
		return Overview{}, fmt.Errorf("overview: %w", err)
	}
	connections, err := p.Connections.DNSConnections(ctx, owner)
	if err != nil {
		return Overview{}, fmt.Errorf("overview: %w", err)
	}
	platforms, err := p.Platforms.Platforms(ctx)
	if err != nil {
		return Overview{}, fmt.Errorf("overview: %w", err)
	}
	providers, err := p.Providers.Providers(ctx)
	if err != nil {
		return Overview{}, fmt.Errorf("overview: %w", err)
	}
	overview := Overview{TenantCount: tenantCount, SendingPlatforms: platforms}
	for _, provider := range providers {
		if provider.Undescribed {
			continue
		}
		connected := slices.ContainsFunc(connections, func(c dnsconnection.Connection) bool { return c.Provider == provider.ID })
		overview.DNSProviders = append(overview.DNSProviders, AvailableProvider{provider, connected})
	}
	return overview, nil
}
