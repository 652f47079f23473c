// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
)

// DNSProviders lists the DNS providers that have plugins.
type DNSProviders interface {
	// Providers lists the providers, sorted by id. A provider whose plugin does not run may be
	// Undescribed.
	Providers(ctx context.Context) ([]dns.Provider, error)
	// For returns a provider, accessed with a credential. It makes no call. If the provider has no
	// plugin, every call fails with outcome.Down.
	For(provider string, credential secret.Credential) DNSProvider
}
