// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// defaultTTL is for a new set that says none.
const defaultTTL = 3600

// Apply implements sdk.DNSProvider. One message is one transaction, and its
// prerequisites are all that was read just before: whoever writes in between
// makes it fail.
func (p *provider) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if err := dns.CheckChanges(zone.Name, changes); err != nil {
		return nil, err
	}
	all, err := p.transfer(ctx, zone.Name)
	if err != nil {
		return nil, err
	}
	now, err := sets(all)
	if err != nil {
		return nil, err
	}
	open, err := dns.Outstanding(now, changes)
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		m, err := transaction(zone.Name, all, open)
		if err != nil {
			return nil, err
		}
		if err := p.update(ctx, m); err != nil {
			return nil, err
		}
		if now, err = p.readBack(ctx, zone, open); err != nil {
			return nil, err
		}
	}
	var done []dns.RRSet
	for _, c := range changes {
		done = append(done, dns.Find(now, c.After.Name, c.After.Type))
	}
	return done, nil
}

// readBack looks whether the write is there. The write was done, so trouble
// here settles nothing.
func (p *provider) readBack(ctx context.Context, zone dns.Zone, done []dns.Change) ([]dns.RRSet, error) {
	now, err := p.Records(ctx, zone)
	if err != nil {
		if outcome.Settled(err) {
			err = sdk.UnknownEffect("not_read_back")
		}
		return nil, err
	}
	for _, c := range done {
		if !dns.Find(now, c.After.Name, c.After.Type).Same(c.After) {
			return nil, sdk.BrokenBy("written_but_not_there")
		}
	}
	return now, nil
}

// transaction words changes as one update. What goes, goes first, so that a
// CNAME and another type may take turns at a name.
func transaction(zone string, all []wire.RR, changes []dns.Change) (*wire.Msg, error) {
	m := new(wire.Msg).SetUpdate(wire.Fqdn(zone))
	var fresh []wire.RR
	for _, c := range changes {
		have := recordsOf(all, c.After)
		require(m, have, c, changes)
		add, err := replace(m, have, c)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, add...)
	}
	m.Insert(fresh)
	return m, nil
}

// require adds the prerequisites of one change: the set is as it was read, and
// a CNAME gets no neighbour, which a server would else ignore in silence
// (RFC 2136, 3.4.2.2).
func require(m *wire.Msg, have []wire.RR, c dns.Change, changes []dns.Change) {
	here := &wire.ANY{Hdr: wire.RR_Header{Name: wire.Fqdn(c.After.Name), Rrtype: wire.StringToType[string(c.After.Type)]}}
	if len(have) > 0 {
		used := make([]wire.RR, len(have))
		for i, rr := range have {
			used[i] = wire.Copy(rr)
		}
		m.Used(used)
		return // what is there has no wrong neighbour
	}
	alone := !slices.ContainsFunc(changes, func(o dns.Change) bool {
		return o.After.Type != c.After.Type && sdk.PlainName(o.After.Name) == sdk.PlainName(c.After.Name)
	})
	switch {
	case c.After.Type == dns.CNAME && alone:
		m.NameNotUsed([]wire.RR{here})
	case alone:
		m.RRsetNotUsed([]wire.RR{here, &wire.ANY{Hdr: wire.RR_Header{Name: here.Hdr.Name, Rrtype: wire.TypeCNAME}}})
	default:
		m.RRsetNotUsed([]wire.RR{here})
	}
}

// replace removes what goes and returns what comes. With another TTL the whole
// set is written anew; values that stay keep their strings.
func replace(m *wire.Msg, have []wire.RR, c dns.Change) ([]wire.RR, error) {
	ttl := uint32(defaultTTL)
	if c.After.TTL > 0 {
		ttl = uint32(c.After.TTL)
	}
	anew := len(have) > 0 && have[0].Header().Ttl != ttl
	fresh := slices.Clone(c.After.Values) // of a text that is there twice, cut otherwise, both
	var add, gone []wire.RR
	for _, rr := range have {
		value, err := valueOf(rr)
		i := slices.Index(fresh, value)
		stays := err == nil && i >= 0
		if stays {
			fresh = slices.Delete(fresh, i, i+1)
		}
		if rr = wire.Copy(rr); stays && anew {
			rr.Header().Ttl = ttl
			add = append(add, rr)
		} else if !stays {
			gone = append(gone, rr)
		}
	}
	if anew {
		m.RemoveRRset(have[:1:1])
	} else {
		m.Remove(gone)
	}
	for _, value := range fresh {
		rr, err := wire.NewRR(fmt.Sprintf("%s %d IN %s %s", wire.Fqdn(c.After.Name), ttl, c.After.Type, sdk.WriteContent(c.After.Type, value)))
		if err != nil || rr == nil || typeOf(rr) != string(c.After.Type) {
			return nil, sdk.RefusedBy("content_of_" + string(c.After.Type))
		}
		add = append(add, rr)
	}
	return add, nil
}

func recordsOf(all []wire.RR, s dns.RRSet) []wire.RR {
	var out []wire.RR
	for _, rr := range all {
		if place(rr) == sdk.PlainName(s.Name)+" "+string(s.Type) {
			out = append(out, rr)
		}
	}
	return out
}
