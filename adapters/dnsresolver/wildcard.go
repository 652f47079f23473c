// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"slices"
	"sync"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
)

// wildcardScope is a group of names that one wildcard record, *.parent, may answer for.
type wildcardScope struct {
	parent string
	names  []string
}

// detectWildcards marks the answers that a wildcard record may have synthesised. It asks for a
// random name beside the domain's names and compares. When one of the names does not exist, there
// is no wildcard.
func (sr *serverReader) detectWildcards(ctx context.Context) {
	keys := "_domainkey." + sr.read.name
	all := []wildcardScope{
		{sr.read.name, []string{"_dmarc." + sr.read.name, "autodiscover." + sr.read.name}},
		{keys, []string{"selector1." + keys, "selector2." + keys}},
	}
	if sr.read.name != sr.read.apex {
		all = append(all, wildcardScope{parent(sr.read.name), []string{sr.read.name}})
	}
	var wg sync.WaitGroup
	for _, s := range all {
		if kinds := sr.typesToProbe(s.names); len(kinds) > 0 && !slices.ContainsFunc(s.names, sr.isAbsent) {
			wg.Go(func() { sr.markSynthesised(s, sr.probeWildcard(ctx, s.parent, kinds)) })
		}
	}
	wg.Wait()
}

// typesToProbe returns the types to ask for at the random name, or nil when the names have no
// records. TXT comes first, because its answer usually shows NXDOMAIN or a CNAME and ends the
// probe.
func (sr *serverReader) typesToProbe(names []string) []dns.Type {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	kinds := []dns.Type{dns.TXT}
	anySet := false
	for k := range sr.report.sets {
		if !slices.Contains(names, k.name) || k.kind == dns.NS || k.kind == dns.SOA {
			continue
		}
		anySet = true
		if k.kind != dns.CNAME && !slices.Contains(kinds, k.kind) {
			kinds = append(kinds, k.kind)
		}
	}
	if !anySet {
		return nil
	}
	return kinds
}

// probeWildcard returns the values of a random name below parentName, by type. It returns nil when
// the server does not answer.
func (sr *serverReader) probeWildcard(ctx context.Context, parentName string, kinds []dns.Type) map[dns.Type][]string {
	shown := map[dns.Type][]string{}
	for _, kind := range kinds {
		q := question{sr.read.probeLabel + "." + parentName, wire.StringToType[string(kind)]}
		m, err := sr.read.reader.client.exchange(ctx, sr.to, q, sr.read.reader.serverMode())
		if err != nil || !sr.read.reader.believes(m) {
			return nil
		}
		v, err := parseAnswer(m, q)
		if err != nil {
			return nil
		}
		shown[kind] = v.values
		if v.alias != "" {
			return map[dns.Type][]string{dns.CNAME: {v.alias}}
		}
		if m.Rcode == wire.RcodeNameError {
			return shown
		}
	}
	return shown
}

// markSynthesised marks the sets of names whose values equal those of the wildcard.
func (sr *serverReader) markSynthesised(s wildcardScope, shown map[dns.Type][]string) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	sr.report.wildcardUnknown = sr.report.wildcardUnknown || shown == nil
	for _, name := range s.names {
		if !sr.report.matchesWildcard(name, shown) {
			continue
		}
		for k, marked := range sr.report.sets {
			if k.name == name && k.kind != dns.NS && k.kind != dns.SOA {
				marked.synthesised = true
				sr.report.sets[k] = marked
			}
		}
	}
}

// matchesWildcard reports whether a name has exactly the values of the wildcard. A single record of
// its own would disable the wildcard at that name, for all types.
func (r report) matchesWildcard(name string, shown map[dns.Type][]string) bool {
	if alias := r.sets[key{name, dns.CNAME}].values; len(alias) > 0 || len(shown[dns.CNAME]) > 0 {
		return slices.Equal(alias, shown[dns.CNAME])
	}
	same, some := true, false
	for k, held := range r.sets {
		if k.name == name && k.kind != dns.NS && k.kind != dns.SOA {
			some = true
			same = same && slices.Equal(held.values, shown[k.kind])
		}
	}
	texts := r.sets[key{name, dns.TXT}].values
	return same && some && slices.Equal(texts, shown[dns.TXT])
}
