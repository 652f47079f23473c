// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// update makes TestBundledPluginsPass write the output of the suite into the READMEs instead of
// comparing it:
//
//	go test ./plugins/conformance -run TestBundledPluginsPass -update
var update = flag.Bool("update", false, "write the READMEs of the plugins")

const readmeHeading = "## What `tenantry plugin test` prints\n"

// TestBundledPluginsPass runs the suite over each bundled plugin with the plugin's simulator. No
// check may fail, and the README of the plugin must end with the output of the suite. Without
// TENANTRY_SOAK and -update, the test runs only four of the plugins, because the tests of each
// plugin run the same checks.
func TestBundledPluginsPass(t *testing.T) {
	mainFiles, err := filepath.Glob("../*/main.go")
	if err != nil || len(mainFiles) < 9 {
		t.Fatalf("the main files of the plugins are %v, %v, want at least nine", mainFiles, err)
	}
	if !*update {
		mainFiles = soak.Sample(t, mainFiles, 4)
	}
	for _, mainFile := range mainFiles {
		folder := filepath.Dir(mainFile)
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the checks mostly wait
			var out strings.Builder
			report, err := Test(t.Context(), Options{
				Path: testserver.Program(t, "release/plugins/"+name), Done: func(r Result) { _ = r.WriteText(&out) },
			})
			if err != nil || report.Count(Failed) > 0 || report.Count(Passed) < len(pluginChecks) {
				t.Fatalf("%d checks failed and %d passed, want none failed and at least %d passed: %v\n%s", report.Count(Failed), report.Count(Passed), len(pluginChecks), err, out.String())
			}
			want := readmeHeading + "\n```\n" + out.String() + report.Summary() + "\n```\n"
			readme := filepath.Join(folder, "README.md")
			page, err := os.ReadFile(readme)
			if err != nil {
				t.Fatal(err)
			}
			before, _, _ := strings.Cut(string(page), readmeHeading)
			if *update {
				if err := os.WriteFile(readme, []byte(strings.TrimRight(before, "\n")+"\n\n"+want), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if string(page) != before+want {
				t.Errorf("the README does not end with the output of the suite; run this test with -update")
			}
		})
	}
}

// TestReadmesListTheChecks compares READMEs with List and does not run the suite. It reads the
// README of each bundled plugin and of each template that is not written in Go. The README must end
// with the checks of its kind, and each check must have passed or be skipped with a reason.
func TestReadmesListTheChecks(t *testing.T) {
	mainFiles, err := filepath.Glob("../*/main.go")
	if err != nil || len(mainFiles) < 9 {
		t.Fatalf("the main files of the plugins are %v, %v, want at least nine", mainFiles, err)
	}
	examples, err := filepath.Glob("../template/[np]*-*/*-example")
	if err != nil || len(examples) != 6 {
		t.Fatalf("the examples are %v, %v, want six", examples, err)
	}
	for _, mainFile := range mainFiles {
		kind, name, _ := strings.Cut(filepath.Base(filepath.Dir(mainFile)), "-")
		requireChecks(t, filepath.Dir(mainFile), kind, name)
	}
	for _, example := range examples {
		kind, name, _ := strings.Cut(filepath.Base(example), "-")
		requireChecks(t, filepath.Dir(example), kind, name)
	}
}

// requireChecks checks that the README in a folder ends with the output of the suite for a plugin
// of this kind and name.
func requireChecks(t *testing.T, folder, kind, name string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, output, found := strings.Cut(string(page), readmeHeading+"\n```\n")
	lines, rest, closed := strings.Cut(output, "```")
	if !found || !closed || rest != "\n" {
		t.Errorf("%s: the README does not end with the output of the suite", folder)
		return
	}
	report := Report{Name: name, Kind: kind}
	for _, item := range List(kind) {
		line, nextLines, _ := strings.Cut(lines, "\n")
		lines = nextLines
		result, passedLine := Result{ID: item.ID, Proves: item.Proves, Status: Passed}, strings.Builder{}
		if err := result.WriteText(&passedLine); err != nil {
			t.Fatal(err)
		}
		switch before, reason, _ := strings.Cut(line, item.ID+" "); {
		case line+"\n" == passedLine.String():
		case before == "skip  " && strings.TrimSpace(reason) != "":
			result.Status = Skipped
		default:
			t.Errorf("%s: the README has the line\n%s\nwant\n%srun TestBundledPluginsPass or TestPluginTestPasses with -update", folder, line, passedLine.String())
			return
		}
		report.Results = append(report.Results, result)
	}
	_, wantCounts, _ := strings.Cut(report.Summary(), ":")
	if beginning, counts, _ := strings.Cut(lines, ":"); !strings.HasPrefix(beginning, name+" ") || counts != wantCounts+"\n" {
		t.Errorf("%s: the README ends with %q, want %q", folder, lines, fmt.Sprintf("%s VERSION:%s\n", name, wantCounts))
	}
}
