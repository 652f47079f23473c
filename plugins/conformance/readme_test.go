// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// update writes the output of the suite into the READMEs instead of comparing it:
//
//	go test ./plugins/conformance -run TestBundledPluginsPass -update
var update = flag.Bool("update", false, "write the READMEs of the plugins")

const readmeHeading = "## What `tenantry plugin test` prints\n"

// TestBundledPluginsPass runs the suite over each bundled plugin with its own simulator. No check
// may fail, and the README of the plugin ends with the output. Without TENANTRY_SOAK it tests four
// of the plugins; the tests of each plugin run the same checks too.
func TestBundledPluginsPass(t *testing.T) {
	folders, err := filepath.Glob("../*/main.go")
	if err != nil || len(folders) < 9 {
		t.Fatalf("plugins: %v, %v", folders, err)
	}
	if !*update {
		folders = soak.Sample(t, folders, 4)
	}
	for _, main := range folders {
		folder := filepath.Dir(main)
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the checks mostly wait
			var out strings.Builder
			report, err := Test(t.Context(), Options{
				Path: testserver.Program(t, "release/plugins/"+name), Done: func(r Result) { _ = r.WriteText(&out) },
			})
			if err != nil || report.Count(Failed) > 0 || report.Count(Passed) < len(pluginChecks) {
				t.Fatalf("%v\n%s", err, out.String())
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
				t.Errorf("the README does not end with the output; run this test with -update")
			}
		})
	}
}
