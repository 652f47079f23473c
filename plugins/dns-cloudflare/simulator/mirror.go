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

// automaticTTL is what an automatic TTL is in the DNS.
const automaticTTL = 300

// meet brings what is kept of a zone, or of all, to what the world has. What
// Cloudflare adds to a record (id, comment, automatic TTL) is kept for those that
// are still as it wrote them; one changed by hand is another record.
func (c *cloudflare) meet(ctx context.Context, name string) error {
	if c.world == nil {
		return nil
	}
	found, err := c.world.zones(ctx, name)
	if err != nil {
		return err
	}
	return c.file.Do(func(s *state) {
		there := map[string]bool{}
		for _, h := range found {
			there[h.Name] = true
			s.zone(h.Name).follow(h, s)
		}
		maps.DeleteFunc(s.Zones, func(n string, _ *zone) bool { return (name == "" || name == n) && !there[n] })
	})
}

// zone finds or makes a zone.
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

func (z *zone) follow(h hosted, s *state) {
	z.Version, z.NameServers = h.Version, h.NameServers
	seen := map[string]veiled{}
	for _, e := range h.Records {
		seen[veiled{Record: e}.key()] = veiled{Record: e}
	}
	for _, v := range h.Veiled {
		seen[v.key()] = v
	}
	var kept []record
	for _, r := range z.Records {
		key := r.worldly(z.Name).key()
		if _, ok := seen[key]; ok {
			kept = append(kept, r)
			delete(seen, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		r := seen[key].listed()
		r.ID = s.recordID()
		kept = append(kept, r)
	}
	z.Records = kept
}

func (v veiled) key() string {
	e := v.Record
	e.Name = strings.ToLower(e.Name)
	e.Content = entryContent(e)
	raw, _ := json.Marshal(veiled{e, v.As})
	return string(raw)
}

// entryContent is the same for contents that say the same.
func entryContent(e entry) string {
	if e.Type == "TXT" || e.Content == "." {
		return e.Content
	}
	return strings.TrimSuffix(e.Content, ".")
}

// worldly is a record as the world has it.
func (r record) worldly(apex string) veiled {
	e := entry{Type: r.Type, Name: r.Name, Content: r.Content, TTL: r.TTL, Priority: r.Priority}
	if e.TTL == 1 {
		e.TTL = automaticTTL
	}
	if r.Type == "TXT" {
		e.Content = r.text()
	}
	e.Content = entryContent(e)
	switch {
	case r.Proxied:
		return veiled{e, "proxied"}
	case r.Type == "CNAME" && (r.Name == apex || r.Settings != nil && r.Settings.FlattenCNAME):
		return veiled{e, "flattened"}
	}
	return veiled{Record: e}
}

// text is what a TXT says; content that is not as zone files write it is the text.
func (r record) text() string {
	if text, err := sdk.UnquoteText(r.Content); err == nil {
		return text
	}
	return r.Content
}

// listed is a record that the world has, as the API lists it.
func (v veiled) listed() record {
	e := v.Record
	r := record{Type: e.Type, Name: strings.ToLower(e.Name), Content: entryContent(e), TTL: e.TTL, Priority: e.Priority, Proxied: v.As == "proxied"}
	switch {
	case e.Type == "TXT":
		r.Content = sdk.QuoteText(e.Content)
	case v.As == "flattened":
		r.Settings = &settings{FlattenCNAME: true}
	}
	return r
}

// errNoZone: the API knows no such zone.
var errNoZone = refusal{7003, "Could not route to the zone"}

// edit changes the records of a zone with fn, all or nothing: in the world first,
// where one that was changed by hand meanwhile is met and edited again.
func (c *cloudflare) edit(ctx context.Context, name string, fn func(*transaction) error) error {
	c.editing.Lock()
	defer c.editing.Unlock()
	for {
		if err := c.meet(ctx, name); err != nil {
			return err
		}
		work := &transaction{zone: name}
		var h hosted
		known := false
		c.file.View(func(s *state) {
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
		err := c.publish(ctx, name, h.Version, work.records)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return err
		}
		return c.file.Do(func(s *state) {
			s.Zones[name].Records, s.Serial = work.records, max(s.Serial, work.serial)
		})
	}
}

// publish gives the world the records of a zone.
func (c *cloudflare) publish(ctx context.Context, name string, version uint32, records []record) error {
	if c.world == nil {
		return nil
	}
	h := hosted{Name: name, Version: version, Records: []entry{}, Veiled: []veiled{}}
	for _, r := range records {
		if v := r.worldly(name); v.As != "" {
			h.Veiled = append(h.Veiled, v)
		} else {
			h.Records = append(h.Records, v.Record)
		}
	}
	return c.world.edit(ctx, h)
}
