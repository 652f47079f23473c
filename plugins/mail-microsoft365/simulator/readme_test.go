// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeNamesTests: each row of the README's tables of behaviour names a
// test, and each test that is named exists.
func TestReadmeNamesTests(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(raw), "## What is shown by which test")
	sources := testSources(t)
	rows := 0
	for _, line := range strings.Split(shown, "\n") {
		if !strings.HasPrefix(line, "| ") || line == "| Row | Test |" {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		names := regexp.MustCompile("`(Test[^`]*)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(names) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, n := range names {
			function, row, hasRow := strings.Cut(n[1], "/")
			body, exists := sources[function]
			if !exists || hasRow && !strings.Contains(body, `"`+row+`"`) {
				t.Errorf("%s does not exist: %s", n[1], line)
			}
		}
	}
	if rows < 100 {
		t.Errorf("only %d rows were read", rows)
	}
}

// testSources are the tests of this package with their source text.
func testSources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	paths, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range strings.Split(string(raw), "\nfunc ") {
			if name, _, ok := strings.Cut(body, "(t *testing.T) {"); ok && strings.HasPrefix(name, "Test") {
				found[name] = body
			}
		}
	}
	return found
}
