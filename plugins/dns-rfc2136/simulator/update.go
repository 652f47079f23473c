// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"errors"
	"slices"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// update applies an update message and returns the response code (RFC 2136, 3). Either all its
// changes take effect or none.
func (s *simulator) update(ctx context.Context, q *request) int {
	if q.Question[0].Qtype != wire.TypeSOA {
		return wire.RcodeFormatError
	}
	for {
		zone, err := s.zone(ctx, q.Question[0].Name)
		switch {
		case errors.Is(err, simulate.ErrNoZone):
			return wire.RcodeNotAuth
		case err != nil:
			return wire.RcodeServerFailure
		}
		records, err := recordsOf(zone)
		if err != nil {
			return wire.RcodeServerFailure
		}
		if code := checkPrerequisites(zone.Name, records, q.Answer); code != wire.RcodeSuccess {
			return code
		}
		if q.tsig == nil || zone.Name == OperatorZone {
			return wire.RcodeRefused
		}
		if code := prescan(zone.Name, q.Ns); code != wire.RcodeSuccess {
			return code
		}
		after := records
		for _, rr := range q.Ns {
			after = apply(zone.Name, after, rr)
		}
		if slices.EqualFunc(records, after, func(a, b wire.RR) bool { return a.String() == b.String() }) {
			return wire.RcodeSuccess // if nothing changes, the serial does not change either
		}
		stored, err := storedOf(zone.Name, after)
		if err != nil {
			return wire.RcodeFormatError
		}
		err = s.zones.Edit(ctx, zone.Name, zone.Version, stored)
		switch {
		case errors.Is(err, simulate.ErrZoneChanged):
			continue // the zone changed after it was read, so the prerequisites are checked again
		case errors.As(err, new(simulate.InvalidRecords)):
			return wire.RcodeRefused
		case err != nil:
			return wire.RcodeServerFailure
		}
		return wire.RcodeSuccess
	}
}

// within reports whether a name is the apex of a zone or below it.
func within(name, zone string) bool { return wire.IsSubDomain(wire.Fqdn(zone), name) }

// checkPrerequisites returns NOERROR if all prerequisites are true, and otherwise the code of the
// first one that is false (RFC 2136, 3.2).
func checkPrerequisites(zone string, records, prerequisites []wire.RR) int {
	var required []wire.RR // prerequisites with values; the zone's sets must equal these sets
	for _, rr := range prerequisites {
		h := rr.Header()
		existing := named(records, h.Name)
		exists := len(existing) > 0
		if h.Rrtype != wire.TypeANY {
			exists = len(typed(existing, h.Rrtype)) > 0
		}
		switch {
		case h.Ttl != 0 || (h.Class == wire.ClassANY || h.Class == wire.ClassNONE) && h.Rdlength != 0:
			return wire.RcodeFormatError
		case !within(h.Name, zone):
			return wire.RcodeNotZone
		case h.Class == wire.ClassANY && !exists && h.Rrtype == wire.TypeANY:
			return wire.RcodeNameError
		case h.Class == wire.ClassANY && !exists:
			return wire.RcodeNXRrset
		case h.Class == wire.ClassNONE && exists && h.Rrtype == wire.TypeANY:
			return wire.RcodeYXDomain
		case h.Class == wire.ClassNONE && exists:
			return wire.RcodeYXRrset
		case h.Class == wire.ClassINET:
			required = append(required, rr)
		case h.Class != wire.ClassANY && h.Class != wire.ClassNONE:
			return wire.RcodeFormatError
		}
	}
	for _, rr := range required {
		h := rr.Header()
		want, have := typed(named(required, h.Name), h.Rrtype), typed(named(records, h.Name), h.Rrtype)
		if !containsAll(want, have) || !containsAll(have, want) {
			return wire.RcodeNXRrset
		}
	}
	return wire.RcodeSuccess
}

// containsAll reports whether all contains each record of part.
func containsAll(all, part []wire.RR) bool {
	return !slices.ContainsFunc(part, func(rr wire.RR) bool {
		return !slices.ContainsFunc(all, func(o wire.RR) bool { return sameRecord(rr, o) })
	})
}

// sameRecord reports whether two records have the same name, type and data.
func sameRecord(a, b wire.RR) bool {
	a, b = wire.Copy(a), wire.Copy(b)
	a.Header().Class, b.Header().Class = wire.ClassINET, wire.ClassINET
	return wire.IsDuplicate(a, b)
}

// prescan returns NOERROR if all updates are valid (RFC 2136, 3.4.1).
func prescan(zone string, updates []wire.RR) int {
	for _, rr := range updates {
		h := rr.Header()
		meta := h.Rrtype == wire.TypeANY || h.Rrtype == wire.TypeAXFR || h.Rrtype == wire.TypeIXFR
		switch {
		case !within(h.Name, zone):
			return wire.RcodeNotZone
		case h.Class == wire.ClassINET && meta,
			h.Class == wire.ClassANY && (h.Ttl != 0 || h.Rdlength != 0 || meta && h.Rrtype != wire.TypeANY),
			h.Class == wire.ClassNONE && (h.Ttl != 0 || meta),
			h.Class != wire.ClassINET && h.Class != wire.ClassANY && h.Class != wire.ClassNONE:
			return wire.RcodeFormatError
		}
	}
	return wire.RcodeSuccess
}

// apply returns the records after one update (RFC 2136, 3.4.2).
func apply(zone string, records []wire.RR, rr wire.RR) []wire.RR {
	h := rr.Header()
	apex := sdk.PlainName(h.Name) == zone
	ofZone := func(o wire.RR) bool {
		return apex && (o.Header().Rrtype == wire.TypeSOA || o.Header().Rrtype == wire.TypeNS)
	}
	sameName := func(o wire.RR) bool { return wire.CanonicalName(o.Header().Name) == wire.CanonicalName(h.Name) }
	switch {
	case ofZone(rr): // the sandbox manages the SOA and NS of the apex
		return records
	case h.Class == wire.ClassANY && h.Rrtype == wire.TypeANY:
		return keep(records, func(o wire.RR) bool { return !sameName(o) || ofZone(o) })
	case h.Class == wire.ClassANY:
		return keep(records, func(o wire.RR) bool { return !sameName(o) || o.Header().Rrtype != h.Rrtype })
	case h.Class == wire.ClassNONE:
		return keep(records, func(o wire.RR) bool { return !sameRecord(o, rr) })
	}
	return add(records, rr, named(records, h.Name))
}

// add returns the records and the record rr. Like a real server, it ignores an addition after which
// a CNAME would coexist with a different type (RFC 2136, 3.4.2.2). All records of the set get the
// TTL of rr. neighbours are the records with the name of rr.
func add(records []wire.RR, rr wire.RR, neighbours []wire.RR) []wire.RR {
	h := rr.Header()
	aliases := len(typed(neighbours, wire.TypeCNAME))
	if h.Rrtype == wire.TypeCNAME && len(neighbours) > aliases || h.Rrtype != wire.TypeCNAME && aliases > 0 {
		return records
	}
	after, replaced := slices.Clone(records), false
	for i, o := range after {
		same := wire.CanonicalName(o.Header().Name) == wire.CanonicalName(h.Name) && o.Header().Rrtype == h.Rrtype
		switch {
		case same && (h.Rrtype == wire.TypeCNAME || sameRecord(o, rr)):
			after[i], replaced = rr, true
		case same:
			after[i] = wire.Copy(o)
			after[i].Header().Ttl = h.Ttl
		}
	}
	if replaced {
		return after
	}
	return append(after, rr)
}
