// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// The API's documents, as far as we use them.
type (
	zoneDoc struct {
		ID     string     `json:"id"`
		Name   string     `json:"name"`
		Kind   string     `json:"kind"`
		RRSets []rrsetDoc `json:"rrsets"`
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

// Check implements sdk.DNSProvider.
func (p *provider) Check(ctx context.Context) (int, error) {
	zones := 0
	err := p.call(sdk.WithMaxAnswer(ctx, maxList), http.MethodGet, "/zones?dnssec=false", nil, func(body io.Reader) (err error) {
		zones, err = count(body)
		return err
	})
	if dns.IsNoZone(err) {
		err = sdk.NotServed("api_url", "there is no PowerDNS API with this server id")
	}
	return zones, err
}

// count counts the members of a JSON array and holds one at a time.
func count(body io.Reader) (n int, err error) {
	list := json.NewDecoder(body)
	if start, err := list.Token(); err != nil || start != json.Delim('[') {
		return 0, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	for ; list.More(); n++ {
		if err := list.Decode(&zoneDoc{}); err != nil {
			return 0, err
		}
	}
	_, err = list.Token()
	return n, err
}

// Zone implements sdk.DNSProvider.
func (p *provider) Zone(ctx context.Context, name string) (dns.Zone, error) {
	apex := sdk.PlainName(name) + "."
	filter := url.Values{"rrset_name": {apex}, "rrset_type": {"NS"}}
	z, err := p.read(ctx, path(apex)+"?"+filter.Encode())
	if err != nil {
		return dns.Zone{}, err
	}
	sets, err := z.sets()
	if err != nil {
		return dns.Zone{}, err
	}
	zone := dns.Zone{ID: z.ID, Name: sdk.PlainName(z.Name), NameServers: dns.Find(sets, name, dns.NS).Values}
	switch {
	case zone.ID == "" || zone.Name != sdk.PlainName(name):
		return dns.Zone{}, sdk.BrokenBy("another_zone")
	case strings.EqualFold(z.Kind, "Slave") || strings.EqualFold(z.Kind, "Secondary") || strings.EqualFold(z.Kind, "Consumer"):
		zone.Idle = "secondary" // what is written here the primary takes back
	}
	return zone, nil
}

// Records implements sdk.DNSProvider.
func (p *provider) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	z, err := p.read(ctx, path(zone.ID))
	if err != nil {
		return nil, err
	}
	return z.sets()
}

func (p *provider) read(ctx context.Context, path string) (z zoneDoc, err error) {
	err = p.call(sdk.WithMaxAnswer(ctx, maxZone), http.MethodGet, path, nil, func(body io.Reader) error {
		return json.NewDecoder(body).Decode(&z)
	})
	return z, err
}

// path is that of a zone. Zone ids are opaque; what they hold besides names is
// escaped by the server itself.
func path(id string) string { return "/zones/" + url.PathEscape(id) }

// sets are what the zone serves: a disabled record is not there.
func (z zoneDoc) sets() ([]dns.RRSet, error) {
	var sets []dns.RRSet
	for _, r := range z.RRSets {
		s := dns.RRSet{Name: sdk.PlainName(r.Name), Type: dns.Type(r.Type), TTL: r.TTL}
		for _, record := range r.Records {
			if record.Disabled {
				continue
			}
			value, err := sdk.ReadContent(s.Type, record.Content)
			if err != nil {
				return nil, sdk.BrokenBy("content_of_" + r.Type)
			}
			s.Values = append(s.Values, value)
		}
		if len(s.Values) > 0 {
			sets = append(sets, s)
		}
	}
	return sets, nil
}
