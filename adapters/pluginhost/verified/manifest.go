// SPDX-License-Identifier: Apache-2.0

package verified

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ManifestFile is the name of the manifest in the folder of a plugin.
const ManifestFile = "plugin.json"

// maxManifest is the maximum size of a manifest in bytes. A plugin with 10,000 files needs less.
const maxManifest = 4 << 20

// Manifest lists the files of a plugin that is a folder.
type Manifest struct {
	// Entry is the name of the file to execute.
	Entry string `json:"entry"`
	// Files maps the path of each file, relative to the folder and with slashes, to the SHA-256 of
	// its content. Entry is one of these files. The manifest itself is not listed.
	Files map[string]string `json:"files"`
}

// fileNames returns the paths of the files, sorted, with Entry first.
func (m Manifest) fileNames() []string {
	otherFiles := slices.DeleteFunc(slices.Sorted(maps.Keys(m.Files)), func(name string) bool { return name == m.Entry })
	return append([]string{m.Entry}, otherFiles...)
}

func (m Manifest) check() error {
	if m.Entry == "" || m.Entry != path.Base(m.Entry) || m.Files[m.Entry] == "" {
		return fmt.Errorf("entry %q is not the name of one of the files", m.Entry)
	}
	for name, sum := range m.Files {
		decoded, err := hex.DecodeString(sum)
		switch {
		case name != path.Clean(name) || !filepath.IsLocal(filepath.FromSlash(name)) || name == ManifestFile:
			return fmt.Errorf("%q is not the path of a file below the folder", name)
		case err != nil || len(decoded) != sha256.Size:
			return fmt.Errorf("the checksum of %q is not 64 hexadecimal digits", name)
		}
	}
	return nil
}

// readManifest returns the manifest of a folder and its text. It fails with ErrChecksum when the
// text does not have the SHA-256 sum.
func readManifest(root *os.Root, sum string) ([]byte, Manifest, error) {
	file, err := root.Open(ManifestFile)
	if err != nil {
		return nil, Manifest{}, err
	}
	var text bytes.Buffer
	err = errors.Join(copyVerified(io.LimitReader(file, maxManifest), sum, &text), file.Close())
	if err != nil {
		return nil, Manifest{}, err
	}
	m, err := parseManifest(text.Bytes())
	return text.Bytes(), m, err
}

func parseManifest(text []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	return m, m.check()
}

// Source returns the path and the checksum of a plugin. file is the file to execute. If the folder
// of file has a manifest with file as its entry, the path is that folder. Otherwise the path is
// file.
func Source(file string) (source, sum string, err error) {
	folder := filepath.Dir(file)
	text, err := os.ReadFile(filepath.Join(folder, ManifestFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		sum, err = checksum(file)
		return file, sum, err
	case err != nil:
		return "", "", err
	}
	m, err := parseManifest(text)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", ManifestFile, err)
	}
	if m.Entry != filepath.Base(file) {
		sum, err = checksum(file)
		return file, sum, err
	}
	hash := sha256.Sum256(text)
	return folder, hex.EncodeToString(hash[:]), nil
}

// WriteManifest writes the manifest of a plugin to the folder of entry, the file to execute. The
// manifest lists entry and the regular files of paths, which are files or folders relative to the
// folder of entry. The manifest does not list itself. It also omits files and folders whose names
// begin with a dot, and folders named __pycache__. WriteManifest fails if one of paths is such a
// file or folder, or a symbolic link.
func WriteManifest(entry string, paths []string) (Manifest, error) {
	folder := filepath.Dir(entry)
	manifest := Manifest{Entry: filepath.Base(entry), Files: map[string]string{}}
	for _, listed := range append([]string{manifest.Entry}, paths...) {
		if !filepath.IsLocal(listed) {
			return manifest, fmt.Errorf("%s is not below the folder of %s", listed, entry)
		}
		if err := manifest.add(folder, listed); err != nil {
			return manifest, err
		}
	}
	if err := manifest.check(); err != nil {
		return manifest, err
	}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return manifest, err
	}
	return manifest, os.WriteFile(filepath.Join(folder, ManifestFile), append(text, '\n'), 0o644)
}

// add adds the file at listedPath, or the files in the folder listedPath. listedPath is relative to
// folder.
func (m Manifest) add(folder, listedPath string) error {
	root := filepath.Join(folder, listedPath)
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == folder {
			return err
		}
		isOmitted := strings.HasPrefix(d.Name(), ".") || d.IsDir() && d.Name() == "__pycache__" || !d.IsDir() && !d.Type().IsRegular()
		switch {
		case isOmitted && file == root:
			return fmt.Errorf("%s cannot be in a manifest: it is not a regular file or folder, or has a name that is left out", listedPath)
		case isOmitted && d.IsDir():
			return fs.SkipDir
		case isOmitted || d.IsDir():
			return nil
		}
		name, err := filepath.Rel(folder, file)
		if err != nil || name == ManifestFile {
			return err
		}
		sum, err := checksum(file)
		m.Files[filepath.ToSlash(name)] = sum
		return err
	})
}

func checksum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hex.EncodeToString(hash.Sum(nil)), errors.Join(err, file.Close())
}
