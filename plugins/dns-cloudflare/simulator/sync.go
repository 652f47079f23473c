// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// automaticTTL is the TTL in seconds of a record with an automatic TTL in the sandbox.
const automaticTTL = 300

// syncFromSandbox updates the zone with this name from the sandbox, or all zones if name is empty.
// It also deletes zones that the sandbox does not have. Outside a sandbox, it does nothing. The
// caller must hold editMu.
func (sim *simulator) syncFromSandbox(ctx context.Context, name string) error {
	if sim.sandbox == nil {
		return nil
	}
	found, err := sim.sandbox.zones(ctx, name)
	if err != nil {
		return err
	}
	return sim.file.Do(func(s *state) {
		isInSandbox := map[string]bool{}
		for _, zoneInSandbox := range found {
			isInSandbox[zoneInSandbox.Name] = true
			s.zone(zoneInSandbox.Name).updateFrom(zoneInSandbox, s)
		}
		maps.DeleteFunc(s.Zones, func(n string, _ *zone) bool { return (name == "" || name == n) && !isInSandbox[n] })
	})
}

// zone returns the zone with this name and creates it if necessary.
func (s *state) zone(name string) *zone {
	if s.Zones[name] == nil {
		s.Serial++
		s.Zones[name] = &zone{ID: fmt.Sprintf("%032x", 0xc0de0000+s.Serial), Name: name, Status: "active"}
	}
	return s.Zones[name]
}

func newRecordID(serial *int) string {
	*serial++
	return fmt.Sprintf("%032x", 0xbeef0000+*serial)
}

// updateFrom makes the zone equal to the zone in the sandbox. A record that is equal in both zones
// keeps the values that only Cloudflare stores: its id, its comment and an automatic TTL.
func (z *zone) updateFrom(zoneInSandbox sandboxZone, s *state) {
	z.Version, z.NameServers = zoneInSandbox.Version, zoneInSandbox.NameServers
	unmatched := map[string]servedRecord{}
	for _, entry := range zoneInSandbox.Records {
		unmatched[servedRecord{Record: entry}.key()] = servedRecord{Record: entry}
	}
	for _, served := range zoneInSandbox.Veiled {
		unmatched[served.key()] = served
	}
	var updated []record
	for _, r := range z.Records {
		key := r.toSandbox(z.Name).key()
		if _, ok := unmatched[key]; ok {
			updated = append(updated, r)
			delete(unmatched, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unmatched)) {
		r := unmatched[key].toAPI()
		r.ID = newRecordID(&s.Serial)
		updated = append(updated, r)
	}
	z.Records = updated
}

// key returns a text that identifies the record: equal records have the same key.
func (served servedRecord) key() string {
	entry := served.Record
	entry.Name = strings.ToLower(entry.Name)
	entry.Content = normalizeContent(entry)
	raw, _ := json.Marshal(servedRecord{entry, served.Mode})
	return string(raw)
}

// normalizeContent returns the content without a final dot, so that contents can be compared. It
// does not change the text of a TXT record and the content ".".
func normalizeContent(entry sandboxRecord) string {
	if entry.Type == "TXT" || entry.Content == "." {
		return entry.Content
	}
	return strings.TrimSuffix(entry.Content, ".")
}

// toSandbox converts a record of the zone with this apex to the sandbox's format.
func (r record) toSandbox(apex string) servedRecord {
	entry := sandboxRecord{Type: r.Type, Name: r.Name, Content: r.Content, TTL: r.TTL, Priority: r.Priority}
	if entry.TTL == 1 {
		entry.TTL = automaticTTL
	}
	if r.Type == "TXT" {
		entry.Content = r.text()
	}
	entry.Content = normalizeContent(entry)
	switch {
	case r.Proxied:
		return servedRecord{entry, "proxied"}
	case r.Type == "CNAME" && (r.Name == apex || r.Settings != nil && r.Settings.FlattenCNAME):
		return servedRecord{entry, "flattened"}
	}
	return servedRecord{Record: entry}
}

// text returns the text of a TXT record. If the content is not in the format of zone files, the
// whole content is the text.
func (r record) text() string {
	if text, err := sdk.UnquoteText(r.Content); err == nil {
		return text
	}
	return r.Content
}

// toAPI converts a record of the sandbox to the format of the API.
func (served servedRecord) toAPI() record {
	entry := served.Record
	r := record{Type: entry.Type, Name: strings.ToLower(entry.Name), Content: normalizeContent(entry), TTL: entry.TTL, Priority: entry.Priority, Proxied: served.Mode == "proxied"}
	switch {
	case entry.Type == "TXT":
		r.Content = sdk.QuoteText(entry.Content)
	case served.Mode == "flattened":
		r.Settings = &settings{FlattenCNAME: true}
	}
	return r
}

// errNoZone is the API's error for an unknown zone.
var errNoZone = refusal{7003, "Could not route to the zone"}

// edit calls change with the records of a zone, and stores the result unless change fails. In a
// sandbox, edit first writes the records to the sandbox. If the zone there has changed in the
// meantime, edit synchronizes the zone and calls change again.
func (sim *simulator) edit(ctx context.Context, name string, change func(*transaction) error) error {
	sim.editMu.Lock()
	defer sim.editMu.Unlock()
	for {
		if err := sim.syncFromSandbox(ctx, name); err != nil {
			return err
		}
		edited := &transaction{zone: name}
		var zoneInSandbox sandboxZone
		known := false
		sim.file.View(func(s *state) {
			if z := s.Zones[name]; z != nil {
				known, zoneInSandbox.Version = true, z.Version
				edited.records, edited.serial = slices.Clone(z.Records), s.Serial
			}
		})
		if !known {
			return errNoZone
		}
		if err := change(edited); err != nil {
			return err
		}
		err := sim.writeToSandbox(ctx, name, zoneInSandbox.Version, edited.records)
		if errors.Is(err, errZoneChanged) {
			continue
		}
		if err != nil {
			return err
		}
		return sim.file.Do(func(s *state) {
			s.Zones[name].Records, s.Serial = edited.records, max(s.Serial, edited.serial)
		})
	}
}

// writeToSandbox replaces the records of a zone in the sandbox. It fails with errZoneChanged if the
// zone there does not have this version. Outside a sandbox, it does nothing.
func (sim *simulator) writeToSandbox(ctx context.Context, name string, version uint32, records []record) error {
	if sim.sandbox == nil {
		return nil
	}
	zoneInSandbox := sandboxZone{Name: name, Version: version, Records: []sandboxRecord{}, Veiled: []servedRecord{}}
	for _, r := range records {
		if served := r.toSandbox(name); served.Mode != "" {
			zoneInSandbox.Veiled = append(zoneInSandbox.Veiled, served)
		} else {
			zoneInSandbox.Records = append(zoneInSandbox.Records, served.Record)
		}
	}
	return sim.sandbox.edit(ctx, zoneInSandbox)
}
