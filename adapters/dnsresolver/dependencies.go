// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/panics"
)

// Limits on the questions about other domains, because the owner of the domain determines these
// questions.
const (
	maxDepth      = 10 // levels of an SPF tree
	maxReferences = 50 // names in an SPF tree
	maxExchanges  = 10 // MX hosts
)

// readDependencies reads the records at the names in needs. It returns false if it could not read a
// name of needs.ParentDMARC or needs.Keys, because no reliable DNS plan is possible without these
// records.
func (rd *domainRead) readDependencies(ctx context.Context, needs dns.Needs) (dns.Referenced, bool) {
	var referenced dns.Referenced
	var parentOK, keysOK bool
	var wg panics.Group
	wg.Go(func() { referenced.SPF = rd.readSPFTree(ctx, needs.SPF) })
	wg.Go(func() { referenced.ParentDMARC, parentOK = rd.readTexts(ctx, needs.ParentDMARC) })
	wg.Go(func() { referenced.Keys, keysOK = rd.readTexts(ctx, needs.Keys) })
	wg.Go(func() { referenced.Exchanges = rd.checkExchanges(ctx, needs.Exchanges) })
	wg.Wait()
	return referenced, parentOK && keysOK
}

// readSPFTree reads the TXT records of an SPF tree, level by level, starting with the names in
// pending. The result omits names without an answer.
func (rd *domainRead) readSPFTree(ctx context.Context, pending []string) map[string][]string {
	var tree map[string][]string
	askedNames := map[string]bool{}
	for depth := 0; depth < maxDepth && len(pending) > 0; depth++ {
		var level []string
		for _, name := range pending {
			if !askedNames[name] && len(askedNames) < maxReferences {
				askedNames[name] = true
				level = append(level, name)
			}
		}
		textsOf, _ := rd.readTexts(ctx, level)
		pending = nil
		for _, name := range level {
			texts, hasAnswer := textsOf[name]
			if !hasAnswer {
				continue
			}
			if tree == nil {
				tree = map[string][]string{}
			}
			tree[name] = texts
			for _, text := range texts {
				pending = append(pending, dns.SPFReferences(text)...)
			}
		}
	}
	return tree
}

// readTexts reads the TXT records of all names concurrently. It returns false if it got no answer
// for a name.
func (rd *domainRead) readTexts(ctx context.Context, names []string) (map[string][]string, bool) {
	if len(names) == 0 {
		return nil, true
	}
	answers := make([]parsedAnswer, len(names))
	errs := make([]error, len(names))
	var wg panics.Group
	for i, name := range names {
		wg.Go(func() { answers[i], errs[i] = rd.answers.lookup(ctx, question{name, wire.TypeTXT}) })
	}
	wg.Wait()
	texts, complete := map[string][]string{}, true
	for i, name := range names {
		if complete = complete && errs[i] == nil; errs[i] == nil {
			texts[name] = answers[i].values
		}
	}
	return texts, complete
}

func (rd *domainRead) checkExchanges(ctx context.Context, hosts []string) map[string]dns.MXProblem {
	hosts = hosts[:min(len(hosts), maxExchanges)]
	found := make([]dns.MXProblem, len(hosts))
	var wg panics.Group
	for i, host := range hosts {
		wg.Go(func() { found[i] = rd.checkExchange(ctx, host) })
	}
	wg.Wait()
	var problems map[string]dns.MXProblem
	for i, host := range hosts {
		if found[i] == "" {
			continue
		}
		if problems == nil {
			problems = map[string]dns.MXProblem{}
		}
		problems[host] = found[i]
	}
	return problems
}

// checkExchange returns the problem of an MX host. It returns "" if the host has no problem or
// could not be checked.
func (rd *domainRead) checkExchange(ctx context.Context, host string) dns.MXProblem {
	for _, qtype := range []uint16{wire.TypeA, wire.TypeAAAA} {
		parsed, err := rd.answers.lookup(ctx, question{host, qtype})
		switch {
		case err == nil && parsed.alias != "":
			return dns.MXProblemAlias
		case err != nil || len(parsed.values) > 0:
			return ""
		}
	}
	return dns.MXProblemNoAddress
}
