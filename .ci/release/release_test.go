// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// newReleaseFolder creates a folder with two copies of this test binary and a text file.
func newReleaseFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tenantry_1.2.3_linux_amd64")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "plugins"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tenantry": binary, "plugins/mail-example": binary, "LICENSE": []byte("text")} {
		mode := os.FileMode(0o700)
		if name == "LICENSE" {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSameContentGivesTheSameArchive checks that the archive does not depend on the times of the
// files. It also checks that the archive has every file with its mode.
func TestSameContentGivesTheSameArchive(t *testing.T) {
	firstFolder, secondFolder := newReleaseFolder(t), newReleaseFolder(t)
	if err := os.Chtimes(filepath.Join(secondFolder, "LICENSE"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	var packed [2][]byte
	for i, dir := range []string{firstFolder, secondFolder} {
		file := filepath.Join(t.TempDir(), "x.tar.gz")
		if err := writeArchive(dir, file); err != nil {
			t.Fatal(err)
		}
		packed[i], _ = os.ReadFile(file)
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("two archives of the same content differ")
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(packed[0]))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for archive := tar.NewReader(uncompressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
	}
	root := filepath.Base(firstFolder) + "/"
	if len(modes) != 3 || modes[root+"tenantry"] != 0o755 || modes[root+"plugins/mail-example"] != 0o755 || modes[root+"LICENSE"] != 0o644 {
		t.Errorf("the archive contains %v, want the two programs with mode 0755 and LICENSE with 0644", modes)
	}
}

// TestBillListsBinariesAndModules checks that the bill has each binary with its checksum, Go's
// standard library and the dependencies of the binaries. A second bill must be the same as the
// first.
func TestBillListsBinariesAndModules(t *testing.T) {
	dir := newReleaseFolder(t)
	raw, err := billOf(dir, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := billOf(dir, "1.2.3")
	if !bytes.Equal(raw, again) {
		t.Error("two bills of the same folder differ")
	}
	var b bill
	if err := json.Unmarshal(raw, &b); err != nil || b.Format != "CycloneDX" || b.Spec != "1.6" {
		t.Fatalf("the bill is not in CycloneDX 1.6: %v: %s", err, raw)
	}
	sum, _ := sumOf(filepath.Join(dir, "tenantry"))
	refs, hashed := map[string]bool{}, 0
	for _, c := range b.Components {
		refs[c.Ref] = true
		if len(c.Hashes) == 1 && c.Hashes[0].Content == sum {
			hashed++
		}
	}
	if hashed != 2 || len(b.Dependencies) != 2 {
		t.Errorf("%d components have the checksum of the binary and %d binaries have dependencies, want 2 and 2: %s", hashed, len(b.Dependencies), raw)
	}
	stdlib := false
	for _, d := range b.Dependencies {
		for _, ref := range d.Uses {
			stdlib = stdlib || strings.HasPrefix(ref, "pkg:golang/stdlib@1.")
			if !refs[ref] {
				t.Errorf("%s is not a component", ref)
			}
		}
	}
	if !stdlib {
		t.Error("no binary depends on Go's standard library")
	}
}

// TestCatalogHasTheChecksumsOfItsPlatform checks that writeCatalog keeps the descriptions and
// replaces the checksums by those of the files in the folder.
func TestCatalogHasTheChecksumsOfItsPlatform(t *testing.T) {
	dir := filepath.Join(newReleaseFolder(t), "plugins")
	if err := writeCatalog(catalog{[]map[string]any{{"name": "example", "file": "mail-example", "sha256": "of another"}}}, dir); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(filepath.Join(dir, "catalog.json"))
	sum, _ := sumOf(filepath.Join(dir, "mail-example"))
	var c catalog
	if err := json.Unmarshal(raw, &c); err != nil || len(c.Plugins) != 1 || c.Plugins[0]["sha256"] != sum || c.Plugins[0]["name"] != "example" {
		t.Errorf("the catalog is %s, %v, want the plugin example with the checksum %s", raw, err, sum)
	}
	if err := writeCatalog(catalog{[]map[string]any{{"name": "gone", "file": "gone"}}}, dir); err == nil {
		t.Error("a plugin that was not built is in the catalog")
	}
}

// TestModulesOfAPlugin checks a plugin with its own module. The plugin uses the SDK of this
// repository. The SDK is not listed, because it is not a downloaded module.
func TestModulesOfAPlugin(t *testing.T) {
	components := modulesOf(&buildinfo.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "example.com/fork", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/ours", Version: "v1.1.0"}},
		{Path: "github.com/tenantry/tenantry", Version: "v0.0.0", Replace: &debug.Module{Path: "../.."}},
	}})
	if len(components) != 2 || components[1].Ref != "pkg:golang/example.com/ours@v1.1.0" {
		t.Errorf("got %+v, want the standard library and example.com/ours", components)
	}
}
