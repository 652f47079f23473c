// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// ErrMoved: the zone is not what the edit was made from.
var ErrMoved = errors.New("the zone has changed since it was read")

// Hosted is a zone as the provider that hosts it has it.
type Hosted struct {
	Name        string   `json:"name"`
	Provider    string   `json:"provider"`
	NameServers []string `json:"name_servers"`
	// Version counts the changes of the zone.
	Version uint32   `json:"version"`
	Records []Record `json:"records"`
	Veiled  []Veiled `json:"veiled"`
}

// Hosted lists the zones of a provider by name, or the one with this name.
func (s *Store) Hosted(provider, only string) []Hosted {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []Hosted{}
	for _, name := range slices.Sorted(maps.Keys(s.kept)) {
		if s.kept[name].Provider == provider && (only == "" || only == name) {
			out = append(out, s.hosted(name))
		}
	}
	return out
}

func (s *Store) hosted(name string) Hosted {
	k := s.kept[name]
	servers := hosts[k.Provider].servers
	return Hosted{
		Name: name, Provider: k.Provider, NameServers: servers[:], Version: k.Serial,
		Records: append([]Record{}, k.Records...), Veiled: append([]Veiled{}, k.Veiled...),
	}
}

// Edit makes h's records the whole of its zone, all or nothing, if the zone
// still has h's version.
func (s *Store) Edit(h Hosted) error {
	name := strings.ToLower(h.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.kept[name]
	switch {
	case !ok:
		return ErrUnknown
	case k.Serial != h.Version:
		return ErrMoved
	}
	return s.put(name, k.holding(h.Records, h.Veiled))
}

// holding is the next version of a zone.
func (k kept) holding(records []Record, veiled []Veiled) kept {
	k.Serial++
	k.Records, k.Veiled = make([]Record, len(records)), veiled
	for i, r := range records {
		r.Name = strings.ToLower(r.Name)
		k.Records[i] = r
	}
	return k
}
