// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"slices"
	"sync"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
)

// sheltered are names that one wildcard may stand for, and the name below which
// it would be.
type sheltered struct {
	above string
	names []string
}

// probe finds out what of the answers a wildcard makes up, by asking for a name
// that nobody has. Where one of the names does not exist there is no wildcard.
func (in *interview) probe(ctx context.Context) {
	keys := "_domainkey." + in.name
	all := []sheltered{
		{in.name, []string{"_dmarc." + in.name, "autodiscover." + in.name}},
		{keys, []string{"selector1." + keys, "selector2." + keys}},
	}
	if in.name != in.apex {
		all = append(all, sheltered{parent(in.name), []string{in.name}})
	}
	var wg sync.WaitGroup
	for _, s := range all {
		if kinds := in.found(s.names); len(kinds) > 0 && !slices.ContainsFunc(s.names, in.gone) {
			wg.Go(func() { in.compare(s, in.wildcard(ctx, s.above, kinds)) })
		}
	}
	wg.Wait()
}

// found lists the types at names for which a wildcard must be asked, if any.
// TXT comes first: mostly its answer denies the name, or shows an alias.
func (in *interview) found(names []string) []dns.Type {
	in.mu.Lock()
	defer in.mu.Unlock()
	kinds := []dns.Type{dns.TXT}
	any := false
	for k := range in.report.sets {
		if !slices.Contains(names, k.name) || k.kind == dns.NS || k.kind == dns.SOA {
			continue
		}
		any = true
		if k.kind != dns.CNAME && !slices.Contains(kinds, k.kind) {
			kinds = append(kinds, k.kind)
		}
	}
	if !any {
		return nil
	}
	return kinds
}

// wildcard is what a name that nobody has shows, by type; nil when there is no
// answer.
func (in *interview) wildcard(ctx context.Context, above string, kinds []dns.Type) map[dns.Type][]string {
	shown := map[dns.Type][]string{}
	for _, kind := range kinds {
		q := question{in.label + "." + above, wire.StringToType[string(kind)]}
		m, err := in.wire.ask(ctx, in.to, q, in.manner())
		if err != nil || !in.believes(m) {
			return nil
		}
		v, err := look(m, q)
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

// compare marks the sets of names that show what the wildcard shows.
func (in *interview) compare(s sheltered, shown map[dns.Type][]string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.report.unsure = in.report.unsure || shown == nil
	for _, name := range s.names {
		if !in.report.like(name, shown) {
			continue
		}
		for k, held := range in.report.sets {
			if k.name == name && k.kind != dns.NS && k.kind != dns.SOA {
				held.made = true
				in.report.sets[k] = held
			}
		}
	}
}

// like reports whether a name shows exactly what a wildcard does, so that
// nothing need stand at the name itself. One record of its own would end the
// wildcard there, for all types.
func (r report) like(name string, shown map[dns.Type][]string) bool {
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
