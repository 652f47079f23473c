// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
)

func TestInspectSaysWhatIsWrong(t *testing.T) {
	dir := folder(t, "good:puppet", "crashes:puppet", "gone:puppet", "older:puppet", "liar:hostile")
	if err := os.Remove(filepath.Join(dir, "mail-gone")); err != nil {
		t.Fatal(err)
	}
	rename(t, dir, `"file":"mail-older"`, `"file":"mail-good"`)
	found, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Patience: quick})
	if err != nil || len(found) != 5 {
		t.Fatalf("%v, %v", found, err)
	}
	says := map[string]string{}
	for _, one := range found {
		if one.Problem != nil {
			says[one.Name] = one.Problem.Error()
		}
	}
	for name, want := range map[string]string{"crashes": "mail-crashes", "gone": "is missing", "older": `it is "good"`, "liar": "mail-liar"} {
		if !strings.Contains(says[name], want) {
			t.Errorf("%s: %q, want it to say %q", name, says[name], want)
		}
	}
	if says["good"] != "" || found[0].Description.Title != "Puppet" {
		t.Errorf("the good one: %+v", found[0])
	}
	one, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Patience: quick}, "good")
	if err != nil || len(one) != 1 || one[0].Problem != nil {
		t.Errorf("by its name: %+v, %v", one, err)
	}
	if _, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Patience: quick}, "nobody"); !errors.Is(err, pluginhost.ErrNotInCatalog) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := pluginhost.Inspect(pluginhost.Options{Dir: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no catalog: %v", err)
	}
}

func TestInspectComparesVersions(t *testing.T) {
	dir := folder(t, "good:puppet")
	rename(t, dir, `"version":"1.2.3"`, `"version":"1.2.2"`)
	found, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Patience: quick})
	if err != nil || found[0].Problem == nil || !strings.Contains(found[0].Problem.Error(), "1.2.3") {
		t.Fatalf("%+v, %v", found, err)
	}
}

// copied is a program of testdata under another name.
func copied(t *testing.T, program, name string) string {
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

func script(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mail-script")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAddIsHarmlessToRepeat(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "plugins"), copied(t, "puppet", "mail-good")
	for _, want := range []pluginhost.Addition{pluginhost.Added, pluginhost.Unchanged} {
		e, done, err := pluginhost.Add(t.Context(), dir, file)
		if err != nil || done != want || e.Name != "good" || e.Version != "1.2.3" {
			t.Fatalf("%+v %s %v, want %s", e, done, err, want)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "mail-good"), 10); err != nil {
		t.Fatal(err)
	}
	if _, done, err := pluginhost.Add(t.Context(), dir, file); err != nil || done != pluginhost.Replaced {
		t.Fatalf("%s %v", done, err)
	}
	if found, err := pluginhost.Inspect(pluginhost.Options{Dir: dir, Patience: quick}); err != nil || found[0].Problem != nil {
		t.Fatalf("%+v, %v", found, err)
	}
}

func TestAddRefusesWhatIsNoPlugin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	describes := `echo '{"name":"x","kind":"mail","version":"1"}'`
	for name, tt := range map[string]struct{ file, says string }{
		"no file":                  {filepath.Join(t.TempDir(), "away"), "no such file"},
		"a folder":                 {t.TempDir(), "it is no file"},
		"not executable":           {script(t, describes, 0o644), "chmod +x"},
		"fails":                    {script(t, "exit 7", 0o755), "exit status 7"},
		"says something else":      {script(t, "echo hello", 0o755), "no plugin"},
		"has no name":              {script(t, "echo '{}'", 0o755), "no name"},
		"only describes itself":    {script(t, describes, 0o755), "does not speak"},
		"crashes":                  {copied(t, "puppet", "mail-crashes"), "exit status 3"},
		"of another version":       {script(t, `[ "$1" = describe ] && `+describes+` || echo "1|9|unix|/nowhere|grpc|"; sleep 1`, 0o755), "does not speak"},
		"an answer without an end": {script(t, `[ "$1" = describe ] && printf '{"name":'`, 0o755), "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := pluginhost.Add(t.Context(), dir, tt.file); err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), tt.file) {
				t.Errorf("got %v, want it to say %q", err, tt.says)
			}
		})
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was written")
	}
}

func TestAddKeepsFileNamesApart(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := pluginhost.Add(t.Context(), dir, copied(t, "puppet", "mail-good")); err != nil {
		t.Fatal(err)
	}
	rename(t, dir, `"name": "good"`, `"name": "first"`)
	if _, _, err := pluginhost.Add(t.Context(), dir, copied(t, "puppet", "mail-good")); err == nil || !strings.Contains(err.Error(), "first") {
		t.Fatalf("got %v", err)
	}
}
