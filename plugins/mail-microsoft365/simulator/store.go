// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// store holds the tenants, one file each.
type store struct {
	dir string

	mu      sync.Mutex
	tenants []*simulate.File[tenant]
	// byID holds ids and built-in domains, lower case; neither changes.
	byID map[string]*simulate.File[tenant]

	// verifying lets one verification through at a time: a domain may be
	// verified in one tenant only.
	verifying sync.Mutex
}

func openStore(dataDir string) (*store, error) {
	s := &store{dir: filepath.Join(dataDir, "tenants"), byID: map[string]*simulate.File[tenant]{}}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("tenants folder: %w", err)
	}
	paths, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths) // the names begin with the order of creation
	for _, path := range paths {
		if err := s.open(path, tenant{}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// open adds the tenant at path, which is fresh where there is no file.
func (s *store) open(path string, fresh tenant) error {
	f, err := simulate.OpenFile(path, fresh)
	if err != nil {
		return err
	}
	s.tenants = append(s.tenants, f)
	f.View(func(t *tenant) { s.byID[t.ID], s.byID[t.initial()] = f, f })
	return nil
}

// add makes one more tenant; make is told how many there are.
func (s *store) add(make func(serial int) tenant) (tenant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := make(len(s.tenants) + 1)
	return t, s.open(filepath.Join(s.dir, fmt.Sprintf("%06d.json", t.Serial)), t)
}

// all lists the tenants in the order of creation.
func (s *store) all() []*simulate.File[tenant] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tenants)
}

// find returns the tenant that a GUID or one of its verified domains names,
// or nil.
func (s *store) find(name string) *simulate.File[tenant] {
	name = strings.ToLower(name)
	s.mu.Lock()
	f := s.byID[name]
	s.mu.Unlock()
	if f != nil {
		return f
	}
	return s.owner(name)
}

// owner returns the tenant in which a custom domain is verified, or nil.
func (s *store) owner(domain string) *simulate.File[tenant] {
	for _, f := range s.all() {
		owns := false
		f.View(func(t *tenant) {
			d := t.domain(domain)
			owns = d != nil && d.Verified
		})
		if owns {
			return f
		}
	}
	return nil
}
