// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/core/dns"
)

// wellKnown is a zone that is always there: the SPF record of every customer
// leads to it, in the sandbox too.
const wellKnown = "outlook.com"

// dns asks each resolver, then the authoritative servers of a zone, as reads of
// customers' domains do.
func (e *examination) dns(ctx context.Context) finding {
	c := e.config
	if wrong := cmp.Or(e.wrong["dns_resolvers"], e.wrong["dns_mode"], e.wrong["dns_port"]); wrong != "" {
		return broken("correct dns_resolvers (addresses with ports), dns_mode and dns_port", "%s", wrong)
	}
	reader := dnsresolver.New(dnsresolver.Options{
		Resolvers: c.DNSResolvers, Recursive: c.DNSMode == "recursive", Port: c.DNSPort, AllowPrivate: c.DNSAllowPrivate, Log: slog.New(slog.DiscardHandler),
	})
	var resolvers []dnsresolver.Resolver
	var wait sync.WaitGroup
	wait.Go(func() { resolvers = reader.Resolvers(ctx, wellKnown) })
	sight, err := reader.Read(ctx, wellKnown)
	wait.Wait()
	var silent []string
	for _, r := range resolvers {
		if r.Err != nil {
			silent = append(silent, fmt.Sprintf("%s (%s)", r.Addr, r.Err))
		}
	}
	const fix = "correct dns_resolvers, or let this machine reach them by UDP and TCP"
	switch {
	case len(silent) == len(resolvers):
		return broken(fix, "no resolver answers: %s", cmp.Or(strings.Join(silent, ", "), "none is configured"))
	case sight.Zone == "" && sight.Reason != "":
		return broken("set dns_resolvers to resolvers that know the public DNS", "the resolvers do not find the zone %s: %s", wellKnown, sight.Reason)
	case c.DNSMode == "recursive":
		return doubtful("let this machine reach name servers by UDP and TCP, and set dns_mode to authoritative", "dns_mode is recursive: no read counts as reliable, and no DNS is written")
	case err != nil || answering(sight) == 0:
		why := strings.Join(append([]string{cmp.Or(sight.Reason, "read_deadline")}, sight.Warnings...), ", ")
		return broken(fmt.Sprintf("let this machine reach UDP and TCP port %d of any address; if name servers are in a private network on purpose, set dns_allow_private", c.DNSPort),
			"no authoritative server of %s answers on port %d: %s", wellKnown, c.DNSPort, why)
	case len(silent) > 0:
		return doubtful(fix, "%d of %d resolvers do not answer: %s", len(silent), len(resolvers), strings.Join(silent, ", "))
	default:
		return fine("resolvers that answer: %d of %d; authoritative servers answer on port %d", len(resolvers), len(resolvers), c.DNSPort)
	}
}

func answering(s dns.Sight) int {
	n := 0
	for _, server := range s.Servers {
		if server.State == dns.ServerOK {
			n++
		}
	}
	return n
}
