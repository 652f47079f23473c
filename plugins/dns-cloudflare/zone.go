// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	// perPage keeps a page well below the 1 MiB that is read of an answer.
	perPage  = 1000
	maxPages = 20
	// automatic is the TTL that stands for Cloudflare's own choice, which is
	// automaticTTL seconds.
	automatic, automaticTTL = 1, 300
)

// The API's documents, as far as we use them.
type (
	zoneDoc struct {
		ID          string   `json:"id"`
		Name        string   `json:"name"`
		Status      string   `json:"status"`
		Type        string   `json:"type"`
		NameServers []string `json:"name_servers"`
	}
	recordDoc struct {
		ID       string       `json:"id,omitempty"`
		Type     string       `json:"type,omitempty"`
		Name     string       `json:"name,omitempty"`
		Content  string       `json:"content,omitempty"`
		TTL      int          `json:"ttl,omitempty"`
		Priority *int         `json:"priority,omitempty"`
		Proxied  *bool        `json:"proxied,omitempty"`
		Comment  string       `json:"comment,omitempty"`
		Settings *settingsDoc `json:"settings,omitempty"`
	}
	settingsDoc struct {
		FlattenCNAME bool `json:"flatten_cname"`
	}
)

// Zone implements sdk.DNSProvider. While a domain moves between accounts, a
// token may reach it in both: the one that the world sees is the zone.
func (p *provider) Zone(ctx context.Context, name string) (dns.Zone, error) {
	var found []zoneDoc
	if _, err := p.call(ctx, http.MethodGet, "/zones?name="+url.QueryEscape(sdk.PlainName(name)), nil, &found); err != nil {
		return dns.Zone{}, err
	}
	best, err := dns.Zone{}, dns.NoZone()
	for _, z := range found {
		if sdk.PlainName(z.Name) != sdk.PlainName(name) {
			continue
		}
		if zone := z.zone(); err != nil || zone.Idle == "" {
			best, err = zone, nil
		}
	}
	return best, err
}

func (z zoneDoc) zone() dns.Zone {
	zone := dns.Zone{ID: z.ID, Name: sdk.PlainName(z.Name)}
	for _, server := range z.NameServers {
		zone.NameServers = append(zone.NameServers, sdk.PlainName(server))
	}
	switch {
	case z.Status != "active":
		zone.Idle = z.Status // its name servers are not, or no longer, used
	case z.Type != "full" && z.Type != "":
		zone.Idle = z.Type
	}
	return zone
}

// Records implements sdk.DNSProvider. Cloudflare lists neither SOA nor the
// zone's own NS.
func (p *provider) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	all, err := p.list(ctx, zone)
	if err != nil {
		return nil, err
	}
	return sets(all)
}

func (p *provider) list(ctx context.Context, zone dns.Zone) ([]recordDoc, error) {
	var all []recordDoc
	for page := 1; page <= maxPages; page++ {
		var some []recordDoc
		path := fmt.Sprintf("/zones/%s/dns_records?per_page=%d&page=%d", url.PathEscape(zone.ID), perPage, page)
		total, err := p.call(ctx, http.MethodGet, path, nil, &some)
		if err != nil {
			return nil, err
		}
		// Without a total only an empty page is the end.
		if all = append(all, some...); len(some) == 0 || total > 0 && len(all) >= total {
			return all, nil
		}
	}
	return nil, sdk.AnswerTooLarge()
}

func sets(all []recordDoc) ([]dns.RRSet, error) {
	var out []dns.RRSet
	at := map[string]int{}
	for _, r := range all {
		value, err := r.value()
		if err != nil {
			return nil, sdk.BrokenBy("content_of_" + r.Type)
		}
		key := r.place()
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, dns.RRSet{Name: sdk.PlainName(r.Name), Type: dns.Type(r.Type), TTL: r.seconds()})
		}
		out[i].Values = append(out[i].Values, value)
	}
	return out, nil
}

func (r recordDoc) place() string { return sdk.PlainName(r.Name) + " " + r.Type }

func (r recordDoc) seconds() int {
	if r.TTL == automatic {
		return automaticTTL
	}
	return r.TTL
}

// value is the content as dns.RRSet has it; the preference is a field apart.
func (r recordDoc) value() (string, error) {
	content := r.Content
	if r.Priority != nil && (r.Type == "MX" || r.Type == "SRV") {
		content = fmt.Sprint(*r.Priority, " ", content)
	}
	return sdk.ReadContent(dns.Type(r.Type), content)
}
