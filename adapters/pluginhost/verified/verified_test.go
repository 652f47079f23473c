// SPDX-License-Identifier: Apache-2.0

package verified_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
)

func writeFile(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func checksumOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// runPlugin executes an opened plugin and returns its output.
func runPlugin(t *testing.T, plugin *verified.Plugin) string {
	t.Helper()
	output, err := exec.Command(plugin.Path()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

// newPlugin creates a plugin of several files and returns the path of its executable. The
// executable prints the files that it finds in its folder.
func newPlugin(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "source")
	entry := filepath.Join(folder, "plugin")
	writeFile(t, entry, "#!/bin/sh\ncd \"$(dirname \"$0\")\" && find . -type f | sort | xargs\n", 0o755)
	writeFile(t, filepath.Join(folder, "provider"), "1", 0o644)
	writeFile(t, filepath.Join(folder, "library", "part", "code"), "2", 0o644)
	writeFile(t, filepath.Join(folder, "library", "__pycache__", "code.pyc"), "3", 0o644)
	writeFile(t, filepath.Join(folder, "library", ".hidden"), "4", 0o644)
	writeFile(t, filepath.Join(folder, "test"), "5", 0o644)
	if _, err := verified.WriteManifest(entry, []string{"provider", "library"}); err != nil {
		t.Fatal(err)
	}
	return entry
}

// TestExecutedBinaryIsTheCheckedBinary replaces a binary after the check and before the execution.
func TestExecutedBinaryIsTheCheckedBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Fatal("only Linux can execute an open file; on other systems the permissions of the folder must prevent the replacement")
	}
	content, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin")
	writeFile(t, path, string(content), 0o755)
	sum := checksumOf(t, path)
	plugin, err := verified.Open(path, sum)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plugin.Close() }()
	writeFile(t, path+"2", "#!/bin/sh\necho swapped\n", 0o755)
	if err := os.Rename(path+"2", path); err != nil {
		t.Fatal(err)
	}
	if printed := runPlugin(t, plugin); printed != "" {
		t.Fatalf("the program printed %q, want nothing, as /bin/true does", printed)
	}
	if _, err := verified.Open(path, sum); !errors.Is(err, verified.ErrChecksum) {
		t.Fatalf("the swapped file: %v, want ErrChecksum", err)
	}
}

// TestOnlyListedFilesOfAFolderRun checks that a plugin sees only the manifest and the files that
// the manifest lists. A file that changes after the check does not reach the plugin, and Close
// removes the copies.
func TestOnlyListedFilesOfAFolderRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	entry := newPlugin(t)
	source, sum, err := verified.Source(entry)
	if err != nil || source != filepath.Dir(entry) {
		t.Fatalf("the source is %s, %v, want the folder of the plugin", source, err)
	}
	plugin, err := verified.Open(source, sum)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, entry, "#!/bin/sh\necho swapped\n", 0o755)
	if got, want := runPlugin(t, plugin), "./library/part/code ./plugin ./plugin.json ./provider\n"; got != want {
		t.Errorf("the plugin sees %q, want %q", got, want)
	}
	if err := plugin.Close(); err != nil {
		t.Fatal(err)
	}
	if remaining, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(remaining) > 0 {
		t.Errorf("after Close: %v, %v, want no copies of files", remaining, err)
	}
}

// TestAScriptRunsAlone opens a script instead of its folder. The script cannot load the other files
// of the folder.
func TestAScriptRunsAlone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	entry := newPlugin(t)
	plugin, err := verified.Open(entry, checksumOf(t, entry))
	if err != nil {
		t.Fatal(err)
	}
	if got := runPlugin(t, plugin); got != "./plugin\n" {
		t.Errorf("the plugin sees %q, want only itself", got)
	}
	if err := plugin.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAChangedFileIsRefused changes, deletes or adds files of a plugin. Files that the manifest
// does not list have no effect. After any other change, Open and Check refuse the plugin.
func TestAChangedFileIsRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, change := range map[string]struct {
		edit func(t *testing.T, folder string)
		want error
	}{
		"the entry":          {func(t *testing.T, f string) { writeFile(t, filepath.Join(f, "plugin"), "#!/bin/sh\n", 0o755) }, verified.ErrChecksum},
		"a loaded file":      {func(t *testing.T, f string) { writeFile(t, filepath.Join(f, "library", "part", "code"), "9", 0o644) }, verified.ErrChecksum},
		"the manifest":       {func(t *testing.T, f string) { writeFile(t, filepath.Join(f, "plugin.json"), "{}", 0o644) }, verified.ErrChecksum},
		"a loaded file gone": {func(t *testing.T, f string) { _ = os.Remove(filepath.Join(f, "provider")) }, fs.ErrNotExist},
		"the manifest gone":  {func(t *testing.T, f string) { _ = os.Remove(filepath.Join(f, "plugin.json")) }, fs.ErrNotExist},
		"the folder gone":    {func(t *testing.T, f string) { _ = os.RemoveAll(f) }, fs.ErrNotExist},
		"a file not listed":  {func(t *testing.T, f string) { writeFile(t, filepath.Join(f, "test"), "9", 0o644) }, nil},
		"one more file":      {func(t *testing.T, f string) { writeFile(t, filepath.Join(f, "library", "more"), "9", 0o644) }, nil},
		"a link to a file outside": {func(t *testing.T, f string) {
			_ = os.Remove(filepath.Join(f, "provider"))
			if err := os.Symlink("/bin/true", filepath.Join(f, "provider")); err != nil {
				t.Fatal(err)
			}
		}, errAny},
	} {
		t.Run(name, func(t *testing.T) {
			source, sum, err := verified.Source(newPlugin(t))
			if err != nil {
				t.Fatal(err)
			}
			change.edit(t, source)
			for call, err := range map[string]error{"Open": openAndClose(source, sum), "Check": verified.Check(source, sum)} {
				if !errors.Is(err, change.want) && (change.want != errAny || err == nil) {
					t.Errorf("%s: %v, want %v", call, err, change.want)
				}
			}
		})
	}
	if remaining, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(remaining) > 0 {
		t.Errorf("a refused plugin left %v, %v, want nothing", remaining, err)
	}
}

// errAny stands for any error in the field want of TestAChangedFileIsRefused.
var errAny = errors.New("any error")

func openAndClose(path, sum string) error {
	plugin, err := verified.Open(path, sum)
	if err == nil {
		err = plugin.Close()
	}
	return err
}

func TestInstallReplacesFilesAndFolders(t *testing.T) {
	entry := newPlugin(t)
	source, sum, err := verified.Source(entry)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "plugin")
	writeFile(t, script, "#!/bin/sh\necho one file\n", 0o755)
	target := filepath.Join(t.TempDir(), "plugin")
	for _, plugin := range []struct{ path, sum string }{{source, sum}, {source, sum}, {script, checksumOf(t, script)}, {source, sum}} {
		if err := verified.Install(plugin.path, plugin.sum, target); err != nil {
			t.Fatal(err)
		}
		if err := verified.Check(target, plugin.sum); err != nil {
			t.Errorf("installed from %s: %v", plugin.path, err)
		}
		if err := verified.Install(target, plugin.sum, target); err != nil {
			t.Errorf("installed onto itself: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(target, "test")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that the manifest does not list was installed: %v", err)
	}
	writeFile(t, entry, "#!/bin/sh\necho swapped\n", 0o755)
	if err := verified.Install(source, sum, target); !errors.Is(err, verified.ErrChecksum) {
		t.Errorf("a changed plugin: %v, want ErrChecksum", err)
	}
	if err := verified.Check(target, sum); err != nil {
		t.Errorf("the installed plugin after a refused installation: %v, want it unchanged", err)
	}
	if remaining, err := filepath.Glob(target + "*"); err != nil || len(remaining) != 1 {
		t.Errorf("beside the installed plugin: %v, %v, want only %s", remaining, err, target)
	}
}

func TestInvalidManifestsAreRefused(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for name, text := range map[string]string{
		"no JSON":              `{`,
		"no entry":             `{"files":{"plugin":"` + sum + `"}}`,
		"an entry not listed":  `{"entry":"plugin","files":{"other":"` + sum + `"}}`,
		"entry in a subfolder": `{"entry":"a/plugin","files":{"a/plugin":"` + sum + `"}}`,
		"file outside":         `{"entry":"plugin","files":{"plugin":"` + sum + `","../x":"` + sum + `"}}`,
		"an absolute path":     `{"entry":"plugin","files":{"plugin":"` + sum + `","/etc/passwd":"` + sum + `"}}`,
		"a path with dots":     `{"entry":"plugin","files":{"plugin":"` + sum + `","a/../b":"` + sum + `"}}`,
		"a checksum too short": `{"entry":"plugin","files":{"plugin":"abcd"}}`,
		"the manifest itself":  `{"entry":"plugin","files":{"plugin":"` + sum + `","plugin.json":"` + sum + `"}}`,
	} {
		folder := t.TempDir()
		manifest := filepath.Join(folder, "plugin.json")
		writeFile(t, manifest, text, 0o644)
		writeFile(t, filepath.Join(folder, "plugin"), "#!/bin/sh\n", 0o755)
		if err := verified.Check(folder, checksumOf(t, manifest)); err == nil || errors.Is(err, verified.ErrChecksum) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want an error about the manifest", name, err)
		}
	}
	entry := newPlugin(t)
	if err := os.Symlink("provider", filepath.Join(filepath.Dir(entry), "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../elsewhere", "missing", "library/.hidden", "library/__pycache__", "link"} {
		if _, err := verified.WriteManifest(entry, []string{path}); err == nil {
			t.Errorf("WriteManifest accepted the path %s", path)
		}
	}
	if m, err := verified.WriteManifest(entry, []string{".", "provider", "library"}); err != nil || len(m.Files) != 4 {
		t.Errorf("got %v, %v, want the four files that are neither hidden nor in __pycache__", m.Files, err)
	}
}
