// SPDX-License-Identifier: Apache-2.0

// Package zones is the DNS of the sandbox. Store keeps the zones in a file. Server answers for all
// zones, both as authoritative server and as resolver.
//
// For some records the provider's name servers answer with different records. Such a record is
// called veiled. There are two kinds: flattened CNAMEs and proxied hosts.
//
//   - store.go: Store, its zones on disk, and Hosted, a zone as its provider sees it. Start here.
//   - server.go: Server, and how it answers a question.
//   - zone.go: zone, the records of one zone, keyed by name.
//   - record.go: Record, a record as people write it.
//   - veiled.go: the answers for veiled records.
//   - providers.go: the providers that host zones, and the names of their name servers.
//   - builtin.go: the zones that always exist.
//   - messyzones.go: MessyZones, the zones of a seeded sandbox that already have records.
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

// ErrUnknown means that no stored zone has the name.
var ErrUnknown = errors.New("no such zone")

// Store holds all zones. It is safe for concurrent use.
type Store struct {
	path string

	mu     sync.RWMutex
	stored map[string]storedZone
	zones  map[string]*zone // the stored zones, the built-in zones and the zones of ServeOwn, by apex
}

// storedZone is a zone as it is stored on disk.
type storedZone struct {
	Provider      string         `json:"provider"`
	Serial        uint32         `json:"serial"`
	Records       []Record       `json:"records"`
	VeiledRecords []VeiledRecord `json:"veiled,omitempty"`
}

// Open returns a Store with the zones in the file at path. It fails when the file cannot be read or
// contains an invalid zone.
func Open(path string) (*Store, error) {
	s := &Store{path: path, stored: map[string]storedZone{}, zones: builtinZones()}
	if err := disk.Load(path, &s.stored); err != nil {
		return nil, fmt.Errorf("read zones: %w", err)
	}
	for name, stored := range s.stored {
		z, err := newZone(name, stored)
		if err != nil {
			return nil, fmt.Errorf("read zone %s: %w", name, err)
		}
		s.zones[name] = z
	}
	return s, nil
}

// Names returns the sorted names of the stored zones.
func (s *Store) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.stored))
}

// Add creates an empty zone that the provider hosts. It does nothing if the provider already hosts
// the zone. It fails with an InvalidError if the name or the provider is invalid, if another
// provider hosts the zone, or if the zone is built in or from ServeOwn.
func (s *Store) Add(name, provider string) error {
	name = strings.ToLower(name)
	if !hostNamePattern.MatchString(provider) || strings.Contains(provider, ".") {
		return invalid("provider must be the id of a provider")
	}
	if suffix, _ := publicsuffix.PublicSuffix(name); !hostNamePattern.MatchString(name) || len(name) > 253 || suffix == name {
		return invalid("name must be a host name of two labels or more, without the final dot, and must not be a public suffix")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored, ok := s.stored[name]; ok {
		if stored.Provider != provider {
			return invalid("zone %s exists at another provider", name)
		}
		return nil
	}
	if _, ok := s.zones[name]; ok {
		return invalid("zone %s belongs to the sandbox itself", name)
	}
	return s.put(name, storedZone{Provider: provider, Serial: 1, Records: []Record{}})
}

// ServeOwn serves a provider's own zone. The records of customers refer to names in this zone,
// for example to the hosts of a mail platform. ServeOwn replaces the zone of an earlier call with
// the same apex. It does not store the zone, because the provider's simulator specifies it at each
// start. A wildcard with a DKIM key answers only for DKIM selectors, as at a real platform.
// ServeOwn fails with an InvalidError if apex or a record is invalid, or if apex is a stored or a
// built-in zone.
func (s *Store) ServeOwn(apex string, records []Record) error {
	if !hostNamePattern.MatchString(apex) || !strings.Contains(apex, ".") {
		return invalid("the name of a zone must be a host name of two labels or more in lower case, without the final dot")
	}
	z, err := newZone(apex, storedZone{Provider: registrarProvider, Serial: 1, Records: records})
	if err != nil {
		return err
	}
	z.isProvidersOwn = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if existing, ok := s.zones[apex]; ok && !existing.isProvidersOwn {
		return invalid("zone %s exists already", apex)
	}
	s.zones[apex] = z
	return nil
}

// Records returns the records with which the server answers, without the SOA and NS records of the
// apex. For a veiled record it returns the A, AAAA, MX and TXT records of the answer instead. It
// fails with ErrUnknown if the zone is not stored.
func (s *Store) Records(name string) ([]Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	name = strings.ToLower(name)
	stored, ok := s.stored[name]
	if !ok {
		return nil, ErrUnknown
	}
	return append(append([]Record{}, stored.Records...), s.veiledAsServed(s.zones[name])...), nil
}

// Replace replaces all records of a zone. It keeps the SOA and NS records of the apex. It removes
// veiled records. The server answers with the new records when Replace returns.
func (s *Store) Replace(name string, records []Record) error {
	name = strings.ToLower(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.stored[name]
	if !ok {
		return ErrUnknown
	}
	return s.put(name, stored.nextVersion(records, nil))
}

// put checks a zone, then saves it, then serves it. The caller holds the lock.
func (s *Store) put(name string, stored storedZone) error {
	z, err := newZone(name, stored)
	if err != nil {
		return err
	}
	next := maps.Clone(s.stored)
	next[name] = stored
	if err := disk.Save(s.path, next); err != nil {
		return fmt.Errorf("save zones: %w", err)
	}
	s.stored, s.zones[name] = next, z
	return nil
}

// enclosingZone returns the zone with the longest name that contains name, or nil.
func (s *Store) enclosingZone(name string) *zone {
	for n := name; n != ""; _, n, _ = strings.Cut(n, ".") {
		if z, ok := s.zones[n]; ok {
			return z
		}
	}
	return nil
}

// registryOf returns the zone in which name would be registered. That is the top-level domain if
// any zone exists below it, otherwise the root "".
func (s *Store) registryOf(name string) string {
	top := name[strings.LastIndexByte(name, '.')+1:]
	for apex := range s.zones {
		if isWithin(apex, top) {
			return top
		}
	}
	return ""
}

// ErrChanged means that the zone was changed after Hosted.Version was read.
var ErrChanged = errors.New("the zone has changed since it was read")

// Hosted is a zone as its provider sees it, including veiled records.
type Hosted struct {
	Name        string   `json:"name"`
	Provider    string   `json:"provider"`
	NameServers []string `json:"name_servers"`
	// Version increases with each change of the zone.
	Version       uint32         `json:"version"`
	Records       []Record       `json:"records"`
	VeiledRecords []VeiledRecord `json:"veiled"`
}

// Hosted returns the zones of a provider, sorted by name. If onlyName is not empty, it returns only
// the zone with that name.
func (s *Store) Hosted(provider, onlyName string) []Hosted {
	s.mu.RLock()
	defer s.mu.RUnlock()
	hosted := []Hosted{}
	for _, name := range slices.Sorted(maps.Keys(s.stored)) {
		if s.stored[name].Provider == provider && (onlyName == "" || onlyName == name) {
			hosted = append(hosted, s.hostedZone(name))
		}
	}
	return hosted
}

func (s *Store) hostedZone(name string) Hosted {
	stored := s.stored[name]
	return Hosted{
		Name: name, Provider: stored.Provider, NameServers: NameServers(stored.Provider), Version: stored.Serial,
		Records: append([]Record{}, stored.Records...), VeiledRecords: append([]VeiledRecord{}, stored.VeiledRecords...),
	}
}

// Edit replaces all records of a zone. It fails with ErrUnknown if the zone is not stored, with
// ErrChanged if the zone's version is not h.Version, and with an InvalidError if the records are
// invalid. If Edit fails, it changes nothing.
func (s *Store) Edit(h Hosted) error {
	name := strings.ToLower(h.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.stored[name]
	switch {
	case !ok:
		return ErrUnknown
	case stored.Serial != h.Version:
		return ErrChanged
	}
	return s.put(name, stored.nextVersion(h.Records, h.VeiledRecords))
}

// nextVersion returns the zone with new records and the next serial.
func (stored storedZone) nextVersion(records []Record, veiled []VeiledRecord) storedZone {
	stored.Serial++
	stored.Records, stored.VeiledRecords = make([]Record, len(records)), veiled
	for i, r := range records {
		r.Name = strings.ToLower(r.Name)
		stored.Records[i] = r
	}
	return stored
}
