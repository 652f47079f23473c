// SPDX-License-Identifier: Apache-2.0

// Package zones is the DNS of the sandbox. Store keeps the zones in a file, and Server answers for
// all of them, as authoritative server and as resolver.
//
// A veiled record is one that the provider stores but answers differently, as Cloudflare does:
// flattened CNAMEs and proxied hosts.
//
//   - store.go: Store, its zones on disk, and Hosted, a zone as its provider sees it. Start here.
//   - server.go: Server, and how it answers a question.
//   - zone.go: zone, the records of one zone by name. record.go: Record, a record as people write
//     it.
//   - veiled.go: the answers for veiled records.
//   - builtin.go: the zones that always exist. messyzones.go: MessyZones, zones of a seeded
//     sandbox.
package zones

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
)

// ErrUnknown means that the zone does not exist.
var ErrUnknown = errors.New("no such zone")

// Store holds the zones. It is safe for concurrent use.
type Store struct {
	path string

	mu     sync.RWMutex
	stored map[string]storedZone
	zones  map[string]*zone // the stored and the built-in zones, by apex
}

// storedZone is a zone as it is stored on disk.
type storedZone struct {
	Provider string   `json:"provider"`
	Serial   uint32   `json:"serial"`
	Records  []Record `json:"records"`
	Veiled   []Veiled `json:"veiled,omitempty"`
}

// Open returns a Store with the zones in the file at path. It fails when the file cannot be read or
// holds an invalid zone.
func Open(path string) (*Store, error) {
	s := &Store{path: path, stored: map[string]storedZone{}, zones: builtin()}
	if err := disk.Load(path, &s.stored); err != nil {
		return nil, fmt.Errorf("read zones: %w", err)
	}
	for name, k := range s.stored {
		z, err := newZone(name, k)
		if err != nil {
			return nil, fmt.Errorf("read zone %s: %w", name, err)
		}
		s.zones[name] = z
	}
	return s, nil
}

// Names returns the sorted names of the zones, without the built-in ones.
func (s *Store) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.stored))
}

// Add creates an empty zone at a provider. It does nothing when the zone exists at that provider,
// and fails with Invalid for a bad name or provider.
func (s *Store) Add(name, provider string) error {
	name = strings.ToLower(name)
	if _, ok := hostings[provider]; !ok {
		return invalid("provider must be cloudflare or manual")
	}
	if suffix, _ := publicsuffix.PublicSuffix(name); !hostName.MatchString(name) || len(name) > 253 || suffix == name {
		return invalid("name must be a host name of two labels or more, without the final dot, and must not be a public suffix")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.stored[name]; ok {
		if k.Provider != provider {
			return invalid("zone %s exists at another provider", name)
		}
		return nil
	}
	if _, ok := s.zones[name]; ok {
		return invalid("zone %s belongs to the sandbox itself", name)
	}
	return s.put(name, storedZone{Provider: provider, Serial: 1, Records: []Record{}})
}

// Records returns the records that the server answers with, except the SOA and NS of the apex. For
// veiled records it returns their answers.
func (s *Store) Records(name string) ([]Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	name = strings.ToLower(name)
	k, ok := s.stored[name]
	if !ok {
		return nil, ErrUnknown
	}
	return append(append([]Record{}, k.Records...), s.veiledAsServed(s.zones[name])...), nil
}

// Replace replaces all records of a zone, except the SOA and NS of its apex. The server answers
// with them when Replace returns.
func (s *Store) Replace(name string, records []Record) error {
	name = strings.ToLower(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.stored[name]
	if !ok {
		return ErrUnknown
	}
	return s.put(name, k.nextVersion(records, nil))
}

// put checks a zone, saves it and serves it, in this order. The caller holds the lock.
func (s *Store) put(name string, k storedZone) error {
	z, err := newZone(name, k)
	if err != nil {
		return err
	}
	next := maps.Clone(s.stored)
	next[name] = k
	if err := disk.Save(s.path, next); err != nil {
		return fmt.Errorf("save zones: %w", err)
	}
	s.stored, s.zones[name] = next, z
	return nil
}

// enclosing returns the zone with the longest name that contains name, or nil.
func (s *Store) enclosing(name string) *zone {
	for n := name; n != ""; _, n, _ = strings.Cut(n, ".") {
		if z, ok := s.zones[n]; ok {
			return z
		}
	}
	return nil
}

// registryOf returns the zone in which name would be registered: its top-level domain when a zone
// exists below it, else the root.
func (s *Store) registryOf(name string) string {
	top := name[strings.LastIndexByte(name, '.')+1:]
	for apex := range s.zones {
		if within(apex, top) {
			return top
		}
	}
	return ""
}

// ErrChanged means that the zone has changed since the edit's version was read.
var ErrChanged = errors.New("the zone has changed since it was read")

// Hosted is a zone as its provider sees it, including veiled records.
type Hosted struct {
	Name        string   `json:"name"`
	Provider    string   `json:"provider"`
	NameServers []string `json:"name_servers"`
	// Version counts the changes of the zone.
	Version uint32   `json:"version"`
	Records []Record `json:"records"`
	Veiled  []Veiled `json:"veiled"`
}

// Hosted returns the zones of a provider, sorted by name. With a non-empty only, it returns that
// zone alone.
func (s *Store) Hosted(provider, only string) []Hosted {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []Hosted{}
	for _, name := range slices.Sorted(maps.Keys(s.stored)) {
		if s.stored[name].Provider == provider && (only == "" || only == name) {
			out = append(out, s.hostedZone(name))
		}
	}
	return out
}

func (s *Store) hostedZone(name string) Hosted {
	k := s.stored[name]
	servers := hostings[k.Provider].servers
	return Hosted{
		Name: name, Provider: k.Provider, NameServers: servers[:], Version: k.Serial,
		Records: append([]Record{}, k.Records...), Veiled: append([]Veiled{}, k.Veiled...),
	}
}

// Edit replaces all records of a zone. It fails with ErrChanged when the zone no longer has h's
// version, with ErrUnknown when it does not exist, and with Invalid for a bad record; then nothing
// changes.
func (s *Store) Edit(h Hosted) error {
	name := strings.ToLower(h.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.stored[name]
	switch {
	case !ok:
		return ErrUnknown
	case k.Serial != h.Version:
		return ErrChanged
	}
	return s.put(name, k.nextVersion(h.Records, h.Veiled))
}

// nextVersion returns the zone with new records and the next serial.
func (k storedZone) nextVersion(records []Record, veiled []Veiled) storedZone {
	k.Serial++
	k.Records, k.Veiled = make([]Record, len(records)), veiled
	for i, r := range records {
		r.Name = strings.ToLower(r.Name)
		k.Records[i] = r
	}
	return k
}
