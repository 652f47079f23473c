// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// The number of domains that are planned or written concurrently.
const planners, writers = 16, 8

// plan reads each domain from its name servers and plans its changes.
func plan(ctx context.Context, in input) (figures, error) {
	_, f, err := planAll(ctx, in)
	return f, err
}

// planAll is like plan, but also returns the zone that it read for each domain, in the order of
// in.Domains.
func planAll(ctx context.Context, in input) ([]dns.ZoneRead, figures, error) {
	reader := dnsresolver.New(dnsresolver.Options{Resolvers: []string{in.Resolver}, Port: in.Port, AllowPrivate: true})
	zoneReads := make([]dns.ZoneRead, len(in.Domains))
	seconds, err := forEachDomain(in.Domains, planners, func(i int, w domainOffer) (err error) {
		if zoneReads[i], err = reader.Read(ctx, "", w.Domain, dns.DesiredRecords(w.Domain, w.Offer)...); err != nil {
			return err
		}
		if p := dns.NewPlan(w.Offer, zoneReads[i], nil); !p.SafeToApply() || len(p.Changes) != 6 {
			return fmt.Errorf("the plan has %d changes, want 6; safe to apply: %v, reason: %s", len(p.Changes), p.SafeToApply(), p.Reason)
		}
		return nil
	})
	return zoneReads, figures{Seconds: seconds}, err
}

// apply plans each domain, plans it again from the provider's records, and writes the plan through
// the plugin if both plans are the same.
func apply(ctx context.Context, in input) (figures, error) {
	zoneReads, _, err := planAll(ctx, in)
	if err != nil {
		return figures{}, err
	}
	host, err := pluginhost.New(pluginhost.Options{Dir: in.Plugins, Log: slog.New(slog.DiscardHandler), Env: os.Environ()})
	if err != nil {
		return figures{}, err
	}
	defer host.Close()
	provider := host.DNS("powerdns", func(context.Context) (wire.Connection, error) {
		return wire.Connection{
			Settings: map[string]string{"api_url": in.API, "allow_private": "true"},
			Secrets:  map[string]secret.Text{"api_key": secret.New(in.Key)},
		}, nil
	})
	seconds, err := forEachDomain(in.Domains, writers, func(i int, w domainOffer) error { return write(ctx, provider, w, zoneReads[i]) })
	return figures{Seconds: seconds, PluginMB: pluginPeak()}, err
}

// write applies the plan of one domain, if the plan from the provider's records is the same.
func write(ctx context.Context, provider ports.DNSProvider, w domainOffer, zoneRead dns.ZoneRead) error {
	p := dns.NewPlan(w.Offer, zoneRead, nil)
	zone, err := provider.Zone(ctx, p.Zone)
	if err != nil {
		return err
	}
	storedSets, err := provider.Records(ctx, zone)
	if err != nil {
		return err
	}
	if dns.NewPlan(w.Offer, zoneRead.WithProviderRecords(storedSets), nil).Hash() != p.Hash() {
		return dns.ChangedError()
	}
	applied, err := provider.Apply(ctx, zone, p.Changes)
	if err == nil && len(applied) != len(p.Changes) {
		err = fmt.Errorf("the provider applied %d of %d changes", len(applied), len(p.Changes))
	}
	return err
}

// pluginPeak returns the peak memory of the plugin in megabytes. The plugin is the only child
// process.
func pluginPeak() (peak float64) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for pid := range strings.FieldsSeq(string(raw)) {
			peak = max(peak, peakMemory(pid))
		}
	}
	return peak
}
