// SPDX-License-Identifier: Apache-2.0

package testserver

import (
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
