// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/wire"
)

// Inspection is the result of Inspect for one plugin of the catalog.
type Inspection struct {
	CatalogEntry
	// Description is the plugin's description of itself. It is empty when the plugin did not start
	// or did not describe itself, and when its name or kind differs from the catalog.
	Description wire.Description
	// Problem is nil if the plugin works: its files have the checksum of the catalog, it starts,
	// and it describes itself with the name, kind and version of the catalog.
	Problem error
}

// Inspect starts the catalog's plugins with these names, or all plugins when no name is passed. It
// asks each plugin for its description and then stops the plugin. Results are in the order of the
// catalog. Inspect fails when the catalog is missing or invalid, and returns ErrNotInCatalog for an
// unknown name. If a plugin does not work, Inspect sets Inspection.Problem and returns no error.
func Inspect(o Options, names ...string) ([]Inspection, error) {
	host, err := New(o)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	entries, err := readCatalog(host.options.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(entries, func(e CatalogEntry) bool { return e.Name == name }) {
			return nil, fmt.Errorf("%w: %q", ErrNotInCatalog, name)
		}
	}
	if len(names) > 0 {
		entries = slices.DeleteFunc(entries, func(e CatalogEntry) bool { return !slices.Contains(names, e.Name) })
	}
	inspections := make([]Inspection, len(entries))
	var group panics.Group
	for i, e := range entries {
		group.Go(func() {
			inspections[i] = Inspection{CatalogEntry: e}
			inspections[i].Description, inspections[i].Problem = host.inspect(e)
		})
	}
	group.Wait()
	return inspections, nil
}

// inspect starts the plugin of an entry in the same way as a call does, and then stops the plugin.
func (h *Host) inspect(e CatalogEntry) (wire.Description, error) {
	started, err := newSupervisor(h, e).launch(e)
	path := filepath.Join(h.options.Dir, e.File)
	switch {
	case err != nil && isMissing(path):
		return wire.Description{}, fmt.Errorf("%s is missing", path)
	case err != nil:
		return wire.Description{}, fmt.Errorf("%s: %w", path, err)
	}
	started.dispose(h.options.Supervision.StopGrace)
	if version := started.description.Version; version != e.Version {
		err = fmt.Errorf("%s: the plugin reports version %.60q, but the catalog has %q", path, version, e.Version)
	}
	return started.description, err
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
