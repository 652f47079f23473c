// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// DNSProviders implements ports.DNSProviders with the DNS plugins of the plugin folder.
type DNSProviders struct {
	Host          *pluginhost.Host
	fingerprintOf fingerprintFunc
	operator      Connections
	chains        map[string]callChain           // by provider
	nameServers   func(provider string) []string // the name servers in a sandbox; nil otherwise
	descriptions  *descriptionCache
}

var _ ports.DNSProviders = (*DNSProviders)(nil)

func newDNSProviders(c settings.Config, o providerOptions) (*DNSProviders, error) {
	chains, err := newCallChains(c, o, wire.KindDNS)
	if err != nil {
		return nil, err
	}
	return &DNSProviders{
		Host: o.host, fingerprintOf: newFingerprintFunc(o, wire.KindDNS), chains: chains, descriptions: newDescriptionCache(o), operator: o.operatorConnections(c), nameServers: o.nameServers,
	}, nil
}

// OpenDNSProviders returns the DNS providers for a command that does not assemble a Service. It
// fails when the plugin folder or the rate limiter cannot be opened. closeAll stops the plugins
// and closes the limiter.
func OpenDNSProviders(ctx context.Context, c settings.Config, fingerprinter ports.Fingerprinter, log *slog.Logger) (p *DNSProviders, closeAll func() error, err error) {
	counters, err := limiter.Open(ctx, limiter.Options{URL: c.RedisURL, AnswerTimeout: c.RedisTimeout, Log: log})
	if err != nil {
		return nil, nil, err
	}
	host, err := openHost(c, counters, log)
	if err != nil {
		return nil, nil, errors.Join(err, counters.Close())
	}
	closeAll = func() error {
		host.Close()
		return counters.Close()
	}
	if p, err = newDNSProviders(c, providerOptions{host: host, counters: counters, fingerprinter: fingerprinter, log: log, files: &CredentialFiles{log: log}}); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return p, closeAll, nil
}

// Providers returns the providers, sorted by id. It starts each DNS plugin that has not described
// itself yet. A plugin that fails to start, or starts too slowly, is logged, and its provider is
// Undescribed. Providers fails only when ctx ends.
func (p *DNSProviders) Providers(ctx context.Context) ([]dns.Provider, error) {
	descriptions, undescribed := p.descriptions.describeAll(ctx, p.Host.Names(wire.KindDNS))
	var providers []dns.Provider
	for _, description := range descriptions {
		servers := description.NameServers
		// A provider whose description has no name servers is not detected by them, not even in a
		// sandbox.
		if len(servers) > 0 && p.nameServers != nil {
			servers = slices.Concat(servers, p.nameServers(description.Name))
		}
		providers = append(providers, dns.Provider{ID: description.Name, Title: description.Title, NameServers: servers})
	}
	for _, name := range undescribed {
		providers = append(providers, dns.Provider{ID: name, Undescribed: true})
	}
	slices.SortFunc(providers, func(a, b dns.Provider) int { return strings.Compare(a.ID, b.ID) })
	return providers, ctx.Err()
}

// For returns the port of a provider for one credential. Each call passes the interceptors of
// callChain.accountInterceptors on its way to the plugin. If the provider has no plugin, every call
// fails.
func (p *DNSProviders) For(provider string, credential secret.Credential) ports.DNSProvider {
	account := wire.Connection{Settings: credential.Settings, Secrets: credential.Secrets}
	chain, ok := p.chains[provider]
	if !ok {
		return p.pluginPort(provider, account) // the host has no such plugin, so each call returns an error
	}
	return p.pluginPort(provider, account, chain.accountInterceptors(breaker.ByCredential(p.fingerprintOf(account)))...)
}

func (p *DNSProviders) pluginPort(provider string, account wire.Connection, interceptors ...wire.Interceptor) ports.DNSProvider {
	return p.Host.DNS(provider, p.operator.connectionBuilder(provider, account, p.Host.Describe), interceptors...)
}
