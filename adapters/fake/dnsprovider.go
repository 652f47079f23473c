// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"slices"
	"sync"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// DNSProvider is one account of a DNS provider, in memory.
type DNSProvider struct {
	mu         sync.Mutex
	zones      map[string][]dns.RRSet
	failBefore *outcome.Error // the next Apply fails with it and changes nothing
	failAfter  *outcome.Error // the next Apply makes its changes and fails with it
}

var _ ports.DNSProvider = (*DNSProvider)(nil)

// AddZone adds a zone with SOA, NS and these record sets.
func (p *DNSProvider) AddZone(name string, sets ...dns.RRSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.zones == nil {
		p.zones = map[string][]dns.RRSet{}
	}
	p.zones[name] = append([]dns.RRSet{
		{Name: name, Type: dns.SOA, TTL: 3600, Values: []string{"ns1.provider.test hostmaster.provider.test 1 3600 600 604800 60"}},
		{Name: name, Type: dns.NS, TTL: 3600, Values: []string{"ns1.provider.test", "ns2.provider.test"}},
	}, cloneSets(sets)...)
}

// Put replaces a record set, as the owner of the zone can do in the provider's user interface. If s
// has no values, Put removes the record set.
func (p *DNSProvider) Put(zone string, s dns.RRSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(zone, s)
}

// LoseNextAnswer makes the next Apply end with an unknown outcome: after its changes if afterEffect
// is true, before them otherwise.
func (p *DNSProvider) LoseNextAnswer(afterEffect bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lostAnswer := &outcome.Error{Kind: outcome.Unknown, Cause: "fake", Detail: "the fake was told to lose the answer"}
	if afterEffect {
		p.failAfter = lostAnswer
	} else {
		p.failBefore = lostAnswer
	}
}

// Check implements ports.DNSProvider.
func (p *DNSProvider) Check(ctx context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return 0, unknownOutcome()
	}
	return len(p.zones), nil
}

// Zone implements ports.DNSProvider.
func (p *DNSProvider) Zone(ctx context.Context, name string) (dns.Zone, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return dns.Zone{}, unknownOutcome()
	}
	sets, ok := p.zones[name]
	if !ok {
		return dns.Zone{}, dns.NoZoneError()
	}
	return dns.Zone{ID: name, Name: name, NameServers: slices.Clone(dns.Find(sets, name, dns.NS).Values)}, nil
}

// Records implements ports.DNSProvider.
func (p *DNSProvider) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return nil, unknownOutcome()
	}
	sets, ok := p.zones[zone.ID]
	if !ok {
		return nil, dns.NoZoneError()
	}
	return cloneSets(sets), nil
}

// Apply implements ports.DNSProvider.
func (p *DNSProvider) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	failBefore, failAfter := p.failBefore, p.failAfter
	p.failBefore, p.failAfter = nil, nil
	switch {
	case ctx.Err() != nil:
		return nil, unknownOutcome()
	case failBefore != nil:
		return nil, failBefore
	}
	if err := dns.CheckChanges(zone.Name, changes); err != nil {
		return nil, err
	}
	outstanding, err := dns.Outstanding(p.zones[zone.ID], changes)
	if err != nil {
		return nil, err
	}
	for _, c := range outstanding {
		p.put(zone.ID, c.After)
	}
	if failAfter != nil {
		return nil, failAfter
	}
	var written []dns.RRSet
	for _, c := range changes {
		written = append(written, dns.Find(p.zones[zone.ID], c.After.Name, c.After.Type))
	}
	return cloneSets(written), nil
}

func (p *DNSProvider) put(zone string, s dns.RRSet) {
	sets := slices.DeleteFunc(p.zones[zone], func(o dns.RRSet) bool { return o.Name == s.Name && o.Type == s.Type })
	if len(s.Values) > 0 {
		sets = append(sets, cloneSets([]dns.RRSet{s})...)
	}
	p.zones[zone] = sets
}

func cloneSets(sets []dns.RRSet) []dns.RRSet {
	cloned := slices.Clone(sets)
	for i := range cloned {
		cloned[i].Values = slices.Clone(cloned[i].Values)
	}
	return cloned
}

// RefusingDNSProvider is a DNS provider that rejects the credential: every call fails with
// access_denied.
type RefusingDNSProvider struct{}

// Check implements ports.DNSProvider.
func (RefusingDNSProvider) Check(context.Context) (int, error) { return 0, credentialRejected() }

// Zone implements ports.DNSProvider.
func (RefusingDNSProvider) Zone(context.Context, string) (dns.Zone, error) {
	return dns.Zone{}, credentialRejected()
}

// Records implements ports.DNSProvider.
func (RefusingDNSProvider) Records(context.Context, dns.Zone) ([]dns.RRSet, error) {
	return nil, credentialRejected()
}

// Apply implements ports.DNSProvider.
func (RefusingDNSProvider) Apply(context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error) {
	return nil, credentialRejected()
}

func credentialRejected() error {
	return refuse(fault.AccessDenied, "the DNS provider rejects the credential")
}

// DNSProviders is the set of DNS providers, in memory. The provider and the secret "token" of a
// credential select the account.
type DNSProviders struct {
	mu        sync.Mutex
	providers []dns.Provider
	accounts  map[string]ports.DNSProvider
	calls     int
	writes    int
}

var _ ports.DNSProviders = (*DNSProviders)(nil)

// AddProvider adds a provider to the result of Providers.
func (p *DNSProviders) AddProvider(provider dns.Provider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.providers = append(p.providers, provider)
}

// AddAccount makes For use account for a credential of the provider with this token.
func (p *DNSProviders) AddAccount(provider, token string, account ports.DNSProvider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.accounts == nil {
		p.accounts = map[string]ports.DNSProvider{}
	}
	p.accounts[provider+" "+token] = account
}

// Calls returns the number of calls of all providers.
func (p *DNSProviders) Calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Writes returns the number of calls of Apply.
func (p *DNSProviders) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// Providers implements ports.DNSProviders.
func (p *DNSProviders) Providers(context.Context) ([]dns.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.providers), nil
}

// For implements ports.DNSProviders.
func (p *DNSProviders) For(provider string, credential secret.Credential) ports.DNSProvider {
	p.mu.Lock()
	defer p.mu.Unlock()
	account, found := p.accounts[provider+" "+credential.Secrets["token"].Reveal()]
	if !found {
		account = RefusingDNSProvider{}
	}
	return countingProvider{p, account}
}

// countingProvider counts the calls of a provider.
type countingProvider struct {
	totals   *DNSProviders
	provider ports.DNSProvider
}

func (c countingProvider) count(writes int) {
	c.totals.mu.Lock()
	defer c.totals.mu.Unlock()
	c.totals.calls++
	c.totals.writes += writes
}

// Check implements ports.DNSProvider.
func (c countingProvider) Check(ctx context.Context) (int, error) {
	c.count(0)
	return c.provider.Check(ctx)
}

// Zone implements ports.DNSProvider.
func (c countingProvider) Zone(ctx context.Context, name string) (dns.Zone, error) {
	c.count(0)
	return c.provider.Zone(ctx, name)
}

// Records implements ports.DNSProvider.
func (c countingProvider) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	c.count(0)
	return c.provider.Records(ctx, zone)
}

// Apply implements ports.DNSProvider.
func (c countingProvider) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	c.count(1)
	return c.provider.Apply(ctx, zone, changes)
}
