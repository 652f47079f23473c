// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// DNS is the world's DNS: zones with records. It reads like a resolver that
// always reaches every authoritative server.
type DNS struct {
	mu      sync.Mutex
	now     time.Time
	zones   map[string][]dns.Record
	trouble string
	reads   int
}

var _ ports.DNSReader = (*DNS)(nil)

// Publish makes a zone hold exactly these records.
func (d *DNS) Publish(zone string, records ...dns.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.zones == nil {
		d.zones = map[string][]dns.Record{}
	}
	d.zones[zone] = slices.Clone(records)
}

// Trouble makes reads incomplete for a reason; "" ends it.
func (d *DNS) Trouble(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble = reason
}

// Reads counts the reads.
func (d *DNS) Reads() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

// Read implements ports.DNSReader.
func (d *DNS) Read(ctx context.Context, name string, wanted ...dns.Desired) (dns.Sight, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	if ctx.Err() != nil {
		return dns.Sight{}, ctx.Err()
	}
	ports.NoteAnswered(ctx)
	s := dns.Sight{Domain: name, At: d.now}
	zone, records, found := d.zone(name)
	switch {
	case d.trouble != "":
		s.Reason = d.trouble
		return s, nil
	case !found:
		s.Reason = "not_delegated"
		return s, nil
	}
	s.Zone, s.Complete, s.Sets = zone, true, sets(name, records)
	for _, name := range []string{"ns1.fake.test", "ns2.fake.test"} {
		s.Delegation = append(s.Delegation, name)
		s.Servers = append(s.Servers, dns.Server{Name: name, State: dns.ServerOK, Agrees: true})
	}
	s.Beyond = d.beyond(s.Needs(wanted))
	return s, nil
}

// zone finds the zone that holds a name: the longest that ends it.
func (d *DNS) zone(name string) (apex string, records []dns.Record, found bool) {
	for zone, held := range d.zones {
		if (zone == name || strings.HasSuffix(name, "."+zone)) && len(zone) >= len(apex) {
			apex, records, found = zone, held, true
		}
	}
	return apex, records, found
}

func (d *DNS) has(r dns.Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, records, _ := d.zone(r.Name)
	return slices.ContainsFunc(records, func(have dns.Record) bool {
		return have.Type == r.Type && canonical(have.Name) == canonical(r.Name) && content(have) == content(r)
	})
}

func (d *DNS) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func sets(name string, records []dns.Record) []dns.RRSet {
	var out []dns.RRSet
	for _, r := range records {
		owner := canonical(r.Name)
		if owner != name && !strings.HasSuffix(owner, "."+name) {
			continue
		}
		i := slices.IndexFunc(out, func(s dns.RRSet) bool { return s.Name == owner && s.Type == r.Type })
		if i < 0 {
			i, out = len(out), append(out, dns.RRSet{Name: owner, Type: r.Type, TTL: r.TTL})
		}
		out[i].Values = append(out[i].Values, content(r))
	}
	return out
}

func content(r dns.Record) string {
	switch r.Type {
	case dns.MX:
		return fmt.Sprintf("%d %s", r.Preference, canonical(r.Content))
	case dns.CNAME, dns.NS:
		return canonical(r.Content)
	default:
		return r.Content
	}
}

func canonical(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }
