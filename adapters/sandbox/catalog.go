// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
)

// plugin is a line of the plugin catalog.
type plugin struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// catalog lists the bundled plugins.
func catalog(dir string) ([]plugin, error) {
	var list struct {
		Plugins []plugin `json:"plugins"`
	}
	if err := disk.Load(filepath.Join(dir, "catalog.json"), &list); err != nil {
		return nil, fmt.Errorf("plugin catalog: %w", err)
	}
	return list.Plugins, nil
}

// binary gives the path of a plugin's binary if it is the one that the
// catalog means. A changed one is not run here either.
func (p plugin) binary(dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, filepath.Base(p.File)))
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	if !strings.EqualFold(hex.EncodeToString(sum.Sum(nil)), p.SHA256) {
		return "", fmt.Errorf("%s is not the file that the catalog lists", p.File)
	}
	return path, nil
}
