// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"sync"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
)

// Caps on what a zone may make us ask of others.
const (
	maxDepth      = 10 // of an SPF tree
	maxReferences = 50 // names in an SPF tree
	maxExchanges  = 10
)

// beyond looks at the names that wanted records depend on. It reports whether
// all was found out without which nothing can be decided.
func (rd *reading) beyond(ctx context.Context, n dns.Needs) (dns.Beyond, bool) {
	var b dns.Beyond
	var walked, looked bool
	var wg sync.WaitGroup
	wg.Go(func() { b.SPF = rd.tree(ctx, n.SPF) })
	wg.Go(func() { b.Above, walked = rd.texts(ctx, n.Above) })
	wg.Go(func() { b.Keys, looked = rd.texts(ctx, n.Keys) })
	wg.Go(func() { b.Exchanges = rd.exchanges(ctx, n.Exchanges) })
	wg.Wait()
	return b, walked && looked
}

// tree asks for the texts of an SPF tree, level by level. What does not answer
// is not in it.
func (rd *reading) tree(ctx context.Context, open []string) map[string][]string {
	var tree map[string][]string
	asked := map[string]bool{}
	for depth := 0; depth < maxDepth && len(open) > 0; depth++ {
		var level []string
		for _, name := range open {
			if !asked[name] && len(asked) < maxReferences {
				asked[name] = true
				level = append(level, name)
			}
		}
		found, _ := rd.texts(ctx, level)
		open = nil
		for _, name := range level {
			texts, known := found[name]
			if !known {
				continue
			}
			if tree == nil {
				tree = map[string][]string{}
			}
			tree[name] = texts
			for _, text := range texts {
				open = append(open, dns.SPFReferences(text)...)
			}
		}
	}
	return tree
}

// texts asks for the texts at names, all at once, and reports whether every
// name has an answer.
func (rd *reading) texts(ctx context.Context, names []string) (map[string][]string, bool) {
	if len(names) == 0 {
		return nil, true
	}
	found := make([]view, len(names))
	failed := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { found[i], failed[i] = rd.book.ask(ctx, question{name, wire.TypeTXT}) })
	}
	wg.Wait()
	out, all := map[string][]string{}, true
	for i, name := range names {
		if all = all && failed[i] == nil; failed[i] == nil {
			out[name] = found[i].values
		}
	}
	return out, all
}

// exchanges finds the hosts of an MX that cannot take mail.
func (rd *reading) exchanges(ctx context.Context, hosts []string) map[string]dns.Exchange {
	hosts = hosts[:min(len(hosts), maxExchanges)]
	states := make([]dns.Exchange, len(hosts))
	var wg sync.WaitGroup
	for i, host := range hosts {
		wg.Go(func() { states[i] = rd.exchange(ctx, host) })
	}
	wg.Wait()
	var out map[string]dns.Exchange
	for i, host := range hosts {
		if states[i] == "" {
			continue
		}
		if out == nil {
			out = map[string]dns.Exchange{}
		}
		out[host] = states[i]
	}
	return out
}

// exchange says nothing of a host that is fine or does not answer.
func (rd *reading) exchange(ctx context.Context, host string) dns.Exchange {
	for _, qtype := range []uint16{wire.TypeA, wire.TypeAAAA} {
		v, err := rd.book.ask(ctx, question{host, qtype})
		switch {
		case err == nil && v.alias != "":
			return dns.ExchangeAlias
		case err != nil || len(v.values) > 0:
			return ""
		}
	}
	return dns.ExchangeNowhere
}
