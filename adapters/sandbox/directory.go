// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
)

// directory remembers who administers the simulated tenants made here.
type directory struct {
	path string

	mu   sync.Mutex
	list []entry
}

// entry is a tenant as it was made.
type entry struct {
	TenantID string `json:"tenant_id"`
	Admin    string `json:"admin"`
	Name     string `json:"name"`
	Seeded   bool   `json:"seeded"`
}

func openDirectory(path string) (*directory, error) {
	d := &directory{path: path}
	if err := disk.Load(path, &d.list); err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	return d, nil
}

func (d *directory) add(e entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := append(slices.Clone(d.list), e)
	if err := disk.Save(d.path, next); err != nil {
		return fmt.Errorf("save tenants: %w", err)
	}
	d.list = next
	return nil
}

func (d *directory) find(id string) (entry, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.list, func(e entry) bool { return strings.EqualFold(e.TenantID, id) })
	if i < 0 {
		return entry{}, false
	}
	return d.list[i], true
}

// seeded lists the tenants that were there from the start.
func (d *directory) seeded() []entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.list), func(e entry) bool { return !e.Seeded })
}
