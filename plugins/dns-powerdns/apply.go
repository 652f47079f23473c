// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// defaultTTL is the TTL in seconds of a new set for which no TTL is specified.
const defaultTTL = 3600

// Apply implements sdk.DNSProvider. A PATCH is atomic, but it cannot be made conditional on an
// unchanged zone. Therefore Apply holds the lock of the zone and reads the zone right before the
// PATCH. If the serial shows that somebody changed the zone between the read and the PATCH, Apply
// fails with sdk.Overlapped. If the zone's SOA-EDIT-API mode does not increment the serial at each
// change, Apply fails instead of writing. If the server does not tell the mode, Apply writes, but
// cannot detect that somebody else changes the zone at the same time.
func (p *provider) Apply(ctx context.Context, zone sdk.Zone, changes []sdk.Change) ([]sdk.RRSet, error) {
	if err := sdk.CheckChanges(zone.Name, changes); err != nil {
		return nil, err
	}
	release, err := p.locks.Hold(ctx, p.base+" "+zone.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	current, err := p.readZone(ctx, zone.Name, zonePath(zone.ID))
	if err != nil {
		return nil, err
	}
	sets, err := current.recordSets()
	if err != nil {
		return nil, err
	}
	outstanding, err := sdk.Outstanding(sets, changes)
	if err != nil {
		return nil, err
	}
	if len(outstanding) > 0 {
		if mode := current.SOAEditAPI; mode != nil && !countsEveryChange(*mode) {
			return nil, sdk.NotServed("soa_edit_api", "set it to DEFAULT or INCREASE for the zone, so that its serial shows every change. Otherwise a change that somebody else makes at the same time could be lost unnoticed")
		}
		docs, err := current.patchDocs(outstanding)
		if err != nil {
			return nil, err
		}
		serial, err := p.patch(ctx, zonePath(zone.ID), map[string]any{"rrsets": docs})
		if err != nil {
			return nil, err
		}
		if current.changedBetween(serial, sets) {
			return nil, sdk.Overlapped()
		}
		if sets, err = sdk.ReadBack(ctx, p, zone, outstanding); err != nil {
			return nil, err
		}
	}
	return sdk.SetsAfter(sets, changes), nil
}

// countsEveryChange reports whether every change by the API increments the serial of a zone with
// this soa_edit_api.
func countsEveryChange(soaEditAPI string) bool {
	return strings.EqualFold(soaEditAPI, "DEFAULT") || strings.EqualFold(soaEditAPI, "INCREASE")
}

// changedBetween reports whether the serials show that somebody changed the zone between the read
// that returned sets and the PATCH. serial is the zone's serial after the PATCH. changedBetween
// returns false if a serial is missing or the mode does not increment the serial at each change.
func (z zoneDoc) changedBetween(serial string, sets []sdk.RRSet) bool {
	after, err := strconv.ParseUint(serial, 10, 32)
	before, ok := serialOf(sdk.FindSet(sets, sdk.PlainName(z.Name), sdk.SOA))
	if err != nil || !ok || z.SOAEditAPI == nil || !countsEveryChange(*z.SOAEditAPI) {
		return false
	}
	// With DEFAULT, the first change of a day sets the serial to the date followed by 01.
	firstOfDay := strings.EqualFold(*z.SOAEditAPI, "DEFAULT") && after%100 == 1 && after/100 > before/100
	return uint32(after) != uint32(before)+1 && !firstOfDay
}

// serialOf returns the serial in a SOA set.
func serialOf(soa sdk.RRSet) (uint64, bool) {
	if len(soa.Values) != 1 {
		return 0, false
	}
	fields := strings.Fields(soa.Values[0])
	if len(fields) != 7 {
		return 0, false
	}
	serial, err := strconv.ParseUint(fields[2], 10, 32)
	return serial, err == nil
}

// patchDocs converts changes to documents of the API. A value that does not change keeps its
// spelling, and a disabled record stays disabled unless its value is one of the wanted values.
// patchDocs refuses a CNAME if the name has a disabled CNAME with a different target. The server
// allows only one CNAME at a name, and the zone's owner may still need the disabled one.
func (z zoneDoc) patchDocs(changes []sdk.Change) ([]rrsetDoc, error) {
	var docs []rrsetDoc
	for _, change := range changes {
		set := rrsetDoc{Name: change.After.Name + ".", Type: string(change.After.Type), TTL: change.After.TTL, ChangeType: "REPLACE", Records: []recordDoc{}}
		if set.TTL <= 0 && len(change.Before.Values) == 0 {
			set.TTL = defaultTTL
		}
		// A content is the text of a record in the API. Two contents can have the same value,
		// because the value of a TXT record can be divided into strings in different ways.
		contentsByValue := map[string][]string{}
		for _, record := range z.findSet(change.After).Records {
			value, err := sdk.ReadContent(change.After.Type, record.Content)
			isWanted := err == nil && slices.Contains(change.After.Values, value)
			switch {
			case record.Disabled && isWanted:
				// The disabled record is left out, because the server refuses a set that has the
				// same record disabled and enabled.
			case record.Disabled && change.After.Type == sdk.CNAME && len(change.After.Values) > 0:
				return nil, sdk.NotServed(change.After.Name, "the zone has a disabled CNAME record at this name, and PowerDNS allows only one CNAME at a name. Delete or enable the disabled record")
			case record.Disabled:
				set.Records = append(set.Records, record)
			case isWanted:
				contentsByValue[value] = append(contentsByValue[value], record.Content)
			}
		}
		for _, value := range change.After.Values {
			content := sdk.WriteContent(change.After.Type, value)
			if contents := contentsByValue[value]; len(contents) > 0 {
				content, contentsByValue[value] = contents[0], contents[1:]
			}
			set.Records = append(set.Records, recordDoc{Content: content})
		}
		if len(set.Records) == 0 {
			set.ChangeType = "DELETE"
		}
		docs = append(docs, set)
	}
	return docs, nil
}

func (z zoneDoc) findSet(s sdk.RRSet) rrsetDoc {
	for _, r := range z.RRSets {
		if r.Type == string(s.Type) && strings.EqualFold(sdk.PlainName(r.Name), sdk.PlainName(s.Name)) {
			return r
		}
	}
	return rrsetDoc{}
}
