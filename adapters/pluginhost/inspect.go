// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tenantry/tenantry/plugins/wire"
)

// Inspection is what looking at one plugin of the catalog found.
type Inspection struct {
	Entry
	// Description is what the plugin says of itself, if it runs.
	Description wire.Description
	// Problem is nil when the file is there, is the one of the catalog,
	// starts, and says of itself what the catalog says.
	Problem error
}

// ErrNotInCatalog says that a plugin was named that the catalog does not have.
var ErrNotInCatalog = errors.New("there is no such plugin in the catalog")

// Inspect starts the plugins of a folder's catalog with these names, or all,
// asks what each is, and ends it again.
func Inspect(o Options, names ...string) ([]Inspection, error) {
	h, err := New(o)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	entries, err := readCatalog(h.options.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(entries, func(e Entry) bool { return e.Name == name }) {
			return nil, fmt.Errorf("%w: %q", ErrNotInCatalog, name)
		}
	}
	if len(names) > 0 {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return !slices.Contains(names, e.Name) })
	}
	found := make([]Inspection, len(entries))
	var all sync.WaitGroup
	for i, e := range entries {
		all.Go(func() {
			found[i] = Inspection{Entry: e}
			found[i].Description, found[i].Problem = h.inspect(e)
		})
	}
	all.Wait()
	return found, nil
}

// inspect runs what an entry names, as it would be run for a call.
func (h *Host) inspect(e Entry) (wire.Description, error) {
	l, err := newSupervised(h, e).launch()
	path := filepath.Join(h.options.Dir, e.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wire.Description{}, fmt.Errorf("%s is missing", path)
	case err != nil:
		return wire.Description{}, fmt.Errorf("%s: %w", path, err)
	}
	l.process.Stop(h.options.Patience.Stop)
	if said := l.description.Version; said != e.Version {
		err = fmt.Errorf("%s: it says it is version %.60q, the catalog says %q", path, said, e.Version)
	}
	return l.description, err
}
