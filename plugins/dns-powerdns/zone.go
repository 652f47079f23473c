// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// The JSON documents of the API, with the members that the plugin uses.
type (
	zoneDoc struct {
		ID     string     `json:"id"`
		Name   string     `json:"name"`
		Kind   string     `json:"kind"`
		RRSets []rrsetDoc `json:"rrsets"`
		// SOAEditAPI determines how the server changes the serial after a change by the API. It is
		// nil if the answer does not contain it.
		SOAEditAPI *string `json:"soa_edit_api"`
	}
	rrsetDoc struct {
		Name       string      `json:"name"`
		Type       string      `json:"type"`
		TTL        int         `json:"ttl"`
		ChangeType string      `json:"changetype,omitempty"`
		Records    []recordDoc `json:"records"`
	}
	recordDoc struct {
		Content  string `json:"content"`
		Disabled bool   `json:"disabled"`
	}
)

// Check implements sdk.DNSProvider. It lists the zones and counts them.
func (p *provider) Check(ctx context.Context) (int, error) {
	zones := 0
	err := p.get(sdk.WithMaxAnswer(ctx, maxZoneList), "/zones?dnssec=false", func(body io.Reader) (err error) {
		zones, err = countZones(body)
		return err
	})
	if sdk.IsNoZone(err) {
		err = sdk.NotServed("api_url", "there is no PowerDNS API with this server id")
	}
	return zones, err
}

// countZones returns the length of a JSON array. It keeps only one element in memory at a time.
func countZones(body io.Reader) (count int, err error) {
	list := json.NewDecoder(body)
	if start, err := list.Token(); err != nil || start != json.Delim('[') {
		return 0, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	for ; list.More(); count++ {
		if err := list.Decode(&zoneDoc{}); err != nil {
			return 0, err
		}
	}
	_, err = list.Token()
	return count, err
}

// Zone implements sdk.DNSProvider. It sets Idle for a zone whose primary is a different server,
// because the next transfer from the primary would overwrite a change.
func (p *provider) Zone(ctx context.Context, name string) (sdk.Zone, error) {
	apex := sdk.PlainName(name) + "."
	filter := url.Values{"rrset_name": {apex}, "rrset_type": {"NS"}}
	z, err := p.readZone(ctx, apex, zonePath(apex)+"?"+filter.Encode())
	if err != nil {
		return sdk.Zone{}, err
	}
	sets, err := z.recordSets()
	if err != nil {
		return sdk.Zone{}, err
	}
	zone := sdk.Zone{ID: z.ID, Name: sdk.PlainName(z.Name), NameServers: sdk.FindSet(sets, name, sdk.NS).Values}
	switch {
	case zone.ID == "":
		return sdk.Zone{}, sdk.BrokenAnswer("different_zone")
	case strings.EqualFold(z.Kind, "Slave") || strings.EqualFold(z.Kind, "Secondary") || strings.EqualFold(z.Kind, "Consumer"):
		zone.Idle = "secondary"
	}
	return zone, nil
}

// Records implements sdk.DNSProvider.
func (p *provider) Records(ctx context.Context, zone sdk.Zone) ([]sdk.RRSet, error) {
	z, err := p.readZone(ctx, zone.Name, zonePath(zone.ID))
	if err != nil {
		return nil, err
	}
	return z.recordSets()
}

// readZone reads the zone with this apex. It fails if the answer contains a different zone.
// Without this check, all record sets of the wanted zone would seem to be missing.
func (p *provider) readZone(ctx context.Context, apex, path string) (z zoneDoc, err error) {
	err = p.get(sdk.WithMaxAnswer(ctx, maxZone), path, func(body io.Reader) error {
		return json.NewDecoder(body).Decode(&z)
	})
	if err == nil && sdk.PlainName(z.Name) != sdk.PlainName(apex) {
		err = sdk.BrokenAnswer("different_zone")
	}
	return z, err
}

// zonePath returns the path of a zone. The id may contain escapes of PowerDNS, such as =2F, which
// zonePath does not change.
func zonePath(id string) string { return "/zones/" + url.PathEscape(id) }

// recordSets returns the record sets that the server serves. It omits disabled records, and sets
// with a name outside the zone or without a valid type. The database of a server can contain such
// sets, but the server does not serve them.
func (z zoneDoc) recordSets() ([]sdk.RRSet, error) {
	var sets []sdk.RRSet
	for _, r := range z.RRSets {
		set := sdk.RRSet{Name: sdk.PlainName(r.Name), Type: sdk.RecordType(r.Type), TTL: r.TTL}
		if !set.InZone(z.Name) {
			continue
		}
		for _, record := range r.Records {
			if record.Disabled {
				continue
			}
			value, err := sdk.ReadContent(set.Type, record.Content)
			if err != nil {
				return nil, sdk.BrokenAnswer("content_of_" + r.Type)
			}
			set.Values = append(set.Values, value)
		}
		if len(set.Values) > 0 {
			sets = append(sets, set)
		}
	}
	return sets, nil
}
