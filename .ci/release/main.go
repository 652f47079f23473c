// SPDX-License-Identifier: Apache-2.0

// Command release creates the files that a release publishes, in the folder dist. For each platform
// it creates an archive and a bill of materials. The archive has the binary, the plugins with their
// catalog, the license, the README and the changelog. The command also creates a file with the
// SHA-256 of each archive and bill of materials.
//
//	go run ./.ci/release -version 0.2.0 -commit 0123456789ab
//
// The same source, the same flags and the same version of Go produce the same bytes, on every
// machine and at any time.
//
//   - main.go: the builds, the catalog and the checksums. Start here.
//   - archive.go: the archive of a platform.
//   - bill.go: the bill of materials.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

var platforms = []string{"linux/amd64", "linux/arm64"}

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "version of the release")
	flag.StringVar(&r.commit, "commit", "unknown", "commit of the release")
	flag.StringVar(&r.dir, "dir", "dist", "folder for the files; its content is removed first")
	flag.Parse()
	if r.version == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type release struct{ version, commit, dir string }

func (r release) make() error {
	scratch, err := os.MkdirTemp("", "tenantry-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	hostFolder := filepath.Join(scratch, "host")
	if err := r.build(runtime.GOOS+"/"+runtime.GOARCH, hostFolder); err != nil {
		return err
	}
	catalog, err := describePlugins(hostFolder)
	if err != nil {
		return err
	}
	for _, platform := range platforms {
		name := "tenantry_" + r.version + "_" + strings.ReplaceAll(platform, "/", "_")
		folder := filepath.Join(scratch, name)
		if err := r.build(platform, folder); err != nil {
			return err
		}
		if err := writeCatalog(catalog, filepath.Join(folder, "plugins")); err != nil {
			return err
		}
		if err := r.publish(folder, filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	return writeSums(r.dir)
}

// publish copies the license, the README and the changelog into a folder. Then it writes the
// folder's bill of materials and its archive, whose paths differ only in their extensions.
func (r release) publish(folder, pathWithoutExt string) error {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	bill, err := billOf(folder, r.version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(pathWithoutExt+".cdx.json", bill, 0o644); err != nil {
		return err
	}
	return writeArchive(folder, pathWithoutExt+".tar.gz")
}

// build compiles tenantry and all plugins for a platform into a folder.
func (r release) build(platform, folder string) error {
	plugins, err := filepath.Glob("plugins/*/main.go")
	if err != nil {
		return err
	}
	linkerFlags := "-s -w -X main.version=" + r.version + " -X main.commit=" + r.commit
	targets := [][2]string{{"app/tenantry", "tenantry"}}
	for _, file := range plugins {
		dir := filepath.Dir(file)
		targets = append(targets, [2]string{dir, filepath.Join("plugins", filepath.Base(dir))})
	}
	system, machine, _ := strings.Cut(platform, "/")
	for _, target := range targets {
		cmd := exec.Command("go", "-C", target[0], "build", "-trimpath", "-buildvcs=false", "-ldflags", linkerFlags, "-o", filepath.Join(folder, target[1]), ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine, "GOFLAGS=-mod=readonly", "GOAMD64=v1", "GOARM64=v8.0")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s for %s: %w", target[0], platform, err)
		}
	}
	return nil
}

// catalog is a plugin catalog. This program changes only its checksums.
type catalog struct {
	Plugins []map[string]any `json:"plugins"`
}

// describePlugins returns the catalog of the plugins that were built for this machine. The catalog
// is used for all platforms, because the descriptions are the same on each.
func describePlugins(folder string) (c catalog, err error) {
	dir := filepath.Join(folder, "plugins")
	plugins, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return c, err
	}
	cmd := exec.Command(filepath.Join(folder, "tenantry"), append([]string{"plugin", "add", "--plugin-dir", dir, "--data-dir", folder}, plugins...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return c, fmt.Errorf("plugin add: %w", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "catalog.json"))
	if err != nil {
		return c, err
	}
	err = json.Unmarshal(raw, &c)
	return c, err
}

// writeCatalog writes the catalog c into the plugin folder dir, with the checksums of the files
// there.
func writeCatalog(c catalog, dir string) error {
	var updated catalog
	for _, entry := range c.Plugins {
		file, _ := entry["file"].(string)
		sum, err := sumOf(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		copied := maps.Clone(entry)
		copied["sha256"] = sum
		updated.Plugins = append(updated.Plugins, copied)
	}
	text, err := json.MarshalIndent(updated, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "catalog.json"), append(text, '\n'), 0o644)
}

func sumOf(file string) (string, error) {
	content, err := os.ReadFile(file)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), err
}

// writeSums writes the checksums of the files in a folder, in the format of `sha256sum --check`.
func writeSums(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	var list strings.Builder
	for _, file := range files {
		sum, err := sumOf(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, filepath.Base(file))
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(list.String()), 0o644)
}
