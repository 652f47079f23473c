// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
)

// DNSProviders are the DNS providers that there are plugins for.
type DNSProviders interface {
	// Providers lists them, by id.
	Providers(ctx context.Context) ([]dns.Provider, error)
	// For is a provider as a credential reaches it. Nothing is called yet; a
	// provider without a plugin refuses every call as Down.
	For(provider string, credential secret.Credential) DNSProvider
}
