// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
)

// Zone is a zone of a simulated DNS provider.
type Zone struct {
	Name        string   `json:"name"` // the apex, in lower case without the final dot
	NameServers []string `json:"name_servers"`
	// Version increases with each change of the zone.
	Version uint32   `json:"version"`
	Records []Record `json:"records"` // without the SOA and NS records of the apex
}

// Record is one record of a Zone. Names are fully qualified without the final dot. The content of a
// TXT record is its text, without quotes.
type Record struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Content  string `json:"content"`
	TTL      int    `json:"ttl"`
	Priority *int   `json:"priority,omitempty"` // MX and SRV
}

// SetsOf returns the record sets of a zone's records, in the order of their first records.
func SetsOf(records []Record) (sets []dns.RRSet) {
	for _, r := range records {
		value := r.Content
		if r.Priority != nil {
			value = strconv.Itoa(*r.Priority) + " " + r.Content
		}
		i := slices.IndexFunc(sets, func(s dns.RRSet) bool { return s.Name == r.Name && string(s.Type) == r.Type })
		if i < 0 {
			i, sets = len(sets), append(sets, dns.RRSet{Name: r.Name, Type: dns.Type(r.Type), TTL: r.TTL})
		}
		sets[i].Values = append(sets[i].Values, value)
	}
	return sets
}

// RecordsOf returns the records of record sets, one record for each value.
func RecordsOf(sets []dns.RRSet) []Record {
	records := []Record{}
	for _, s := range sets {
		for _, value := range s.Values {
			r := Record{Type: string(s.Type), Name: s.Name, Content: value, TTL: s.TTL}
			if priority, rest, ok := strings.Cut(value, " "); ok && (s.Type == dns.MX || s.Type == "SRV") {
				if n, err := strconv.Atoi(priority); err == nil {
					r.Priority, r.Content = &n, rest
				}
			}
			records = append(records, r)
		}
	}
	return records
}

// The errors of Zones.
var (
	// ErrNoZone is the error for a zone that does not exist.
	ErrNoZone = errors.New("no such zone")
	// ErrZoneChanged is the error of Edit for a zone that no longer has the expected version.
	ErrZoneChanged = errors.New("the zone has changed")
)

// InvalidRecords is the error of Edit for records that the sandbox refuses, with the sandbox's
// text.
type InvalidRecords string

func (i InvalidRecords) Error() string { return string(i) }

// Zones are the zones of a simulated DNS provider. If Options.World is set, the sandbox stores the
// zones. Otherwise, the simulator stores them in a file of its data folder, and the control calls
// of Control create them.
type Zones struct {
	kit     *Kit
	file    *File[map[string]Zone] // not used in a sandbox
	sandbox *sandboxZones          // nil outside a sandbox
}

// OpenZones returns the zones of the provider of k. It fails if the data folder cannot be used.
func OpenZones(k *Kit) (*Zones, error) {
	file, err := OpenFile(filepath.Join(k.DataDir, "zones.json"), map[string]Zone{})
	if err != nil {
		return nil, err
	}
	return &Zones{kit: k, file: file, sandbox: newSandboxZones(k.World, k.name)}, nil
}

// List returns all zones of the provider.
func (z *Zones) List(ctx context.Context) (all []Zone, err error) {
	if z.sandbox != nil {
		return z.sandbox.zones(ctx, "")
	}
	z.file.View(func(zones *map[string]Zone) {
		for _, name := range slices.Sorted(maps.Keys(*zones)) {
			all = append(all, (*zones)[name])
		}
	})
	return all, nil
}

// Get returns the zone with this name, ignoring case. It fails with ErrNoZone if there is no such
// zone.
func (z *Zones) Get(ctx context.Context, name string) (Zone, error) {
	name = strings.ToLower(name)
	var zones []Zone
	var err error
	if z.sandbox != nil {
		zones, err = z.sandbox.zones(ctx, name)
	} else {
		zones, err = z.List(ctx)
	}
	if err != nil {
		return Zone{}, err
	}
	for _, zone := range zones {
		if zone.Name == name {
			return zone, nil
		}
	}
	return Zone{}, ErrNoZone
}

// Edit replaces the records of a zone if the zone still has this version. It fails with ErrNoZone,
// ErrZoneChanged or InvalidRecords, and the zone is then unchanged. After any other error, such as
// a lost connection to the sandbox, the zone may have changed.
func (z *Zones) Edit(ctx context.Context, name string, version uint32, records []Record) error {
	name = strings.ToLower(name)
	if z.sandbox != nil {
		return z.sandbox.edit(ctx, name, version, records)
	}
	return z.file.Try(func(zones *map[string]Zone) error {
		zone, ok := (*zones)[name]
		switch {
		case !ok:
			return ErrNoZone
		case zone.Version != version:
			return ErrZoneChanged
		}
		zone.Version, zone.Records = version+1, append([]Record{}, records...)
		(*zones)[name] = zone
		return nil
	})
}

// Control returns the handler of the control calls for zones. In a sandbox, it refuses the first of
// these calls, because only the sandbox creates zones:
//
//	PUT /_control/zones/{name}            creates an empty zone, unless the zone exists
//	GET /_control/zones/{name}/records    returns the records of the zone
//	PUT /_control/zones/{name}/records    [Record]: replaces all records of the zone
func (z *Zones) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /_control/zones/{name}", func(w http.ResponseWriter, r *http.Request) {
		z.kit.answerControlCall(w, struct{}{}, z.create(strings.ToLower(r.PathValue("name"))))
	})
	mux.HandleFunc("GET /_control/zones/{name}/records", func(w http.ResponseWriter, r *http.Request) {
		zone, err := z.Get(r.Context(), r.PathValue("name"))
		z.kit.answerControlCall(w, append([]Record{}, zone.Records...), asControlError(err))
	})
	mux.HandleFunc("PUT /_control/zones/{name}/records", func(w http.ResponseWriter, r *http.Request) {
		var records []Record
		err := ReadBody(r, &records)
		if err == nil {
			err = z.replace(r.Context(), r.PathValue("name"), records)
		}
		z.kit.answerControlCall(w, struct{}{}, asControlError(err))
	})
	return ControlCalls(mux, nil)
}

func (z *Zones) create(name string) error {
	if z.sandbox != nil {
		return BadRequest("the sandbox creates zones: POST /zones of its control interface")
	}
	return z.file.Do(func(zones *map[string]Zone) {
		if _, exists := (*zones)[name]; !exists {
			(*zones)[name] = Zone{Name: name, Version: 1, NameServers: NameServers(z.kit.name), Records: []Record{}}
		}
	})
}

// replace replaces the records of a zone, whatever its version is.
func (z *Zones) replace(ctx context.Context, name string, records []Record) error {
	for {
		zone, err := z.Get(ctx, name)
		if err != nil {
			return err
		}
		if err = z.Edit(ctx, name, zone.Version, records); !errors.Is(err, ErrZoneChanged) {
			return err
		}
	}
}

// asControlError converts an error of Zones to the error of a control call.
func asControlError(err error) error {
	switch {
	case errors.Is(err, ErrNoZone):
		return NotFound("no such zone")
	case errors.As(err, new(InvalidRecords)):
		return BadRequest(err.Error())
	}
	return err
}

// NameServers returns the names of the name servers of a simulated DNS provider. provider is the
// provider's id. The sandbox uses the same names, except for the provider cloudflare and for
// manual, its simulated registrar.
func NameServers(provider string) []string {
	return []string{"ns1." + provider + ".sandbox-dns.test", "ns2." + provider + ".sandbox-dns.test"}
}
