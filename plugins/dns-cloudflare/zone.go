// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"golang.org/x/net/idna"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	perPage  = 1000
	maxPages = 20
	// maxPageOctets is enough for perPage records with texts of 2,048 octets and few escapes.
	maxPageOctets = 4 << 20
	// automatic is the API's TTL value for an automatic TTL. Cloudflare serves a record with this
	// value with a TTL of automaticTTL seconds.
	automatic, automaticTTL = 1, 300
)

// The JSON documents of the API, with the members that the plugin uses.
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

// Check implements sdk.DNSProvider. An active token may have too few permissions, so Check also
// reads a page of zones and, if there is a zone, a page of its records.
func (p *provider) Check(ctx context.Context) (int, error) {
	verify := "/user/tokens/verify"
	if p.account != "" {
		verify = "/accounts/" + p.account + "/tokens/verify"
	}
	var token struct {
		Status string `json:"status"`
	}
	if _, err := p.call(ctx, http.MethodGet, verify, nil, &token); err != nil {
		return 0, err
	}
	if token.Status != "active" {
		return 0, sdk.CredentialRefused("cloudflare token_not_active")
	}
	var zones []zoneDoc
	total, err := p.call(ctx, http.MethodGet, "/zones?per_page=5", nil, &zones)
	if err != nil || len(zones) == 0 {
		return 0, err
	}
	var records []recordDoc
	_, err = p.call(ctx, http.MethodGet, "/zones/"+zones[0].ID+"/dns_records?per_page=1", nil, &records)
	return max(total, len(zones)), err
}

// Zone implements sdk.DNSProvider. While a domain moves from one account to another, a token may
// have access to a zone in each of the two accounts. Zone then prefers the active zone. Cloudflare
// returns the name of a zone in Unicode, but finds the zone by its A-labels too.
func (p *provider) Zone(ctx context.Context, name string) (sdk.Zone, error) {
	var found []zoneDoc
	if _, err := p.call(ctx, http.MethodGet, "/zones?name="+url.QueryEscape(sdk.PlainName(name)), nil, &found); err != nil {
		return sdk.Zone{}, err
	}
	best, err := sdk.Zone{}, sdk.NoZone()
	for _, z := range found {
		if asciiName(z.Name) != asciiName(name) {
			continue
		}
		if zone := z.toZone(); err != nil || zone.Idle == "" {
			best, err = zone, nil
		}
	}
	return best, err
}

func (z zoneDoc) toZone() sdk.Zone {
	zone := sdk.Zone{ID: z.ID, Name: asciiName(z.Name)}
	for _, server := range z.NameServers {
		zone.NameServers = append(zone.NameServers, sdk.PlainName(server))
	}
	switch {
	case z.Status != "active":
		zone.Idle = z.Status
	case z.Type != "full" && z.Type != "":
		zone.Idle = z.Type
	}
	return zone
}

// Records implements sdk.DNSProvider. Cloudflare does not list the zone's own SOA and NS records.
func (p *provider) Records(ctx context.Context, zone sdk.Zone) ([]sdk.RRSet, error) {
	records, err := p.listRecords(ctx, zone)
	if err != nil {
		return nil, err
	}
	return recordSets(records)
}

func (p *provider) listRecords(ctx context.Context, zone sdk.Zone) ([]recordDoc, error) {
	ctx = sdk.WithMaxAnswer(ctx, maxPageOctets)
	var records []recordDoc
	for page := 1; page <= maxPages; page++ {
		var pageRecords []recordDoc
		path := fmt.Sprintf("/zones/%s/dns_records?per_page=%d&page=%d", url.PathEscape(zone.ID), perPage, page)
		total, err := p.call(ctx, http.MethodGet, path, nil, &pageRecords)
		if err != nil {
			return nil, err
		}
		// If the answer contains no total, an empty page marks the end.
		if records = append(records, pageRecords...); len(pageRecords) == 0 || total > 0 && len(records) >= total {
			return records, nil
		}
	}
	return nil, sdk.AnswerTooLarge()
}

// recordSets groups records by name and type. It fails if a content cannot be parsed.
func recordSets(records []recordDoc) ([]sdk.RRSet, error) {
	var sets []sdk.RRSet
	index := map[string]int{}
	for _, r := range records {
		value, err := r.value()
		if err != nil {
			return nil, sdk.BrokenAnswer("content_of_" + r.Type)
		}
		key := r.key()
		i, ok := index[key]
		if !ok {
			i = len(sets)
			index[key] = i
			sets = append(sets, sdk.RRSet{Name: asciiName(r.Name), Type: sdk.RecordType(r.Type), TTL: r.ttlSeconds()})
		}
		sets[i].Veiled = sets[i].Veiled || r.isVeiled()
		sets[i].Values = append(sets[i].Values, value)
	}
	return sets, nil
}

// key returns the name and type, which identify the record set.
func (r recordDoc) key() string { return asciiName(r.Name) + " " + r.Type }

// toASCII maps and converts names as browsers do. It allows all characters in ASCII labels, such as
// the underscore.
var toASCII = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false))

// asciiName returns a name in the form of sdk.RRSet, with A-labels in place of Unicode.
func asciiName(name string) string {
	if ascii, err := toASCII.ToASCII(name); err == nil {
		name = ascii
	}
	return sdk.PlainName(name)
}

// isVeiled reports whether Cloudflare answers with other records because of the record's settings.
func (r recordDoc) isVeiled() bool {
	return r.Proxied != nil && *r.Proxied || r.Type == "CNAME" && r.Settings != nil && r.Settings.FlattenCNAME
}

// unveiled returns the record with proxying and flattening disabled.
func (r recordDoc) unveiled() recordDoc {
	proxied := false
	r.Proxied, r.Settings = &proxied, &settingsDoc{}
	return r
}

// ttlSeconds returns the effective TTL.
func (r recordDoc) ttlSeconds() int {
	if r.TTL == automatic {
		return automaticTTL
	}
	return r.TTL
}

// value returns the content in the format of sdk.RRSet. The API has the preference of an MX record
// and the priority of an SRV record in a separate member.
func (r recordDoc) value() (string, error) {
	content := r.Content
	if r.Priority != nil && (r.Type == "MX" || r.Type == "SRV") {
		content = fmt.Sprint(*r.Priority, " ", content)
	}
	return sdk.ReadContent(sdk.RecordType(r.Type), content)
}
