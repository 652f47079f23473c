// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// copyProgram copies a program of testdata to a temporary file with this name and returns its path.
func copyProgram(t *testing.T, program, name string) string {
	t.Helper()
	content, err := os.ReadFile(testserver.Program(t, "testdata/"+program))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// copyChangedPuppet returns the path of a copy of puppet, named mail-good, with text after its end.
func copyChangedPuppet(t *testing.T, text string) string {
	t.Helper()
	file := copyProgram(t, "puppet", "mail-good")
	opened, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = opened.WriteString(text)
	if err := errors.Join(err, opened.Close()); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAddCanBeRepeated(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "plugins"), copyProgram(t, "puppet", "mail-good")
	for _, want := range []pluginhost.Change{pluginhost.Added, pluginhost.Unchanged} {
		got, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, file)
		if err != nil || got.Change != want || got.Name != "good" || got.Version != "1.2.3" || got.Description.Title != "Puppet" {
			t.Fatalf("got %+v, %v, want the plugin mail-good to be %s", got, err, want)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "mail-good"), 10); err != nil {
		t.Fatal(err)
	}
	if got, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, file); err != nil || got.Change != pluginhost.Replaced || got.File != "mail-good" {
		t.Fatalf("got %+v, %v, want mail-good to be replaced", got, err)
	}
	if inspections, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Supervision: fastRestart}); err != nil || inspections[0].Problem != nil {
		t.Fatalf("got %+v, %v, want no problem", inspections, err)
	}
}

// TestConcurrentAddsLoseNothing adds several plugins at the same time. The catalog must list each
// of them with the checksum of its file.
func TestConcurrentAddsLoseNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	const plugins = 4
	added := make(chan error, plugins)
	for number := range plugins {
		file := copyProgram(t, "puppet", fmt.Sprintf("mail-p%d", number))
		go func() {
			_, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, file)
			added <- err
		}()
	}
	for range plugins {
		if err := <-added; err != nil {
			t.Error(err)
		}
	}
	inspections, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Supervision: fastRestart})
	if err != nil || len(inspections) != plugins {
		t.Fatalf("got %d plugins, %v, want %d", len(inspections), err, plugins)
	}
	for _, inspection := range inspections {
		if inspection.Problem != nil {
			t.Errorf("the inspection is %+v, want no problem", inspection)
		}
	}
}

func TestAddRefusesFilesThatAreNotPlugins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	printDescription := `echo '{"name":"x","kind":"mail","version":"1"}'`
	for name, tc := range map[string]struct{ file, wantError string }{
		"no file":                    {filepath.Join(t.TempDir(), "away"), "no such file"},
		"a folder":                   {t.TempDir(), "not a regular file"},
		"not executable":             {writeScript(t, printDescription, 0o644), "chmod +x"},
		"fails":                      {writeScript(t, "exit 7", 0o755), "exit status 7"},
		"prints other text":          {writeScript(t, "echo hello", 0o755), "not a plugin"},
		"has no name":                {writeScript(t, "echo '{}'", 0o755), "no name"},
		"only describes itself":      {writeScript(t, printDescription, 0o755), "does not work with"},
		"crashes":                    {copyProgram(t, "puppet", "mail-crashes"), "exit status 3"},
		"different protocol version": {writeScript(t, `[ "$1" = describe ] && `+printDescription+` || echo "1|9|unix|/nowhere|grpc|"; sleep 1`, 0o755), "does not work with"},
		"incomplete description":     {writeScript(t, `[ "$1" = describe ] && printf '{"name":'`, 0o755), "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, tc.file); err == nil || !strings.Contains(err.Error(), tc.wantError) || !strings.Contains(err.Error(), tc.file) {
				t.Errorf("got %v, want an error with %q", err, tc.wantError)
			}
		})
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused plugin made Add create the plugin folder")
	}
}

// TestAddRefusesADuplicateFileName adds a plugin whose file name a different plugin of the catalog
// already has. If that plugin was upgraded, its first version still has this name.
func TestAddRefusesADuplicateFileName(t *testing.T) {
	for _, isUpgraded := range []bool{false, true} {
		t.Run(fmt.Sprint("upgraded ", isUpgraded), func(t *testing.T) {
			options := pluginhost.Options{Dir: t.TempDir(), Supervision: fastRestart}
			if _, err := pluginhost.Add(t.Context(), options, copyProgram(t, "puppet", "mail-good")); err != nil {
				t.Fatal(err)
			}
			if isUpgraded {
				if _, err := pluginhost.Upgrade(t.Context(), options, copyChangedPuppet(t, "second")); err != nil {
					t.Fatal(err)
				}
			}
			editCatalog(t, options.Dir, `"name": "good"`, `"name": "renamed"`)
			if _, err := pluginhost.Add(t.Context(), options, copyProgram(t, "puppet", "mail-good")); err == nil || !strings.Contains(err.Error(), "renamed") {
				t.Fatalf("got %v, want an error that names the plugin `renamed`, which has the file", err)
			}
		})
	}
}

// TestAddRefusesAPluginOfADifferentKind checks that Add and Upgrade do not replace a plugin with a
// plugin that has the same name and a different kind.
func TestAddRefusesAPluginOfADifferentKind(t *testing.T) {
	dir := t.TempDir()
	options := pluginhost.Options{Dir: dir, Supervision: fastRestart}
	if _, err := pluginhost.Add(t.Context(), options, copyProgram(t, "puppet", "mail-good")); err != nil {
		t.Fatal(err)
	}
	editCatalog(t, dir, `"kind": "mail"`, `"kind": "dns"`)
	for _, install := range []func(context.Context, pluginhost.Options, string) (pluginhost.Addition, error){pluginhost.Add, pluginhost.Upgrade} {
		_, err := install(t.Context(), options, copyProgram(t, "puppet", "mail-good"))
		if !errors.Is(err, pluginhost.ErrOtherKind) || !strings.Contains(err.Error(), "good is of kind dns") {
			t.Errorf("got %v, want an error that names the kind of the plugin in the catalog", err)
		}
	}
	host, _ := newHost(t, options)
	if names := host.Names("dns"); len(names) != 1 {
		t.Errorf("the catalog has the DNS plugins %v, want only `good`", names)
	}
}

// TestAddRefusesAPluginThatStartsTooSlowly adds a plugin that prints its description at once, but
// does not start within StartTimeout.
func TestAddRefusesAPluginThatStartsTooSlowly(t *testing.T) {
	file := writeScript(t, `[ "$1" = describe ] && echo '{"name":"script","kind":"mail","version":"1"}' || exec sleep 600`, 0o755)
	options := pluginhost.Options{Dir: t.TempDir(), Supervision: pluginhost.SupervisionPolicy{StartTimeout: 300 * time.Millisecond}}
	if _, err := pluginhost.Add(t.Context(), options, file); err == nil || !strings.Contains(err.Error(), "did not start within 300ms") {
		t.Errorf("got %v, want an error that names StartTimeout", err)
	}
}

// TestUpgradeKeepsOldFiles upgrades a plugin five times. The files of the last four versions stay,
// so that a running service can return to an earlier version. The file that Add created also stays,
// and the file of the second version is deleted. The removal of the plugin deletes the files of all
// versions.
func TestUpgradeKeepsOldFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	firstProgram := copyProgram(t, "puppet", "mail-good")
	if _, err := pluginhost.Upgrade(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, firstProgram); !errors.Is(err, pluginhost.ErrNotInCatalog) {
		t.Fatalf("an upgrade of a plugin that is not in the catalog: %v, want ErrNotInCatalog", err)
	}
	if _, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, firstProgram); err != nil {
		t.Fatal(err)
	}
	previousFile, wantFiles := "mail-good", []string{filepath.Join(dir, "mail-good")}
	for _, version := range []string{"second", "third", "fourth", "fifth", "sixth"} {
		file := copyChangedPuppet(t, version)
		got, err := pluginhost.Upgrade(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, file)
		if err != nil || got.Change != pluginhost.Replaced || got.Previous.File != previousFile || got.File != "mail-good-"+got.SHA256[:12] {
			t.Fatalf("%s: got %+v, %v, want it to replace %s", version, got, err, previousFile)
		}
		previousFile = got.File
		if version != "second" {
			wantFiles = append(wantFiles, filepath.Join(dir, got.File))
		}
		if repeated, err := pluginhost.Upgrade(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, file); err != nil || repeated.Change != pluginhost.Unchanged {
			t.Fatalf("%s again: got %+v, %v, want no change", version, repeated, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "mail-good*"))
	slices.Sort(wantFiles)
	if err != nil || !slices.Equal(files, wantFiles) {
		t.Errorf("the files are %v, %v, want %v", files, err, wantFiles)
	}
	if _, err := pluginhost.Remove(dir, "good"); err != nil {
		t.Fatal(err)
	}
	if files, err = filepath.Glob(filepath.Join(dir, "mail-good*")); err != nil || len(files) != 0 {
		t.Errorf("after the removal: %v, %v, want no files", files, err)
	}
}

func TestRemoveDeletesPlugins(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mail-removed", "mail-kept"} {
		if _, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, copyProgram(t, "puppet", name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pluginhost.Remove(dir, "removed", "missing"); !errors.Is(err, pluginhost.ErrNotInCatalog) {
		t.Fatalf("the removal of a plugin that is not in the catalog: %v, want ErrNotInCatalog", err)
	}
	removed, err := pluginhost.Remove(dir, "removed")
	if err != nil || len(removed) != 1 || removed[0].File != "mail-removed" {
		t.Fatalf("Remove returned %v, %v, want mail-removed", removed, err)
	}
	host, _ := newHost(t, pluginhost.Options{Dir: dir})
	if names := host.Names("mail"); len(names) != 1 || names[0] != "kept" {
		t.Errorf("the plugins are %v, want only `kept`", names)
	}
	if _, err := os.Stat(filepath.Join(dir, "mail-removed")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the removed plugin: %v, want it to be deleted", err)
	}
}
