// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
)

// anyPort is a free port of this machine.
const anyPort = "127.0.0.1:0"

// addresses remember where simulators were, by provider: a link that was given
// out, and a credential that names its server, are good after a restart too.
type addresses struct {
	path string
	all  map[string]string
}

func openAddresses(path string) (*addresses, error) {
	a := &addresses{path: path, all: map[string]string{}}
	if err := disk.Load(path, &a.all); err != nil {
		return nil, fmt.Errorf("read addresses: %w", err)
	}
	return a, nil
}

// of is where a simulator listens, best where it was.
func (a *addresses) of(provider string) string { return cmp.Or(a.all[provider], anyPort) }

func (a *addresses) keep(provider, url string) error {
	next := maps.Clone(a.all)
	next[provider] = strings.TrimPrefix(url, "http://")
	if err := disk.Save(a.path, next); err != nil {
		return fmt.Errorf("save addresses: %w", err)
	}
	a.all = next
	return nil
}
