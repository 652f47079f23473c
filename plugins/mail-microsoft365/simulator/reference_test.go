// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// assertGolden compares an answer with a golden file, which was written from Microsoft's
// documentation. A "*" in a text of the file matches any text.
func assertGolden(t *testing.T, name string, answer response) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "golden", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Status int
		Body   any
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if answer.status != want.Status {
		t.Errorf("%s: status %d, want %d: %s", name, answer.status, want.Status, answer.raw)
	}
	var body any
	if err := json.Unmarshal(answer.raw, &body); err != nil {
		t.Fatalf("%s: %v: %s, want JSON", name, err, answer.raw)
	}
	for _, problem := range goldenDifferences("body", want.Body, body) {
		t.Errorf("%s: %s", name, problem)
	}
}

// goldenDifferences describes each place where got differs from want.
func goldenDifferences(path string, want, got any) []string {
	switch wantValue := want.(type) {
	case map[string]any:
		gotValue, ok := got.(map[string]any)
		if !ok {
			return []string{path + " is not an object"}
		}
		var problems []string
		for name := range gotValue {
			if _, exists := wantValue[name]; !exists {
				problems = append(problems, path+"."+name+" is not in the golden file")
			}
		}
		for name, v := range wantValue {
			problems = append(problems, goldenDifferences(path+"."+name, v, gotValue[name])...)
		}
		return problems
	case []any:
		gotValue, ok := got.([]any)
		if !ok || len(gotValue) != len(wantValue) {
			return []string{fmt.Sprintf("%s: %v, want %v", path, got, wantValue)}
		}
		var problems []string
		for i := range wantValue {
			problems = append(problems, goldenDifferences(fmt.Sprintf("%s[%d]", path, i), wantValue[i], gotValue[i])...)
		}
		return problems
	case string:
		gotValue, ok := got.(string)
		pattern := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(wantValue), `\*`, ".*") + "$"
		if !ok || !regexp.MustCompile(pattern).MatchString(gotValue) {
			return []string{fmt.Sprintf("%s: %q, want %q", path, got, wantValue)}
		}
		return nil
	}
	if want != got {
		return []string{fmt.Sprintf("%s: %v, want %v", path, got, want)}
	}
	return nil
}

// TestGoldenFilesAreUsed finds golden files that no test uses.
func TestGoldenFilesAreUsed(t *testing.T) {
	var sources strings.Builder
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tests {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(raw)
	}
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files are found, %v, want at least one", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if !strings.Contains(sources.String(), `"`+name+`"`) {
			t.Errorf("no test uses the golden file %s", file)
		}
	}
}

// TestReadmeNamesTests checks that each row of the tables at the end of the README names a test,
// and that each named test exists.
func TestReadmeNamesTests(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(raw), "## Which test covers which behaviour")
	sources := testSources(t)
	rows := 0
	for _, line := range strings.Split(tables, "\n") {
		if !strings.HasPrefix(line, "| ") || line == "| Behaviour | Test |" {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		names := regexp.MustCompile("`(Test[^`]*)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(names) == 0 {
			t.Errorf("a row of the README names no test: %s", line)
		}
		for _, name := range names {
			function, subtest, hasSubtest := strings.Cut(name[1], "/")
			body, exists := sources[function]
			if !exists || hasSubtest && !strings.Contains(body, `"`+subtest+`"`) {
				t.Errorf("the test %s does not exist, but a row of the README names it: %s", name[1], line)
			}
		}
	}
	if rows <= 100 { // the tables are not found, for example under a changed heading
		t.Errorf("the tables of the README have %d rows, want more than 100", rows)
	}
}

// testSources returns the source text of each test of this package, keyed by name.
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
