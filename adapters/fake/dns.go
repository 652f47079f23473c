// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// DNS is a set of zones in memory. It implements ports.DNSReader. A complete read gets the same
// answers from two name servers.
type DNS struct {
	mu         sync.Mutex
	now        time.Time
	zones      map[string][]dns.Record
	failReason string
	reads      int
}

var _ ports.DNSReader = (*DNS)(nil)

// Publish replaces the records of a zone.
func (d *DNS) Publish(zone string, records ...dns.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.zones == nil {
		d.zones = map[string][]dns.Record{}
	}
	d.zones[zone] = slices.Clone(records)
}

// FailReads makes every later read incomplete for this reason. An empty reason ends the failure.
func (d *DNS) FailReads(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failReason = reason
}

// Reads returns the number of calls of Read.
func (d *DNS) Reads() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

// Read implements ports.DNSReader.
func (d *DNS) Read(ctx context.Context, _ access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	if ctx.Err() != nil {
		return dns.ZoneRead{}, ctx.Err()
	}
	ports.RecordAnswer(ctx)
	zoneRead := dns.ZoneRead{Domain: name, At: d.now}
	zone, records, found := d.zone(name)
	switch {
	case d.failReason != "":
		zoneRead.Reason = d.failReason
		return zoneRead, nil
	case !found:
		zoneRead.Reason = "not_delegated"
		return zoneRead, nil
	}
	zoneRead.Zone, zoneRead.Complete, zoneRead.Sets = zone, true, recordSets(name, records)
	for _, name := range []string{"ns1.fake.test", "ns2.fake.test"} {
		zoneRead.Delegation = append(zoneRead.Delegation, name)
		zoneRead.Servers = append(zoneRead.Servers, dns.Server{Name: name, State: dns.ServerOK, Agrees: true})
	}
	zoneRead.Referenced = d.referencedRecords(zoneRead.Needs(wanted))
	return zoneRead, nil
}

// zone returns the zone that holds a name: the zone with the longest apex that is the name or a
// parent of it.
func (d *DNS) zone(name string) (apex string, records []dns.Record, found bool) {
	for zone, zoneRecords := range d.zones {
		if (zone == name || strings.HasSuffix(name, "."+zone)) && len(zone) >= len(apex) {
			apex, records, found = zone, zoneRecords, true
		}
	}
	return apex, records, found
}

func (d *DNS) hasRecord(r dns.Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, records, _ := d.zone(r.Name)
	return slices.ContainsFunc(records, func(have dns.Record) bool {
		return have.Type == r.Type && canonical(have.Name) == canonical(r.Name) && content(have) == content(r)
	})
}

func (d *DNS) advance(duration time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(duration)
}

func recordSets(name string, records []dns.Record) []dns.RRSet {
	var sets []dns.RRSet
	for _, r := range records {
		owner := canonical(r.Name)
		if owner != name && !strings.HasSuffix(owner, "."+name) {
			continue
		}
		i := slices.IndexFunc(sets, func(s dns.RRSet) bool { return s.Name == owner && s.Type == r.Type })
		if i < 0 {
			i, sets = len(sets), append(sets, dns.RRSet{Name: owner, Type: r.Type, TTL: r.TTL})
		}
		sets[i].Values = append(sets[i].Values, content(r))
	}
	return sets
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

// referencedRecords returns what a read finds at names outside its own domain. It omits names that
// are in no zone.
func (d *DNS) referencedRecords(n dns.Needs) dns.Referenced {
	referenced := dns.Referenced{SPF: map[string][]string{}, Exchanges: map[string]dns.MXProblem{}}
	for pending := n.SPF; len(pending) > 0; pending = pending[1:] {
		texts, known := d.textsOf(pending[0])
		if _, done := referenced.SPF[pending[0]]; done || !known {
			continue
		}
		referenced.SPF[pending[0]] = texts
		for _, text := range texts {
			pending = append(pending, dns.SPFReferences(text)...)
		}
	}
	referenced.ParentDMARC, referenced.Keys = d.allTexts(n.ParentDMARC), d.allTexts(n.Keys)
	for _, host := range n.Exchanges {
		if problem, known := d.mxProblem(host); known && problem != "" {
			referenced.Exchanges[host] = problem
		}
	}
	return referenced
}

func (d *DNS) allTexts(names []string) map[string][]string {
	byName := map[string][]string{}
	for _, name := range names {
		if texts, known := d.textsOf(name); known {
			byName[name] = texts
		}
	}
	return byName
}

func (d *DNS) textsOf(name string) (values []string, known bool) {
	_, records, known := d.zone(name)
	return dns.Find(recordSets(name, records), name, dns.TXT).Values, known
}

func (d *DNS) mxProblem(host string) (problem dns.MXProblem, known bool) {
	_, records, known := d.zone(host)
	found := recordSets(host, records)
	switch {
	case len(dns.Find(found, host, dns.CNAME).Values) > 0:
		return dns.MXProblemAlias, known
	case len(dns.Find(found, host, dns.A).Values)+len(dns.Find(found, host, dns.AAAA).Values) == 0:
		return dns.MXProblemNoAddress, known
	default:
		return "", known
	}
}
