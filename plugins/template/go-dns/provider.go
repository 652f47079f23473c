// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// The JSON documents of the API.
type (
	zoneDoc struct {
		ID          string   `json:"id"`
		Name        string   `json:"name"`
		NameServers []string `json:"name_servers"`
	}
	zoneList struct {
		Zones []zoneDoc `json:"zones"`
		Total *int      `json:"total"`
	}
	// recordSets are the record sets of a zone. A write is refused with 409 if the zone no longer
	// has Version.
	recordSets struct {
		Version *uint32  `json:"version"`
		Sets    []setDoc `json:"sets"`
	}
	setDoc struct {
		Name   string   `json:"name"`
		Type   string   `json:"type"`
		TTL    int      `json:"ttl"`
		Values []string `json:"values"`
	}
)

// defaultTTL is the TTL in seconds of a new set without a TTL.
const defaultTTL = 3600

// Check implements sdk.DNSProvider.
func (p *provider) Check(ctx context.Context) (zones int, err error) {
	var list zoneList
	if err := p.call(ctx, http.MethodGet, "/zones?limit=1", nil, &list); err != nil {
		return 0, err
	}
	if list.Total == nil {
		return 0, sdk.BrokenAnswer("no_total")
	}
	return *list.Total, nil
}

// Zone implements sdk.DNSProvider. The parameter `name` selects the zone with exactly this apex.
func (p *provider) Zone(ctx context.Context, name string) (sdk.Zone, error) {
	var list zoneList
	if err := p.call(ctx, http.MethodGet, "/zones?name="+url.QueryEscape(sdk.PlainName(name)), nil, &list); err != nil {
		return sdk.Zone{}, err
	}
	if list.Zones == nil {
		return sdk.Zone{}, sdk.BrokenAnswer("no_zones")
	}
	for _, z := range list.Zones {
		if sdk.PlainName(z.Name) == sdk.PlainName(name) && z.ID != "" {
			return sdk.Zone{ID: z.ID, Name: sdk.PlainName(z.Name), NameServers: z.NameServers}, nil
		}
	}
	return sdk.Zone{}, sdk.NoZone()
}

// Records implements sdk.DNSProvider.
func (p *provider) Records(ctx context.Context, zone sdk.Zone) ([]sdk.RRSet, error) {
	current, err := p.readRecords(ctx, zone)
	return current.toSDK(), err
}

func (p *provider) readRecords(ctx context.Context, zone sdk.Zone) (current recordSets, err error) {
	if err := p.call(ctx, http.MethodGet, recordsPath(zone), nil, &current); err != nil {
		return recordSets{}, err
	}
	if current.Version == nil || current.Sets == nil {
		return recordSets{}, sdk.BrokenAnswer("no_records")
	}
	return current, nil
}

// Apply implements sdk.DNSProvider. The write is conditional on the version that was read, so that
// it never overwrites a change that someone else made in between.
func (p *provider) Apply(ctx context.Context, zone sdk.Zone, changes []sdk.Change) ([]sdk.RRSet, error) {
	if err := sdk.CheckChanges(zone.Name, changes); err != nil {
		return nil, err
	}
	current, err := p.readRecords(ctx, zone)
	if err != nil {
		return nil, err
	}
	sets := current.toSDK()
	outstanding, err := sdk.Outstanding(sets, changes)
	if err != nil {
		return nil, err
	}
	if len(outstanding) > 0 {
		if err := p.call(ctx, http.MethodPatch, recordsPath(zone), current.patch(outstanding), &struct{}{}); err != nil {
			return nil, err
		}
		if sets, err = sdk.ReadBack(ctx, p, zone, outstanding); err != nil {
			return nil, err
		}
	}
	return sdk.SetsAfter(sets, changes), nil
}

func recordsPath(zone sdk.Zone) string { return "/zones/" + url.PathEscape(zone.ID) + "/records" }

// toSDK converts the documents of the API. The TXT values of this API are texts without quotes.
// sdk.ReadContent and sdk.WriteContent convert the quoted form that most providers use.
func (r recordSets) toSDK() []sdk.RRSet {
	var sets []sdk.RRSet
	for _, s := range r.Sets {
		sets = append(sets, sdk.RRSet{Name: sdk.PlainName(s.Name), Type: sdk.RecordType(s.Type), TTL: s.TTL, Values: s.Values})
	}
	return sets
}

// patch returns the request that replaces the changed sets. A set without values is removed.
func (r recordSets) patch(changes []sdk.Change) recordSets {
	request := recordSets{Version: r.Version}
	for _, c := range changes {
		set := setDoc{Name: c.After.Name, Type: string(c.After.Type), TTL: c.After.TTL, Values: append([]string{}, c.After.Values...)}
		if set.TTL <= 0 && len(c.Before.Values) == 0 {
			set.TTL = defaultTTL
		}
		request.Sets = append(request.Sets, set)
	}
	return request
}
