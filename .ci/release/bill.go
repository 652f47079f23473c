// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"encoding/json"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// component is one component of a CycloneDX bill of materials.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	Ref     string `json:"bom-ref,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// dependencies lists the modules that a component uses, by their references.
type dependencies struct {
	Ref  string   `json:"ref"`
	Uses []string `json:"dependsOn"`
}

// bill is a bill of materials in CycloneDX 1.6. It has no serial number and no time, because two
// builds of the same source must have equal bills.
type bill struct {
	Format       string               `json:"bomFormat"`
	Spec         string               `json:"specVersion"`
	Version      int                  `json:"version"`
	Metadata     map[string]component `json:"metadata"`
	Components   []component          `json:"components"`
	Dependencies []dependencies       `json:"dependencies"`
}

// billOf returns the bill of materials of a folder: its Go binaries, and the modules that modulesOf
// returns for each binary.
func billOf(folder, version string) ([]byte, error) {
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: map[string]component{
		"component": {Type: "application", Name: "tenantry", Version: version, Ref: "tenantry@" + version},
	}}
	modules := map[string]component{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil //lint:ignore nilerr a file whose build information cannot be read counts as a file that is not a Go binary
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		sum, err := sumOf(path)
		if err != nil {
			return err
		}
		binary := component{Type: "application", Name: filepath.ToSlash(name), Version: version, Ref: "file:" + filepath.ToSlash(name), Hashes: []hash{{"SHA-256", sum}}}
		b.Components = append(b.Components, binary)
		uses := map[string]component{}
		for _, used := range modulesOf(info) {
			uses[used.Ref] = used
		}
		maps.Copy(modules, uses)
		b.Dependencies = append(b.Dependencies, dependencies{binary.Ref, slices.Sorted(maps.Keys(uses))})
		return nil
	})
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		b.Components = append(b.Components, modules[ref])
	}
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// modulesOf returns Go's standard library and the modules that a binary depends on. It leaves out
// the main module of the binary, and modules without a version.
func modulesOf(info *buildinfo.BuildInfo) []component {
	components := []component{newModule("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version == "" {
			continue // the go.mod of a plugin replaces this repository by a local path, which has no version
		}
		components = append(components, newModule(m.Path, m.Version))
	}
	return components
}

// newModule returns the component of a Go module.
func newModule(path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: "library", Name: path, Version: version, PURL: purl, Ref: purl}
}
