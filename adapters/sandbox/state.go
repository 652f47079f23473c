// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
)

// anyPort is an address for which the kernel chooses a free port on loopback.
const anyPort = "127.0.0.1:0"

// addresses stores the last addresses of the control interface and of the simulators, keyed by
// name. After a restart, the control interface and the simulators use their last addresses again if
// these are free. Links and credentials that contain an address then stay valid.
type addresses struct {
	path   string
	byName map[string]string
}

func openAddresses(path string) (*addresses, error) {
	a := &addresses{path: path, byName: map[string]string{}}
	if err := disk.Load(path, &a.byName); err != nil {
		return nil, fmt.Errorf("read addresses: %w", err)
	}
	return a, nil
}

// lastAddress returns the last address of a simulator or of the control interface, or fallback.
func (a *addresses) lastAddress(name, fallback string) string {
	return cmp.Or(a.byName[name], fallback)
}

func (a *addresses) save(name, url string) error {
	next := maps.Clone(a.byName)
	next[name] = strings.TrimPrefix(url, "http://")
	if err := disk.Save(a.path, next); err != nil {
		return fmt.Errorf("save addresses: %w", err)
	}
	a.byName = next
	return nil
}

// tenantList stores the simulated tenants that were created through the sandbox, with their
// administrators.
type tenantList struct {
	path string

	mu   sync.Mutex
	list []tenantEntry
}

// tenantEntry describes a tenant at its creation. It is not updated.
type tenantEntry struct {
	TenantID string `json:"tenant_id"`
	Admin    string `json:"admin"`
	Name     string `json:"name"`
	Seeded   bool   `json:"seeded"`
}

func openTenantList(path string) (*tenantList, error) {
	l := &tenantList{path: path}
	if err := disk.Load(path, &l.list); err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	return l, nil
}

func (l *tenantList) add(e tenantEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := append(slices.Clone(l.list), e)
	if err := disk.Save(l.path, next); err != nil {
		return fmt.Errorf("save tenants: %w", err)
	}
	l.list = next
	return nil
}

func (l *tenantList) find(id string) (tenantEntry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.list, func(e tenantEntry) bool { return strings.EqualFold(e.TenantID, id) })
	if i < 0 {
		return tenantEntry{}, false
	}
	return l.list[i], true
}

// seededTenants returns the tenants that were created by seeding.
func (l *tenantList) seededTenants() []tenantEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.list), func(e tenantEntry) bool { return !e.Seeded })
}
