// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"slices"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/panics"
)

// wildcardScope is a group of names for which the same wildcard record, *.parent, can give the
// answers.
type wildcardScope struct {
	parent string
	names  []string
}

// detectWildcards marks the answers that may come from a wildcard record. For each scope it asks
// for a random name below the scope's parent, and compares the answers. If the random name or a
// name of the scope does not exist, the scope's parent has no wildcard record.
func (sr *serverReader) detectWildcards(ctx context.Context) {
	dkimName := "_domainkey." + sr.read.name
	scopes := []wildcardScope{
		{sr.read.name, []string{"_dmarc." + sr.read.name, "autodiscover." + sr.read.name}},
		{dkimName, []string{"selector1." + dkimName, "selector2." + dkimName}},
	}
	if sr.read.name != sr.read.apex {
		scopes = append(scopes, wildcardScope{parent(sr.read.name), []string{sr.read.name}})
	}
	var wg panics.Group
	for _, s := range scopes {
		if kinds := sr.typesToProbe(s.names); len(kinds) > 0 && !slices.ContainsFunc(s.names, sr.isAbsent) {
			wg.Go(func() { sr.markSynthesised(s, sr.probeWildcard(ctx, s.parent, kinds)) })
		}
	}
	wg.Wait()
}

// typesToProbe returns the record types to ask for at the random name. It returns nil if the names
// have no records. TXT comes first, because its answer usually ends the probe, with NXDOMAIN or a
// CNAME.
func (sr *serverReader) typesToProbe(names []string) []dns.Type {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	kinds := []dns.Type{dns.TXT}
	hasSet := false
	for k := range sr.report.sets {
		if !slices.Contains(names, k.name) || k.kind == dns.NS || k.kind == dns.SOA {
			continue
		}
		hasSet = true
		if k.kind != dns.CNAME && !slices.Contains(kinds, k.kind) {
			kinds = append(kinds, k.kind)
		}
	}
	if !hasSet {
		return nil
	}
	return kinds
}

// probeWildcard returns the values of the random name below parentName, by type. It returns nil if
// the server gives no usable answer.
func (sr *serverReader) probeWildcard(ctx context.Context, parentName string, kinds []dns.Type) map[dns.Type][]string {
	wildcardValues := map[dns.Type][]string{}
	for _, kind := range kinds {
		q := question{sr.read.probeLabel + "." + parentName, wire.StringToType[string(kind)]}
		m, err := sr.read.reader.client.exchange(ctx, sr.addr, q, sr.read.reader.serverMode())
		if err != nil || !sr.read.reader.isAuthoritative(m) {
			return nil
		}
		parsed, err := parseAnswer(m, q)
		if err != nil {
			return nil
		}
		wildcardValues[kind] = parsed.values
		if parsed.alias != "" {
			return map[dns.Type][]string{dns.CNAME: {parsed.alias}}
		}
		if m.Rcode == wire.RcodeNameError {
			return wildcardValues
		}
	}
	return wildcardValues
}

// markSynthesised marks the record sets of the names that match the wildcard (see matchesWildcard).
// wildcardValues maps each type to the values of the wildcard.
func (sr *serverReader) markSynthesised(s wildcardScope, wildcardValues map[dns.Type][]string) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	sr.report.wildcardUnknown = sr.report.wildcardUnknown || wildcardValues == nil
	for _, name := range s.names {
		if !sr.report.matchesWildcard(name, wildcardValues) {
			continue
		}
		for k, marked := range sr.report.sets {
			if k.name == name && k.kind != dns.NS && k.kind != dns.SOA {
				marked.isSynthesised = true
				sr.report.sets[k] = marked
			}
		}
	}
}

// matchesWildcard reports whether a name has exactly the values of the wildcard. A name that has a
// record itself gets no values from a wildcard, not even of other types.
func (r report) matchesWildcard(name string, wildcardValues map[dns.Type][]string) bool {
	if alias := r.sets[setKey{name, dns.CNAME}].values; len(alias) > 0 || len(wildcardValues[dns.CNAME]) > 0 {
		return slices.Equal(alias, wildcardValues[dns.CNAME])
	}
	allEqual, anyRecord := true, false
	for k, ownSet := range r.sets {
		if k.name == name && k.kind != dns.NS && k.kind != dns.SOA {
			anyRecord = true
			allEqual = allEqual && slices.Equal(ownSet.values, wildcardValues[k.kind])
		}
	}
	texts := r.sets[setKey{name, dns.TXT}].values
	return allEqual && anyRecord && slices.Equal(texts, wildcardValues[dns.TXT])
}
