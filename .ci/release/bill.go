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

type dependency struct {
	Ref  string   `json:"ref"`
	Uses []string `json:"dependsOn"`
}

// bill is a bill of materials in CycloneDX 1.6. It has no serial number and no time, so that two
// builds of the same source are equal.
type bill struct {
	Format       string               `json:"bomFormat"`
	Spec         string               `json:"specVersion"`
	Version      int                  `json:"version"`
	Metadata     map[string]component `json:"metadata"`
	Components   []component          `json:"components"`
	Dependencies []dependency         `json:"dependencies"`
}

// billOf returns the bill of materials of a folder: its binaries, and the modules that each binary
// records in its build information.
func billOf(folder, version string) ([]byte, error) {
	materials := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: map[string]component{
		"component": {Type: "application", Name: "tenantry", Version: version, Ref: "tenantry@" + version},
	}}
	modules := map[string]component{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil //lint:ignore nilerr a file that is not a Go binary has no modules
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
		materials.Components = append(materials.Components, binary)
		uses := map[string]component{}
		for _, used := range modulesOf(info) {
			uses[used.Ref] = used
		}
		maps.Copy(modules, uses)
		materials.Dependencies = append(materials.Dependencies, dependency{binary.Ref, slices.Sorted(maps.Keys(uses))})
		return nil
	})
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		materials.Components = append(materials.Components, modules[ref])
	}
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(materials, "", "  ")
	return append(text, '\n'), err
}

// modulesOf returns Go itself and every module of a binary.
func modulesOf(info *buildinfo.BuildInfo) []component {
	components := []component{module("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dependency := range info.Deps {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		if dependency.Version == "" {
			continue // this repository, whose SDK is used by a plugin with its own module
		}
		components = append(components, module(dependency.Path, dependency.Version))
	}
	return components
}

func module(path, version string) component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: "library", Name: path, Version: version, PURL: url, Ref: url}
}
