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

// brokenReader changes each result of a DNS reader. If change is nil, it drops each error.
type brokenReader struct {
	ports.DNSReader
	change func(*dns.ZoneRead)
}

func (b brokenReader) Read(ctx context.Context, owner access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error) {
	read, err := b.DNSReader.Read(ctx, owner, name, wanted...)
	if b.change == nil {
		return read, nil
	}
	b.change(&read)
	return read, err
}

func TestDNSReaderSuiteDetectsBrokenPromises(t *testing.T) {
	for name, change := range map[string]func(*dns.ZoneRead){
		"always complete": func(read *dns.ZoneRead) { read.Complete = true },
		"never complete":  func(read *dns.ZoneRead) { read.Complete = false },
		"one value of each set": func(read *dns.ZoneRead) {
			for i := range read.Sets {
				read.Sets[i].Values = read.Sets[i].Values[:1]
			}
		},
		"targets with the final dot": func(read *dns.ZoneRead) {
			for i := range read.Sets {
				if read.Sets[i].Type == dns.CNAME {
					read.Sets[i].Values[0] += "."
				}
			}
		},
		"the domain is reported as its zone": func(read *dns.ZoneRead) { read.Zone = read.Domain },
		"no delegation":                      func(read *dns.ZoneRead) { read.Delegation = nil },
		"a server disagrees":                 func(read *dns.ZoneRead) { read.Servers = slices.Clone(read.Servers); read.Servers[0].Agrees = false },
		"no SPF tree":                        func(read *dns.ZoneRead) { read.Referenced.SPF = nil },
		"no DMARC records of parent names":   func(read *dns.ZoneRead) { read.Referenced.ParentDMARC = nil },
		"no problems of MX hosts":            func(read *dns.ZoneRead) { read.Referenced.Exchanges = nil },
		"no keys of DKIM targets":            func(read *dns.ZoneRead) { read.Referenced.Keys = nil },
		"every error is dropped":             nil,
		"lookups that were not requested":    func(read *dns.ZoneRead) { read.Referenced.ParentDMARC = map[string][]string{"_dmarc.test": nil} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, check := range dnsReaderChecks {
				env := newFakeEnv()
				env.reader = brokenReader{env.fake.DNS, change}
				if checkFails(t, func(t T) { check.run(t, env) }) {
					return
				}
			}
			t.Fatal("the suite does not detect the broken promise")
		})
	}
}

// providerEnv is a DNSProviderEnv with the fake DNS provider. A test can replace provider by a type
// that breaks a promise.
type providerEnv struct {
	fake              *fake.DNSProvider
	provider, refused ports.DNSProvider
	serial            atomic.Int64
}

func newProviderEnv() *providerEnv {
	f := &fake.DNSProvider{}
	return &providerEnv{fake: f, provider: f, refused: fake.RefusingDNSProvider{}}
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
	must(t, "list the records of a zone", err)
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
	apply   applyFunc
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

// overwriteSets stores the wanted record sets, whatever the current ones are, and returns them.
func overwriteSets(f *fake.DNSProvider, z dns.Zone, changes []dns.Change) []dns.RRSet {
	var after []dns.RRSet
	for _, c := range changes {
		f.Put(z.ID, c.After)
		after = append(after, c.After)
	}
	return after
}

// applyFunc replaces Apply of a fake DNS provider, which is the first parameter.
type applyFunc = func(*fake.DNSProvider, context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error)

// withEditedChanges returns an Apply that edits each change before it passes the change to the
// fake.
func withEditedChanges(edit func(dns.Change) dns.Change) applyFunc {
	return func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
		changes = slices.Clone(changes)
		for i := range changes {
			changes[i] = edit(changes[i])
		}
		return f.Apply(ctx, z, changes)
	}
}

func TestDNSProviderSuiteDetectsBrokenPromises(t *testing.T) {
	for name, broken := range map[string]brokenProvider{
		"counts no zones":                {check: func(int) (int, error) { return 0, nil }},
		"counts zones that do not exist": {check: func(int) (int, error) { return 7, nil }},
		"reports any name as a zone": {zone: func(name string, _ dns.Zone, _ error) (dns.Zone, error) {
			return dns.Zone{ID: name, Name: name, NameServers: []string{"a"}}, nil
		}},
		"a zone without servers": {zone: func(_ string, z dns.Zone, err error) (dns.Zone, error) {
			z.NameServers = nil
			return z, err
		}},
		"reports a missing zone as broken": {zone: func(_ string, z dns.Zone, err error) (dns.Zone, error) {
			if err != nil {
				err = &outcome.Error{Kind: outcome.Broken}
			}
			return z, err
		}},
		"reads one value of each set": {records: func(sets []dns.RRSet) []dns.RRSet {
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
		"overwrites changed record sets": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			if err := dns.CheckChanges(z.Name, changes); err != nil || ctx.Err() != nil {
				return nil, err
			}
			return overwriteSets(f, z, changes), nil
		}},
		"writes one change after the other": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			var written []dns.RRSet
			for _, c := range changes {
				sets, err := f.Apply(ctx, z, []dns.Change{c})
				if err != nil {
					return nil, err
				}
				written = append(written, sets...)
			}
			return written, nil
		}},
		"writes the planned TTL over a changed one": {apply: withEditedChanges(func(c dns.Change) dns.Change {
			c.Before.TTL = -1
			return c
		})},
		"appends instead of replacing": {apply: withEditedChanges(func(c dns.Change) dns.Change {
			for _, v := range c.Before.Values {
				if !slices.Contains(c.After.Values, v) && len(c.After.Values) > 0 {
					c.After.Values = append(slices.Clone(c.After.Values), v)
				}
			}
			return c
		})},
		"never removes": {apply: withEditedChanges(func(c dns.Change) dns.Change {
			if len(c.After.Values) == 0 {
				return dns.Change{Before: c.Before, After: c.Before}
			}
			return c
		})},
		"refuses changes that are already made": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			current, _ := f.Records(ctx, z)
			for _, c := range changes {
				if !dns.Find(current, c.Before.Name, c.Before.Type).Same(c.Before) {
					return nil, dns.ChangedError()
				}
			}
			return f.Apply(ctx, z, changes)
		}},
		"reports a changed zone as broken": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			sets, err := f.Apply(ctx, z, changes)
			if dns.IsChanged(err) {
				err = &outcome.Error{Kind: outcome.Broken}
			}
			return sets, err
		}},
		"reports an unknown outcome as down": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			sets, err := f.Apply(ctx, z, changes)
			if outcome.KindOf(err) == outcome.Unknown {
				err = &outcome.Error{Kind: outcome.Down}
			}
			return sets, err
		}},
		"returns the requested sets, not the stored ones": {apply: func(f *fake.DNSProvider, ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
			_, err := f.Apply(ctx, z, changes)
			var requested []dns.RRSet
			for _, c := range changes {
				requested = append(requested, c.After)
			}
			return requested, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			requireDetected(t, DNSProviderChecks(), func() DNSProviderEnv {
				env := newProviderEnv()
				broken.DNSProvider = env.fake
				env.provider = broken
				return env
			})
		})
	}
	t.Run("any credential is accepted", func(t *testing.T) {
		requireDetected(t, DNSProviderChecks(), func() DNSProviderEnv {
			env := newProviderEnv()
			env.refused = env.fake
			return env
		})
	})
}
