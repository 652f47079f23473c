// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// brokenReader changes each result of a DNS reader.
type brokenReader struct {
	ports.DNSReader
	change func(*dns.ZoneRead)
}

func (b brokenReader) Read(ctx context.Context, owner access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error) {
	s, err := b.DNSReader.Read(ctx, owner, name, wanted...)
	b.change(&s)
	return s, err
}

func TestDNSReaderSuiteDetectsBrokenPromises(t *testing.T) {
	for name, change := range map[string]func(*dns.ZoneRead){
		"always complete": func(s *dns.ZoneRead) { s.Complete = true },
		"never complete":  func(s *dns.ZoneRead) { s.Complete = false },
		"one text only": func(s *dns.ZoneRead) {
			for i := range s.Sets {
				s.Sets[i].Values = s.Sets[i].Values[:1]
			}
		},
		"targets with the final dot": func(s *dns.ZoneRead) {
			for i := range s.Sets {
				if s.Sets[i].Type == dns.CNAME {
					s.Sets[i].Values[0] += "."
				}
			}
		},
		"the name as the zone":            func(s *dns.ZoneRead) { s.Zone = s.Domain },
		"no delegation":                   func(s *dns.ZoneRead) { s.Delegation = nil },
		"nobody agrees":                   func(s *dns.ZoneRead) { s.Servers = slices.Clone(s.Servers); s.Servers[0].Agrees = false },
		"no SPF tree":                     func(s *dns.ZoneRead) { s.Referenced.SPF = nil },
		"no DMARC from above":             func(s *dns.ZoneRead) { s.Referenced.ParentDMARC = nil },
		"no exchanges":                    func(s *dns.ZoneRead) { s.Referenced.Exchanges = nil },
		"no keys":                         func(s *dns.ZoneRead) { s.Referenced.Keys = nil },
		"lookups that were not requested": func(s *dns.ZoneRead) { s.Referenced.ParentDMARC = map[string][]string{"_dmarc.test": nil} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range dnsChecks {
				env := newFakeEnv()
				env.reader = brokenReader{env.fake.DNS, change}
				if fails(t, func(t T) { c.run(t, env) }) {
					return
				}
			}
			t.Fatal("the suite does not detect the broken promise")
		})
	}
}

// providerEnv is the fake DNS provider as a DNSProviderEnv. A test can replace provider by a type
// that breaks a promise.
type providerEnv struct {
	fake              *fake.DNSProvider
	provider, refused ports.DNSProvider
	serial            atomic.Int64
}

func newProviderEnv() *providerEnv {
	f := &fake.DNSProvider{}
	return &providerEnv{fake: f, provider: f, refused: fake.RefusingDNSProvider{DNSProvider: f}}
}

func (env *providerEnv) Provider() ports.DNSProvider { return env.provider }
func (env *providerEnv) Refused() ports.DNSProvider  { return env.refused }

func (env *providerEnv) NewZone(T) string {
	zone := fmt.Sprintf("zone-%d.test", env.serial.Add(1))
	env.fake.AddZone(zone)
	return zone
}

func (env *providerEnv) Put(_ T, zone string, s dns.RRSet) { env.fake.Put(zone, s) }

func (env *providerEnv) Held(t T, zone string) []dns.RRSet {
	sets, err := env.fake.Records(context.WithoutCancel(t.Context()), dns.Zone{ID: zone})
	must(t, "held", err)
	return slices.DeleteFunc(sets, func(s dns.RRSet) bool { return s.Type == dns.SOA || s.Type == dns.NS })
}

func (env *providerEnv) Lose(_ T, failure Failure) { env.fake.LoseNextAnswer(failure == LosesAnswer) }

func TestFakeDNSProviderKeepsTheContract(t *testing.T) {
	DNSProvider(t, func(T) DNSProviderEnv { return newProviderEnv() })
}

// brokenProvider wraps the fake DNS provider and changes its results. A nil field keeps the fake's
// behaviour.
type brokenProvider struct {
	*fake.DNSProvider
	check   func(int) (int, error)
	zone    func(string, dns.Zone, error) (dns.Zone, error)
	records func([]dns.RRSet) []dns.RRSet
	apply   func(*fake.DNSProvider, context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error)
}

func (b brokenProvider) Check(ctx context.Context) (int, error) {
	n, err := b.DNSProvider.Check(ctx)
	if b.check != nil {
		return b.check(n)
	}
	return n, err
}

func (b brokenProvider) Zone(ctx context.Context, name string) (dns.Zone, error) {
	z, err := b.DNSProvider.Zone(ctx, name)
	if b.zone != nil {
		return b.zone(name, z, err)
	}
	return z, err
}

func (b brokenProvider) Records(ctx context.Context, z dns.Zone) ([]dns.RRSet, error) {
	sets, err := b.DNSProvider.Records(ctx, z)
	if b.records != nil {
		return b.records(sets), err
	}
	return sets, err
}

func (b brokenProvider) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if b.apply != nil {
		return b.apply(b.DNSProvider, ctx, z, changes)
	}
	return b.DNSProvider.Apply(ctx, z, changes)
}

// overwrites stores the wanted record sets without comparing the current ones.
func overwrites(f *fake.DNSProvider, z dns.Zone, changes []dns.Change) []dns.RRSet {
	var after []dns.RRSet
	for _, c := range changes {
		f.Put(z.ID, c.After)
		after = append(after, c.After)
	}
	return after
}

type applied = func(*fake.DNSProvider, context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error)

// edited returns an Apply that passes each change to the fake as edit returns it.
func edited(edit func(dns.Change) dns.Change) applied {
	return func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
		changes = slices.Clone(changes)
		for i := range changes {
			changes[i] = edit(changes[i])
		}
		return f.Apply(ctx, z, changes)
	}
}

func TestDNSProviderSuiteDetectsBrokenPromises(t *testing.T) {
	for name, b := range map[string]brokenProvider{
		"counts no zones":             {check: func(int) (int, error) { return 0, nil }},
		"counts what it does not see": {check: func(int) (int, error) { return 7, nil }},
		"any name is a zone": {zone: func(name string, _ dns.Zone, _ error) (dns.Zone, error) {
			return dns.Zone{ID: name, Name: name, NameServers: []string{"a"}}, nil
		}},
		"a zone without servers": {zone: func(_ string, z dns.Zone, err error) (dns.Zone, error) {
			z.NameServers = nil
			return z, err
		}},
		"a missing zone is a plain error": {zone: func(_ string, z dns.Zone, err error) (dns.Zone, error) {
			if err != nil {
				err = &outcome.Error{Kind: outcome.Broken}
			}
			return z, err
		}},
		"reads one value of each": {records: func(sets []dns.RRSet) []dns.RRSet {
			for i := range sets {
				sets[i].Values = sets[i].Values[:1]
			}
			return sets
		}},
		"targets with the final dot": {records: func(sets []dns.RRSet) []dns.RRSet {
			for i := range sets {
				if sets[i].Type == dns.CNAME {
					sets[i].Values[0] += "."
				}
			}
			return sets
		}},
		"quotes texts": {records: func(sets []dns.RRSet) []dns.RRSet {
			for i := range sets {
				if sets[i].Type == dns.TXT {
					sets[i].Values[0] = `"` + sets[i].Values[0] + `"`
				}
			}
			return sets
		}},
		"cuts long texts": {records: func(sets []dns.RRSet) []dns.RRSet {
			for _, s := range sets {
				for i, v := range s.Values {
					s.Values[i] = v[:min(len(v), 255)]
				}
			}
			return sets
		}},
		"expands wildcards": {records: func(sets []dns.RRSet) []dns.RRSet {
			for _, s := range sets {
				if zone, ok := strings.CutPrefix(s.Name, "*."); ok {
					sets = append(sets, dns.RRSet{Name: "_dmarc." + zone, Type: s.Type, Values: s.Values})
				}
			}
			return sets
		}},
		"writes nothing": {apply: func(_ *fake.DNSProvider, _ context.Context, _ dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			return nil, nil
		}},
		"overwrites whatever is there": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			if err := dns.CheckChanges(z.Name, changes); err != nil || ctx.Err() != nil {
				return nil, err
			}
			return overwrites(f, z, changes), nil
		}},
		"one change after the other": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			var all []dns.RRSet
			for _, c := range changes {
				sets, err := f.Apply(ctx, z, []dns.Change{c})
				if err != nil {
					return nil, err
				}
				all = append(all, sets...)
			}
			return all, nil
		}},
		"takes the planned TTL": {apply: edited(func(c dns.Change) dns.Change {
			c.Before.TTL = -1
			return c
		})},
		"appends instead of replacing": {apply: edited(func(c dns.Change) dns.Change {
			for _, v := range c.Before.Values {
				if !slices.Contains(c.After.Values, v) && len(c.After.Values) > 0 {
					c.After.Values = append(slices.Clone(c.After.Values), v)
				}
			}
			return c
		})},
		"never removes": {apply: edited(func(c dns.Change) dns.Change {
			if len(c.After.Values) == 0 {
				return dns.Change{Before: c.Before, After: c.Before}
			}
			return c
		})},
		"refuses what is there already": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			now, _ := f.Records(ctx, z)
			for _, c := range changes {
				if !dns.Find(now, c.Before.Name, c.Before.Type).Same(c.Before) {
					return nil, dns.Changed()
				}
			}
			return f.Apply(ctx, z, changes)
		}},
		"a changed zone is broken": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			sets, err := f.Apply(ctx, z, changes)
			if dns.IsChanged(err) {
				err = &outcome.Error{Kind: outcome.Broken}
			}
			return sets, err
		}},
		"lost is down": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			sets, err := f.Apply(ctx, z, changes)
			if outcome.Of(err) == outcome.Unknown {
				err = &outcome.Error{Kind: outcome.Down}
			}
			return sets, err
		}},
		"returns the requested sets, not the stored ones": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			_, err := f.Apply(ctx, z, changes)
			var asked []dns.RRSet
			for _, c := range changes {
				asked = append(asked, c.After)
			}
			return asked, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range DNSProviderChecks() {
				env := newProviderEnv()
				b.DNSProvider = env.fake
				env.provider = b
				if fails(t, func(t T) { c.Run(t, env) }) {
					return
				}
			}
			t.Fatal("the suite does not detect the broken promise")
		})
	}
	t.Run("any credential is accepted", func(t *testing.T) {
		for _, c := range DNSProviderChecks() {
			env := newProviderEnv()
			env.refused = env.fake
			if fails(t, func(t T) { c.Run(t, env) }) {
				return
			}
		}
		t.Fatal("the suite does not detect the broken promise")
	})
}
