// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// plantedBugs maps each bug of testdata/faulty to a check that must find it.
var plantedBugs = map[string]string{
	"no-title":                  "plugin/describe/complete",
	"no-help":                   "plugin/describe/complete",
	"secret-not-marked":         "plugin/describe/complete",
	"odd-name":                  "plugin/describe/complete",
	"no-window":                 "plugin/describe/complete",
	"noise-before-handshake":    "plugin/describe/complete",
	"noise-in-describe":         "plugin/commands/describe",
	"describes-otherwise":       "plugin/commands/describe",
	"exits-with-0":              "plugin/commands/without-host",
	"never-exits":               "plugin/process/exits",
	"one-process-only":          "plugin/process/side-by-side",
	"logs-the-token":            "dns/account/accepted",
	"no-zone-is-refused":        "dns/account/no-such-zone",
	"unreachable-is-unknown":    "dns/failures/nothing-listens",
	"html-is-fine":              "dns/failures/html-page",
	"panics":                    "dns/failures/html-page",
	"500-is-refused":            "dns/failures/status-500",
	"503-is-broken":             "dns/failures/status-503",
	"reads-endlessly":           "dns/failures/endless-answer",
	"follows-redirects":         "dns/failures/redirect",
	"ignores-deadlines":         "dns/failures/deadline",
	"drops-retry-after":         "dns/failures/throttled",
	"counts-one":                "dns/read/counts-zones",
	"rejected-is-broken":        "dns/read/rejected-credential",
	"quotes-the-token":          "dns/read/rejected-credential",
	"simulator-takes-any-token": "dns/read/rejected-credential",
	"no-name-servers":           "dns/read/finds-zone",
	"finds-the-zone-above":      "dns/read/apex-only",
	"quotes-texts":              "dns/read/every-byte",
	"cuts-texts":                "dns/read/every-byte",
	"expands-wildcards":         "dns/read/wildcard",
	"reads-one-page":            "dns/read/many-records",
	"repeats-the-first-page":    "dns/read/many-records",
	"drops-foreign-records":     "dns/write/keeps-foreign-records",
	"changes-the-ttl":           "dns/write/adds-value",
	"never-removes":             "dns/write/one-write",
	"writes-nothing":            "dns/write/repeated",
	"writes-outside-the-zone":   "dns/write/only-inside-the-zone",
	"lost-is-down":              "dns/write/lost-answer",
	"retries-writes":            "dns/write/not-sent-twice",
	"overwrites":                "dns/write/changed-since-plan",
	"no-condition":              "dns/write/concurrent-writers",
	"conflict-is-broken":        "dns/write/concurrent-writers",
	"500-of-a-write-is-down":    "dns/write/status-500",
	"504-is-down":               "dns/write/status-504",
}

// TestSuiteFindsPlantedBugs runs the check that must find a bug over a plugin with that bug.
func TestSuiteFindsPlantedBugs(t *testing.T) {
	previous := stopTimeout
	stopTimeout = 2 * time.Second
	t.Cleanup(func() { stopTimeout = previous })
	program := testserver.Program(t, "testdata/faulty")
	for bug, check := range plantedBugs {
		t.Run(bug, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dns-faulty="+bug)
			if err := os.Symlink(program, path); err != nil {
				t.Fatal(err)
			}
			report, err := Test(t.Context(), Options{Path: path, Only: []string{check}})
			if err != nil || len(report.Results) != 1 || report.Results[0].Status != Failed {
				t.Fatalf("%s does not find the bug: %+v, %v", check, report, err)
			}
			result := report.Results[0]
			if all := strings.Join(append(result.Messages, result.Calls...), "\n"); strings.Contains(all, "simulated-token-of-faulty") {
				t.Errorf("the result contains the token:\n%s", all)
			}
		})
	}
}

// TestSuitePassesCorrectPlugin runs the whole suite over the plugin without a bug.
func TestSuitePassesCorrectPlugin(t *testing.T) {
	var reported []string
	report, err := Test(t.Context(), Options{
		Path: testserver.Program(t, "testdata/faulty"), Skip: map[string]string{"dns/read/wildcard": "no wildcards"},
		Done: func(r Result) { reported = append(reported, r.ID) },
	})
	if err != nil || report.Name != "faulty" || report.Kind != "dns" || !report.Complete() {
		t.Fatalf("%+v, %v", report, err)
	}
	for i, r := range report.Results {
		want := Passed
		if r.ID == "dns/read/wildcard" {
			want = Skipped
		}
		if r.Status != want || reported[i] != r.ID {
			t.Errorf("%s: %s %s\n%s", r.ID, r.Status, r.Reason, strings.Join(append(r.Messages, r.Calls...), "\n"))
		}
	}
}
