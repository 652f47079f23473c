// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// catalogFile is the file in the plugin folder that lists the plugins that may run.
const catalogFile = "catalog.json"

// CatalogEntry is one plugin of the catalog. File is the name of a file or folder in the plugin
// folder. SHA256 is the checksum of the plugin in hexadecimal, as package verified defines it.
type CatalogEntry struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
	Version string `json:"version"`
}

// ErrNotInCatalog means that the catalog has no plugin with the requested name.
var ErrNotInCatalog = errors.New("there is no such plugin in the catalog")

// readCatalog returns the entries of a plugin folder's catalog.
func readCatalog(dir string) ([]CatalogEntry, error) {
	path := filepath.Join(dir, catalogFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("plugin catalog: %w", err)
	}
	var catalog struct {
		Plugins []CatalogEntry `json:"plugins"`
	}
	if err := json.Unmarshal(text, &catalog); err != nil {
		return nil, fmt.Errorf("plugin catalog %s: %w", path, err)
	}
	seen := map[string]bool{}
	for _, listed := range catalog.Plugins {
		if err := listed.check(); err != nil {
			return nil, fmt.Errorf("plugin catalog %s: plugin %q: %w", path, listed.Name, err)
		}
		if seen[listed.Name] {
			return nil, fmt.Errorf("plugin catalog %s: plugin %q is listed twice", path, listed.Name)
		}
		seen[listed.Name] = true
	}
	return catalog.Plugins, nil
}

func (e CatalogEntry) check() error {
	sum, err := hex.DecodeString(e.SHA256)
	switch {
	case e.Name == "":
		return errors.New("it has no name")
	case e.Kind == "":
		return errors.New("it has no kind")
	case e.File == "" || e.File != filepath.Base(e.File) || e.File == "." || e.File == "..":
		return fmt.Errorf("file %q must be a name without a path", e.File)
	case err != nil || len(sum) != 32:
		return errors.New("sha256 is not 64 hexadecimal digits")
	}
	return nil
}

// defaultPluginDir returns the path of the folder `plugins` next to the running program. It
// resolves symbolic links to the program first.
func defaultPluginDir() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the plugin folder: %w", err)
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", fmt.Errorf("find the plugin folder: %w", err)
	}
	return filepath.Join(filepath.Dir(exe), "plugins"), nil
}
