// SPDX-License-Identifier: Apache-2.0

package bunstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ownerCondition matches a condition on the owner in this package's source.
var ownerCondition = regexp.MustCompile(`(?:\w+\.)?account_id = (?:\?|\w+\.account_id)`)

// mutant is the source of a file with one condition removed.
type mutant struct {
	file, where string
	source      []byte
}

// mutants returns one mutant for each condition. A placeholder stays in the query, so that only the
// condition is missing.
func mutants(t *testing.T) (all []mutant) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range ownerCondition.FindAllIndex(source, -1) {
			instead := "1 = 1"
			if source[at[1]-1] == '?' {
				instead = "? IS NOT NULL"
			}
			changed := append(append(bytes.Clone(source[:at[0]]), instead...), source[at[1]:]...)
			line := bytes.Count(source[:at[0]], []byte("\n")) + 1
			all = append(all, mutant{file, fmt.Sprintf("%s:%d: %s", file, line, lineOf(source, at[0])), changed})
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d conditions were found", len(all))
	}
	return all
}

func lineOf(source []byte, at int) string {
	begin := bytes.LastIndexByte(source[:at], '\n') + 1
	line, _, _ := bytes.Cut(source[begin:], []byte("\n"))
	return string(bytes.TrimSpace(line))
}

// redundantConditions holds conditions that follow from others, with the reason.
var redundantConditions = map[string]string{
	"h.account_id = t.account_id AND h.guid = t.guid": "a GUID has one row of a tenant, that of its holder; the statement is the operator's",
}

// TestEveryOwnerConditionIsTested removes each condition on the owner from the source in turn and
// runs the other tests on the result, which must fail. Each mutant is compiled, so this is
// for TENANTRY_SOAK. Without it the test checks that every exception still applies.
func TestEveryOwnerConditionIsTested(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, m := range mutants(t) {
		if exception := exceptionFor(m); exception != "" {
			used[exception] = true
			continue
		}
		if os.Getenv("TENANTRY_SOAK") == "" {
			continue
		}
		if out, survived := m.lives(t); survived {
			t.Errorf("the tests pass without the condition in %s\n%s", m.where, out)
		}
	}
	for exception := range redundantConditions {
		if !used[exception] {
			t.Errorf("no condition needs the exception %q", exception)
		}
	}
}

func exceptionFor(m mutant) string {
	for exception := range redundantConditions {
		if strings.Contains(m.where, exception) {
			return exception
		}
	}
	return ""
}

// lives reports whether the other tests pass on the mutant.
func (m mutant) lives(t *testing.T) (out []byte, survived bool) {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	changed, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, m.file): changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{changed: m.source, overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-count=1", "-skip", "^TestEveryOwnerConditionIsTested$", ".")
	out, err = cmd.CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("--- FAIL")) {
		t.Fatalf("%s: the mutant does not run: %v\n%s", m.where, err, out)
	}
	return out, err == nil
}
