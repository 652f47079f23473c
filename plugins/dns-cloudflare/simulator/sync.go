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

// automaticTTL is the TTL in seconds that the DNS server uses for an automatic TTL.
const automaticTTL = 300

// syncFromSandbox updates the zone with the given name, or all zones for an empty name, from the
// sandbox. An unchanged record keeps what only Cloudflare stores: id, comment and automatic TTL. A
// record that was changed by hand in the sandbox is replaced by a new one.
func (sim *simulator) syncFromSandbox(ctx context.Context, name string) error {
	if sim.sandbox == nil {
		return nil
	}
	found, err := sim.sandbox.zones(ctx, name)
	if err != nil {
		return err
	}
	return sim.file.Do(func(s *state) {
		exists := map[string]bool{}
		for _, h := range found {
			exists[h.Name] = true
			s.zone(h.Name).updateFrom(h, s)
		}
		maps.DeleteFunc(s.Zones, func(n string, _ *zone) bool { return (name == "" || name == n) && !exists[n] })
	})
}

// zone returns the zone with the given name and creates it if necessary.
func (s *state) zone(name string) *zone {
	if s.Zones[name] == nil {
		s.Serial++
		s.Zones[name] = &zone{ID: fmt.Sprintf("%032x", 0xc0de0000+s.Serial), Name: name, Status: "active"}
	}
	return s.Zones[name]
}

func (s *state) recordID() string {
	s.Serial++
	return fmt.Sprintf("%032x", 0xbeef0000+s.Serial)
}

// updateFrom makes the zone equal to h. Records that are equal in both are kept.
func (z *zone) updateFrom(h sandboxZone, s *state) {
	z.Version, z.NameServers = h.Version, h.NameServers
	unmatched := map[string]servedRecord{}
	for _, e := range h.Records {
		unmatched[servedRecord{Record: e}.key()] = servedRecord{Record: e}
	}
	for _, v := range h.Replaced {
		unmatched[v.key()] = v
	}
	var kept []record
	for _, r := range z.Records {
		key := r.toSandbox(z.Name).key()
		if _, ok := unmatched[key]; ok {
			kept = append(kept, r)
			delete(unmatched, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unmatched)) {
		r := unmatched[key].toAPI()
		r.ID = s.recordID()
		kept = append(kept, r)
	}
	z.Records = kept
}

// key returns a string that is equal for equal records.
func (v servedRecord) key() string {
	e := v.Record
	e.Name = strings.ToLower(e.Name)
	e.Content = normalizeContent(e)
	raw, _ := json.Marshal(servedRecord{e, v.As})
	return string(raw)
}

// normalizeContent returns the content without the final dot of a name, so that contents can be
// compared.
func normalizeContent(e sandboxRecord) string {
	if e.Type == "TXT" || e.Content == "." {
		return e.Content
	}
	return strings.TrimSuffix(e.Content, ".")
}

// toSandbox converts a record to the format of the sandbox.
func (r record) toSandbox(apex string) servedRecord {
	e := sandboxRecord{Type: r.Type, Name: r.Name, Content: r.Content, TTL: r.TTL, Priority: r.Priority}
	if e.TTL == 1 {
		e.TTL = automaticTTL
	}
	if r.Type == "TXT" {
		e.Content = r.text()
	}
	e.Content = normalizeContent(e)
	switch {
	case r.Proxied:
		return servedRecord{e, "proxied"}
	case r.Type == "CNAME" && (r.Name == apex || r.Settings != nil && r.Settings.FlattenCNAME):
		return servedRecord{e, "flattened"}
	}
	return servedRecord{Record: e}
}

// text returns the text of a TXT record. A content that is not in the format of zone files is the
// text.
func (r record) text() string {
	if text, err := sdk.UnquoteText(r.Content); err == nil {
		return text
	}
	return r.Content
}

// toAPI converts a record of the sandbox to the format of the API.
func (v servedRecord) toAPI() record {
	e := v.Record
	r := record{Type: e.Type, Name: strings.ToLower(e.Name), Content: normalizeContent(e), TTL: e.TTL, Priority: e.Priority, Proxied: v.As == "proxied"}
	switch {
	case e.Type == "TXT":
		r.Content = sdk.QuoteText(e.Content)
	case v.As == "flattened":
		r.Settings = &settings{FlattenCNAME: true}
	}
	return r
}

// errNoZone is the API's error for an unknown zone.
var errNoZone = refusal{7003, "Could not route to the zone"}

// edit changes the records of a zone with fn. Either all changes take effect or none. It writes to
// the sandbox first. If the zone was changed there meanwhile, edit synchronizes it and runs fn
// again.
func (sim *simulator) edit(ctx context.Context, name string, fn func(*transaction) error) error {
	sim.editing.Lock()
	defer sim.editing.Unlock()
	for {
		if err := sim.syncFromSandbox(ctx, name); err != nil {
			return err
		}
		work := &transaction{zone: name}
		var h sandboxZone
		known := false
		sim.file.View(func(s *state) {
			if z := s.Zones[name]; z != nil {
				known, h.Version = true, z.Version
				work.records, work.serial = slices.Clone(z.Records), s.Serial
			}
		})
		if !known {
			return errNoZone
		}
		if err := fn(work); err != nil {
			return err
		}
		err := sim.writeToSandbox(ctx, name, h.Version, work.records)
		if errors.Is(err, errZoneChanged) {
			continue
		}
		if err != nil {
			return err
		}
		return sim.file.Do(func(s *state) {
			s.Zones[name].Records, s.Serial = work.records, max(s.Serial, work.serial)
		})
	}
}

// writeToSandbox replaces the records of a zone in the sandbox. It fails with errZoneChanged if the
// zone there does not have the given version.
func (sim *simulator) writeToSandbox(ctx context.Context, name string, version uint32, records []record) error {
	if sim.sandbox == nil {
		return nil
	}
	h := sandboxZone{Name: name, Version: version, Records: []sandboxRecord{}, Replaced: []servedRecord{}}
	for _, r := range records {
		if v := r.toSandbox(name); v.As != "" {
			h.Replaced = append(h.Replaced, v)
		} else {
			h.Records = append(h.Records, v.Record)
		}
	}
	return sim.sandbox.edit(ctx, h)
}
