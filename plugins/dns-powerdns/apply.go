// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// defaultTTL is for a new set that says none.
const defaultTTL = 3600

// Apply implements sdk.DNSProvider. A PATCH is atomic but asks for no earlier
// state, so the zone is read right before it, with one writer for each zone.
func (p *provider) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if err := dns.CheckChanges(zone.Name, changes); err != nil {
		return nil, err
	}
	release, err := p.locks.Hold(ctx, p.base+" "+zone.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	z, err := p.read(ctx, path(zone.ID))
	if err != nil {
		return nil, err
	}
	sets, err := z.sets()
	if err != nil {
		return nil, err
	}
	open, err := dns.Outstanding(sets, changes)
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		if err := p.call(ctx, http.MethodPatch, path(zone.ID), map[string]any{"rrsets": z.patch(open)}, nil); err != nil {
			return nil, err
		}
		if sets, err = p.readBack(ctx, zone, open); err != nil {
			return nil, err
		}
	}
	return wanted(sets, changes), nil
}

// patch words changes for the API. What stays in a set keeps its spelling, and
// what its owner disabled stays disabled.
func (z zoneDoc) patch(changes []dns.Change) []rrsetDoc {
	var all []rrsetDoc
	for _, c := range changes {
		set := rrsetDoc{Name: c.After.Name + ".", Type: string(c.After.Type), TTL: c.After.TTL, ChangeType: "REPLACE", Records: []recordDoc{}}
		if set.TTL <= 0 {
			set.TTL = defaultTTL
		}
		spelling := map[string][]string{} // a text may be there twice, cut otherwise
		for _, record := range z.find(c.After).Records {
			if record.Disabled {
				set.Records = append(set.Records, record)
			} else if value, err := sdk.ReadContent(c.After.Type, record.Content); err == nil {
				spelling[value] = append(spelling[value], record.Content)
			}
		}
		for _, value := range c.After.Values {
			content := sdk.WriteContent(c.After.Type, value)
			if had := spelling[value]; len(had) > 0 {
				content, spelling[value] = had[0], had[1:]
			}
			set.Records = append(set.Records, recordDoc{Content: content})
		}
		if len(set.Records) == 0 {
			set.ChangeType = "DELETE"
		}
		all = append(all, set)
	}
	return all
}

func (z zoneDoc) find(s dns.RRSet) rrsetDoc {
	for _, r := range z.RRSets {
		if r.Type == string(s.Type) && strings.EqualFold(sdk.PlainName(r.Name), sdk.PlainName(s.Name)) {
			return r
		}
	}
	return rrsetDoc{}
}

// readBack looks whether the write is there. The write was done, so trouble
// here settles nothing.
func (p *provider) readBack(ctx context.Context, zone dns.Zone, done []dns.Change) ([]dns.RRSet, error) {
	sets, err := p.Records(ctx, zone)
	if err != nil {
		if outcome.Settled(err) {
			err = sdk.UnknownEffect("not_read_back")
		}
		return nil, err
	}
	for _, c := range done {
		if !dns.Find(sets, c.After.Name, c.After.Type).Same(c.After) {
			return nil, sdk.BrokenBy("written_but_not_there")
		}
	}
	return sets, nil
}

// wanted are the sets that changes are about.
func wanted(sets []dns.RRSet, changes []dns.Change) []dns.RRSet {
	var out []dns.RRSet
	for _, c := range changes {
		out = append(out, dns.Find(sets, c.After.Name, c.After.Type))
	}
	return out
}
