// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// providers are the DNS providers of the plugin catalog.
type providers struct {
	host     *pluginhost.Host
	log      *slog.Logger
	prints   ports.Fingerprinter
	operator connections
	routes   map[string]dnsRoute // by provider

	mu    sync.Mutex
	known map[string]dns.Provider // those that described themselves once
}

var _ ports.DNSProviders = (*providers)(nil)

// dnsRoute is the route of a DNS provider.
type dnsRoute = route[*telemetry.DNS, *breaker.DNS]

func newProviders(c settings.Config, o providerOptions) (*providers, error) {
	routes, err := routesOf(c, o, wire.KindDNS, telemetry.NewDNS, breaker.NewDNS)
	if err != nil {
		return nil, err
	}
	return &providers{host: o.host, log: o.log, prints: o.prints, routes: routes, known: map[string]dns.Provider{}, operator: o.operator(c)}, nil
}

// openProviders are the DNS providers for a command without a service. close
// ends their plugins.
func openProviders(ctx context.Context, c settings.Config, prints ports.Fingerprinter, log *slog.Logger) (p *providers, closeAll func() error, err error) {
	host, err := openHost(c, log)
	if err != nil {
		return nil, nil, err
	}
	counters, err := limiter.Open(ctx, limiter.Options{URL: c.RedisURL, Log: log})
	if err != nil {
		host.Close()
		return nil, nil, err
	}
	closeAll = func() error {
		host.Close()
		return counters.Close()
	}
	if p, err = newProviders(c, providerOptions{host: host, counters: counters, prints: prints, log: log}); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return p, closeAll, nil
}

// Providers implements ports.DNSProviders. The plugins of the kind are started
// for it once. One that never ran is left out: nothing is known of it.
func (p *providers) Providers(ctx context.Context) ([]dns.Provider, error) {
	names := p.host.Names(wire.KindDNS)
	var all sync.WaitGroup
	for _, name := range names {
		if _, known := p.of(name); !known {
			all.Go(func() { p.meet(ctx, name) })
		}
	}
	all.Wait()
	var known []dns.Provider
	for _, name := range names {
		if provider, ok := p.of(name); ok {
			known = append(known, provider)
		}
	}
	return known, ctx.Err()
}

func (p *providers) of(name string) (dns.Provider, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	provider, known := p.known[name]
	return provider, known
}

// meet keeps what a plugin says of itself, which does not change while the
// host lives: the catalog pins the binary.
func (p *providers) meet(ctx context.Context, name string) {
	about, err := p.host.Describe(ctx, name)
	if err != nil {
		p.log.WarnContext(ctx, "a DNS provider's plugin does not say what it is", "provider", name, "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[name] = dns.Provider{ID: about.Name, Title: about.Title, NameServers: about.NameServers}
}

// For implements ports.DNSProviders: the plugin's process, the circuit of the
// credential, the measurement of each call.
func (p *providers) For(provider string, credential secret.Credential) ports.DNSProvider {
	account := wire.Connection{Settings: credential.Settings, Secrets: credential.Secrets}
	plugin := p.plugin(provider, account)
	route, ok := p.routes[provider]
	if !ok {
		return plugin // which is none: it says so
	}
	return route.calls.Measure(route.circuits.Guard(plugin, p.print(account)))
}

// print tells credentials apart in the names of circuits and counters, which
// Redis sees, and says nothing to who lacks the key. Accounts that gave the
// same credential share it, and so do replicas.
func (p *providers) print(account wire.Connection) string {
	sum, err := p.prints.Fingerprint([]byte(account.Fingerprint()))
	if err != nil {
		p.log.Error("credentials of DNS providers are not told apart", "error", err)
	}
	return hex.EncodeToString(sum)
}

func (p *providers) plugin(provider string, account wire.Connection) ports.DNSProvider {
	return p.host.DNS(provider, p.operator.joined(provider, account, p.host.Describe))
}
