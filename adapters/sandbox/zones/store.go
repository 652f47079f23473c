// SPDX-License-Identifier: Apache-2.0

// Package zones is the sandbox's DNS: its zones, kept on disk, and the server
// that is authoritative for all of them.
package zones

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
	"golang.org/x/net/publicsuffix"
)

// ErrUnknown: there is no such zone.
var ErrUnknown = errors.New("no such zone")

// Store holds the zones. It is safe for concurrent use.
type Store struct {
	path string

	mu    sync.RWMutex
	kept  map[string]kept
	zones map[string]*zone // those kept and the built-in ones
}

// kept is a zone as it is on disk.
type kept struct {
	Provider string   `json:"provider"`
	Serial   uint32   `json:"serial"`
	Records  []Record `json:"records"`
	Veiled   []Veiled `json:"veiled,omitempty"`
}

// Open reads the zones kept at path.
func Open(path string) (*Store, error) {
	s := &Store{path: path, kept: map[string]kept{}, zones: builtin()}
	if err := disk.Load(path, &s.kept); err != nil {
		return nil, fmt.Errorf("read zones: %w", err)
	}
	for name, k := range s.kept {
		z, err := makeZone(name, k)
		if err != nil {
			return nil, fmt.Errorf("read zone %s: %w", name, err)
		}
		s.zones[name] = z
	}
	return s, nil
}

// Names lists the zones by name, without the built-in ones.
func (s *Store) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.kept))
}

// Add makes an empty zone at a provider. Adding it once more changes nothing.
func (s *Store) Add(name, provider string) error {
	name = strings.ToLower(name)
	if _, ok := hosts[provider]; !ok {
		return invalid("provider is cloudflare or manual")
	}
	if suffix, _ := publicsuffix.PublicSuffix(name); !hostName.MatchString(name) || len(name) > 253 || suffix == name {
		return invalid("name is a host name of two labels or more, without the final dot, and no public suffix")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.kept[name]; ok {
		if k.Provider != provider {
			return invalid("zone %s exists at another provider", name)
		}
		return nil
	}
	if _, ok := s.zones[name]; ok {
		return invalid("zone %s belongs to the sandbox itself", name)
	}
	return s.put(name, kept{Provider: provider, Serial: 1, Records: []Record{}})
}

// Records lists what the server serves of a zone but for the SOA and NS of its
// apex: of a veiled record its answers.
func (s *Store) Records(name string) ([]Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	name = strings.ToLower(name)
	k, ok := s.kept[name]
	if !ok {
		return nil, ErrUnknown
	}
	return append(append([]Record{}, k.Records...), s.unveiled(s.zones[name])...), nil
}

// Replace makes records the whole of a zone, but for the SOA and NS of its
// apex. They are served when it returns.
func (s *Store) Replace(name string, records []Record) error {
	name = strings.ToLower(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.kept[name]
	if !ok {
		return ErrUnknown
	}
	return s.put(name, k.holding(records, nil))
}

// put checks a zone, writes it down and serves it, in this order. The caller
// holds the lock.
func (s *Store) put(name string, k kept) error {
	z, err := makeZone(name, k)
	if err != nil {
		return err
	}
	next := maps.Clone(s.kept)
	next[name] = k
	if err := disk.Save(s.path, next); err != nil {
		return fmt.Errorf("save zones: %w", err)
	}
	s.kept, s.zones[name] = next, z
	return nil
}

// enclosing finds the zone that holds name: the longest one.
func (s *Store) enclosing(name string) *zone {
	for n := name; n != ""; _, n, _ = strings.Cut(n, ".") {
		if z, ok := s.zones[n]; ok {
			return z
		}
	}
	return nil
}

// registry is the zone above all others that name would have to be registered
// in: its top level where any zone lies below it, else the root.
func (s *Store) registry(name string) string {
	top := name[strings.LastIndexByte(name, '.')+1:]
	for apex := range s.zones {
		if within(apex, top) {
			return top
		}
	}
	return ""
}
