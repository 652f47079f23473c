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

// golden compares an answer with a body that was written from the reference.
// A "*" in a text of the file stands for anything.
func golden(t *testing.T, name string, a answer) {
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
	if a.status != want.Status {
		t.Errorf("%s: status %d, want %d: %s", name, a.status, want.Status, a.raw)
	}
	var body any
	if err := json.Unmarshal(a.raw, &body); err != nil {
		t.Fatalf("%s: %v: %s", name, err, a.raw)
	}
	for _, problem := range differs("body", want.Body, body) {
		t.Errorf("%s: %s", name, problem)
	}
}

// differs lists where have is not as want says.
func differs(at string, want, have any) []string {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return []string{at + " is no object"}
		}
		var problems []string
		for name := range h {
			if _, known := w[name]; !known {
				problems = append(problems, at+"."+name+" is not in the golden file")
			}
		}
		for name, v := range w {
			problems = append(problems, differs(at+"."+name, v, h[name])...)
		}
		return problems
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return []string{fmt.Sprintf("%s: %v, want %v", at, have, w)}
		}
		var problems []string
		for i := range w {
			problems = append(problems, differs(fmt.Sprintf("%s[%d]", at, i), w[i], h[i])...)
		}
		return problems
	case string:
		h, ok := have.(string)
		form := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(w), `\*`, ".*") + "$"
		if !ok || !regexp.MustCompile(form).MatchString(h) {
			return []string{fmt.Sprintf("%s: %q, want %q", at, have, w)}
		}
		return nil
	}
	if want != have {
		return []string{fmt.Sprintf("%s: %v, want %v", at, have, want)}
	}
	return nil
}

// TestGoldenFilesAreUsed finds golden files that no test compares with.
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
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if !strings.Contains(sources.String(), `"`+name+`"`) {
			t.Errorf("no test uses %s", file)
		}
	}
}
