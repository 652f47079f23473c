// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ProgramsEnv is the environment variable with the directory of the programs for tests. The folders
// release and failpoints hold the service and the bundled plugins. In failpoints, the service is
// built with the tag failpoints. The folder previous holds the service and the plugin
// mail-microsoft365 from before the last migration. The folder testdata holds the programs of the
// testdata folders, and the Go plugins of plugins/template, such as go-mail. `make test-programs`
// builds all of them.
const ProgramsEnv = "TENANTRY_TEST_BIN"

// Program returns the path of a program that was built for the tests, such as
// "release/plugins/dns-powerdns" or "testdata/puppet". Tests must not change the file. Program
// fails the test when the file does not exist.
func Program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(ProgramsEnv), name)
	if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
		t.Fatalf("%s was not built (%v): run `make test`, or `make test-programs` and set %s to the absolute path of bin/test", name, err, ProgramsEnv)
	}
	return path
}

// FreeAddress returns a loopback address with a TCP port on which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + port
}

// PluginsWithout returns a new folder that links to the catalog and the files of the bundled
// plugins, except one file.
func PluginsWithout(t testing.TB, file string) string {
	t.Helper()
	bundled, dir := Program(t, "release/plugins"), t.TempDir()
	files, err := os.ReadDir(bundled)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == file {
			continue
		}
		if err := os.Symlink(filepath.Join(bundled, f.Name()), filepath.Join(dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Benchmarks runs the benchmarks of the calling package whose names match, for one iteration and
// with -short. It fails the test if a benchmark fails, or if no benchmark matches.
func Benchmarks(t *testing.T, match string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.short", "-test.run=^$", "-test.bench="+match, "-test.benchtime=1x")
	output, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(output, []byte("\nBenchmark")) {
		t.Fatalf("benchmarks %s: %v\n%s", match, err, output)
	}
}
