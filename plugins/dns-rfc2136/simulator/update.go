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
func (s *simulator) update(ctx context.Context, req *request) int {
	if req.Question[0].Qtype != wire.TypeSOA {
		return wire.RcodeFormatError
	}
	for {
		zone, err := s.zone(ctx, req.Question[0].Name)
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
		if code := checkPrerequisites(zone.Name, records, req.Answer); code != wire.RcodeSuccess {
			return code
		}
		if req.tsig == nil || zone.Name == OperatorZone {
			return wire.RcodeRefused
		}
		if code := prescan(zone.Name, req.Ns); code != wire.RcodeSuccess {
			return code
		}
		after := records
		for _, rr := range req.Ns {
			after = applyUpdate(zone.Name, after, rr)
		}
		if slices.EqualFunc(records, after, func(a, b wire.RR) bool { return a.String() == b.String() }) {
			return wire.RcodeSuccess // without a change, the serial stays the same
		}
		stored, err := toStoredRecords(zone.Name, after)
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

// isInZone reports whether a name is the apex of a zone or below it.
func isInZone(name, zone string) bool { return wire.IsSubDomain(wire.Fqdn(zone), name) }

// checkPrerequisites returns NOERROR if all prerequisites are true, and otherwise the code for a
// false or invalid prerequisite (RFC 2136, 3.2).
func checkPrerequisites(zone string, records, prerequisites []wire.RR) int {
	var required []wire.RR // the sets of the zone must have exactly these records
	for _, rr := range prerequisites {
		header := rr.Header()
		existing := recordsNamed(records, header.Name)
		exists := len(existing) > 0
		if header.Rrtype != wire.TypeANY {
			exists = len(recordsOfType(existing, header.Rrtype)) > 0
		}
		switch {
		case header.Ttl != 0 || (header.Class == wire.ClassANY || header.Class == wire.ClassNONE) && header.Rdlength != 0:
			return wire.RcodeFormatError
		case !isInZone(header.Name, zone):
			return wire.RcodeNotZone
		case header.Class == wire.ClassANY && !exists && header.Rrtype == wire.TypeANY:
			return wire.RcodeNameError
		case header.Class == wire.ClassANY && !exists:
			return wire.RcodeNXRrset
		case header.Class == wire.ClassNONE && exists && header.Rrtype == wire.TypeANY:
			return wire.RcodeYXDomain
		case header.Class == wire.ClassNONE && exists:
			return wire.RcodeYXRrset
		case header.Class == wire.ClassINET:
			required = append(required, rr)
		case header.Class != wire.ClassANY && header.Class != wire.ClassNONE:
			return wire.RcodeFormatError
		}
	}
	for _, rr := range required {
		header := rr.Header()
		want, have := recordsOfType(recordsNamed(required, header.Name), header.Rrtype), recordsOfType(recordsNamed(records, header.Name), header.Rrtype)
		if !containsAll(want, have) || !containsAll(have, want) {
			return wire.RcodeNXRrset
		}
	}
	return wire.RcodeSuccess
}

// containsAll reports whether set contains each record of subset.
func containsAll(set, subset []wire.RR) bool {
	return !slices.ContainsFunc(subset, func(rr wire.RR) bool {
		return !slices.ContainsFunc(set, func(candidate wire.RR) bool { return sameRecord(rr, candidate) })
	})
}

// sameRecord reports whether two records have the same name, type and data.
func sameRecord(a, b wire.RR) bool {
	a, b = wire.Copy(a), wire.Copy(b)
	a.Header().Class, b.Header().Class = wire.ClassINET, wire.ClassINET
	return wire.IsDuplicate(a, b)
}

// prescan returns NOERROR if all updates are valid, and otherwise the code of the first invalid
// update (RFC 2136, 3.4.1).
func prescan(zone string, updates []wire.RR) int {
	for _, rr := range updates {
		header := rr.Header()
		isMetaType := header.Rrtype == wire.TypeANY || header.Rrtype == wire.TypeAXFR || header.Rrtype == wire.TypeIXFR
		switch {
		case !isInZone(header.Name, zone):
			return wire.RcodeNotZone
		case header.Class == wire.ClassINET && isMetaType,
			header.Class == wire.ClassANY && (header.Ttl != 0 || header.Rdlength != 0 || isMetaType && header.Rrtype != wire.TypeANY),
			header.Class == wire.ClassNONE && (header.Ttl != 0 || isMetaType),
			header.Class != wire.ClassINET && header.Class != wire.ClassANY && header.Class != wire.ClassNONE:
			return wire.RcodeFormatError
		}
	}
	return wire.RcodeSuccess
}

// applyUpdate returns the records after one update (RFC 2136, 3.4.2).
func applyUpdate(zone string, records []wire.RR, rr wire.RR) []wire.RR {
	header := rr.Header()
	isApex := sdk.PlainName(header.Name) == zone
	isGenerated := func(other wire.RR) bool {
		return isApex && (other.Header().Rrtype == wire.TypeSOA || other.Header().Rrtype == wire.TypeNS)
	}
	sameName := func(other wire.RR) bool {
		return wire.CanonicalName(other.Header().Name) == wire.CanonicalName(header.Name)
	}
	switch {
	case isGenerated(rr): // recordsOf generates the SOA and NS of the apex, so an update cannot change them
		return records
	case header.Class == wire.ClassANY && header.Rrtype == wire.TypeANY:
		return filter(records, func(other wire.RR) bool { return !sameName(other) || isGenerated(other) })
	case header.Class == wire.ClassANY:
		return filter(records, func(other wire.RR) bool { return !sameName(other) || other.Header().Rrtype != header.Rrtype })
	case header.Class == wire.ClassNONE:
		return filter(records, func(other wire.RR) bool { return !sameRecord(other, rr) })
	}
	return addRecord(records, rr, recordsNamed(records, header.Name))
}

// addRecord returns the records after the addition of rr. It ignores an addition after which a
// CNAME would coexist with a different type (RFC 2136, 3.4.2.2). All records of the set get the TTL
// of rr. sameName are the records with the name of rr.
func addRecord(records []wire.RR, rr wire.RR, sameName []wire.RR) []wire.RR {
	header := rr.Header()
	cnames := len(recordsOfType(sameName, wire.TypeCNAME))
	if header.Rrtype == wire.TypeCNAME && len(sameName) > cnames || header.Rrtype != wire.TypeCNAME && cnames > 0 {
		return records
	}
	after, replaced := slices.Clone(records), false
	for i, existing := range after {
		inSet := wire.CanonicalName(existing.Header().Name) == wire.CanonicalName(header.Name) && existing.Header().Rrtype == header.Rrtype
		switch {
		case inSet && (header.Rrtype == wire.TypeCNAME || sameRecord(existing, rr)):
			after[i], replaced = rr, true
		case inSet:
			after[i] = wire.Copy(existing)
			after[i].Header().Ttl = header.Ttl
		}
	}
	if replaced {
		return after
	}
	return append(after, rr)
}
