// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	minTTL, maxTTL = 60, 86400
	// comment is for people only; who wrote what is in our database.
	comment = "managed by tenantry"
)

// batch is one transaction, carried out in this order.
type batch struct {
	Deletes []recordDoc `json:"deletes,omitempty"`
	Patches []recordDoc `json:"patches,omitempty"`
	Posts   []recordDoc `json:"posts,omitempty"`
}

// Apply implements sdk.DNSProvider. A batch is a transaction but asks for no
// earlier state, so the zone is read right before it, with one writer for each
// zone.
func (p *provider) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if err := dns.CheckChanges(zone.Name, changes); err != nil {
		return nil, err
	}
	release, err := p.locks.Hold(ctx, zone.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := p.list(ctx, zone)
	if err != nil {
		return nil, err
	}
	now, err := sets(all)
	if err != nil {
		return nil, err
	}
	open, err := dns.Outstanding(served(zone, now), changes)
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		if now, err = p.write(ctx, zone, all, open); err != nil {
			return nil, err
		}
	}
	var done []dns.RRSet
	for _, c := range changes {
		done = append(done, dns.Find(now, c.After.Name, c.After.Type))
	}
	return done, nil
}

// served are the sets without a CNAME at the apex, which Cloudflare always
// flattens: what it answers there are addresses, and other records may stand
// beside them.
func served(zone dns.Zone, sets []dns.RRSet) []dns.RRSet {
	return slices.DeleteFunc(slices.Clone(sets), func(s dns.RRSet) bool { return s.Type == dns.CNAME && s.Name == zone.Name })
}

// write sends the batch and reads back what it made. When Cloudflare says that
// something is there already, that may be our own earlier write: the look
// decides.
func (p *provider) write(ctx context.Context, zone dns.Zone, all []recordDoc, changes []dns.Change) ([]dns.RRSet, error) {
	b, err := transaction(all, changes)
	if err != nil {
		return nil, err
	}
	var made struct{}
	_, err = p.call(ctx, http.MethodPost, "/zones/"+url.PathEscape(zone.ID)+"/dns_records/batch", b, &made)
	refused := errors.Is(err, errTaken)
	if err != nil && !refused {
		return nil, err
	}
	now, err := p.Records(ctx, zone)
	if err != nil {
		if outcome.Settled(err) {
			err = sdk.UnknownEffect("not_read_back")
		}
		return nil, err
	}
	for _, c := range changes {
		if dns.Find(now, c.After.Name, c.After.Type).Same(c.After) {
			continue
		}
		if refused {
			return nil, dns.Changed()
		}
		return nil, sdk.BrokenBy("written_but_not_there")
	}
	return now, nil
}

func transaction(all []recordDoc, changes []dns.Change) (batch, error) {
	var b batch
	for _, c := range changes {
		if err := b.add(all, c); err != nil {
			return batch{}, err
		}
	}
	return b, nil
}

// add words one change. A value in the place of another is a patch, so that
// the record keeps its owner's comment and tags.
func (b *batch) add(all []recordDoc, c dns.Change) error {
	var gone []recordDoc
	fresh := slices.Clone(c.After.Values) // of a value that is there twice, both
	ttl := 0                              // of the records that are there, while that is what is wanted
	for _, r := range all {
		if r.place() != sdk.PlainName(c.After.Name)+" "+string(c.After.Type) {
			continue
		}
		value, err := r.value()
		if err != nil {
			return sdk.BrokenBy("content_of_" + r.Type)
		}
		if r.seconds() == c.After.TTL {
			ttl = r.TTL
		}
		i := slices.Index(fresh, value)
		if i < 0 {
			gone = append(gone, r)
			continue
		}
		fresh = slices.Delete(fresh, i, i+1)
		if c.After.TTL != c.Before.TTL {
			b.Patches = append(b.Patches, recordDoc{ID: r.ID, TTL: inRange(c.After.TTL)})
		}
	}
	if ttl == 0 {
		ttl = inRange(c.After.TTL)
	}
	for _, value := range fresh {
		r, err := record(c.After, value, ttl)
		if err != nil {
			return err
		}
		if len(gone) > 0 {
			r.ID, gone = gone[0].ID, gone[1:]
			b.Patches = append(b.Patches, r)
			continue
		}
		r.Comment = comment
		b.Posts = append(b.Posts, r)
	}
	for _, r := range gone {
		b.Deletes = append(b.Deletes, recordDoc{ID: r.ID})
	}
	return nil
}

func inRange(seconds int) int {
	if seconds <= 0 {
		return automatic
	}
	return min(max(seconds, minTTL), maxTTL)
}

// record words one value. A proxied or flattened CNAME would answer with
// addresses, which no mail platform recognises.
func record(s dns.RRSet, value string, ttl int) (recordDoc, error) {
	r := recordDoc{Type: string(s.Type), Name: s.Name, TTL: ttl, Content: value}
	switch s.Type {
	case dns.TXT:
		r.Content = sdk.QuoteText(value)
	case dns.CNAME:
		proxied := false
		r.Proxied, r.Settings = &proxied, &settingsDoc{}
	case dns.MX:
		preference, host, _ := strings.Cut(value, " ")
		n, err := strconv.Atoi(preference)
		if err != nil || host == "" {
			return r, sdk.RefusedBy("content_of_MX")
		}
		r.Priority, r.Content = &n, host
	}
	return r, nil
}
