// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// ProgramsEnv names the variable with the folder of the programs that tests run:
// the service and its plugins in release, failpoints and previous, the programs of
// the testdata folders in testdata, and more. `make test-programs` builds them.
const ProgramsEnv = "TENANTRY_TEST_BIN"

// Program returns the path of a program that was built for the tests, such as
// "release/plugins/dns-powerdns" or "testdata/puppet". Tests must not change the
// file. It fails the test when the program was not built.
func Program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(ProgramsEnv), name)
	if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
		t.Fatalf("%s was not built (%v): run `make test`, or `make test-programs` and set %s to the absolute path of bin/test", name, err, ProgramsEnv)
	}
	return path
}

// FreeAddress returns a loopback address on which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// PluginsWithout copies the bundled plugins and their catalog to a new folder, removes one file and
// returns the folder.
func PluginsWithout(t testing.TB, file string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plugins")
	if err := os.CopyFS(dir, os.DirFS(Program(t, "release/plugins"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
	return dir
}
