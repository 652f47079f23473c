// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"slices"
	"sync"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// DNSProviders are DNS providers in memory. The secret "token" of a credential
// tells which account at a provider it reaches.
type DNSProviders struct {
	mu     sync.Mutex
	known  []dns.Provider
	held   map[string]ports.DNSProvider
	calls  int
	writes int
}

var _ ports.DNSProviders = (*DNSProviders)(nil)

// Know adds a provider that there is a plugin for.
func (p *DNSProviders) Know(provider dns.Provider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = append(p.known, provider)
}

// Hold makes a credential with this token reach an account at a provider.
func (p *DNSProviders) Hold(provider, token string, at ports.DNSProvider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = map[string]ports.DNSProvider{}
	}
	p.held[provider+" "+token] = at
}

// Calls counts the calls of all providers, Writes those of Apply.
func (p *DNSProviders) Calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Writes counts the calls of Apply.
func (p *DNSProviders) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// Providers implements ports.DNSProviders.
func (p *DNSProviders) Providers(context.Context) ([]dns.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.known), nil
}

// For implements ports.DNSProviders.
func (p *DNSProviders) For(provider string, credential secret.Credential) ports.DNSProvider {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, found := p.held[provider+" "+credential.Secrets["token"].Reveal()]
	if !found {
		at = Refusing{}
	}
	return counted{p, at}
}

// counted passes calls on and counts them.
type counted struct {
	by *DNSProviders
	at ports.DNSProvider
}

func (c counted) count(writes int) {
	c.by.mu.Lock()
	defer c.by.mu.Unlock()
	c.by.calls++
	c.by.writes += writes
}

// Check implements ports.DNSProvider.
func (c counted) Check(ctx context.Context) (int, error) {
	c.count(0)
	return c.at.Check(ctx)
}

// Zone implements ports.DNSProvider.
func (c counted) Zone(ctx context.Context, name string) (dns.Zone, error) {
	c.count(0)
	return c.at.Zone(ctx, name)
}

// Records implements ports.DNSProvider.
func (c counted) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	c.count(0)
	return c.at.Records(ctx, zone)
}

// Apply implements ports.DNSProvider.
func (c counted) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	c.count(1)
	return c.at.Apply(ctx, zone, changes)
}
