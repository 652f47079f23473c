// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"errors"
	"os"
	"path/filepath"
)

// Overlay makes dir a plugin folder with symbolic links to the plugins of the folder base. Add can
// then add plugins to dir, or replace plugins there, without changing base. Overlay first deletes
// the content of dir.
func Overlay(base, dir string) error {
	entries, err := readCatalog(base)
	if err != nil {
		return err
	}
	if base, err = filepath.Abs(base); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(base, e.File), filepath.Join(dir, e.File)); err != nil {
			return err
		}
	}
	return writeCatalog(dir, entries)
}
