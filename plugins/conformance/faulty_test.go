// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/ports/contract"
)

// plantedBugs lists bugs of testdata/faulty, each with a check that must find it.
var plantedBugs = []struct{ check, bug string }{
	{"dns/account/accepted", "logs-the-token"},
	{"dns/account/no-such-zone", "no-zone-is-refused"},
	{"dns/calls/cancelled", "finishes-cancelled-writes"},
	{"dns/failures/cancelled", "ignores-deadlines"},
	{"dns/failures/deadline", "ignores-deadlines"},
	{"dns/failures/endless-answer", "reads-endlessly"},
	{"dns/failures/health", "health-waits-for-calls"},
	{"dns/failures/held-back", "ignores-retry-after"},
	{"dns/failures/html-page", "html-is-fine"},
	{"dns/failures/html-page", "panics"},
	{"dns/failures/nothing-listens", "unreachable-is-unknown"},
	{"dns/failures/nothing-listens", "long-detail"},
	{"dns/failures/nothing-listens", "line-break-in-cause"},
	{"dns/failures/redirect", "follows-redirects"},
	{"dns/failures/status-500", "500-is-refused"},
	{"dns/failures/status-503", "503-is-broken"},
	{"dns/failures/throttled", "drops-retry-after"},
	{"dns/failures/write-html-page", "html-of-a-write-is-fine"},
	{"dns/read/apex-only", "finds-the-zone-above"},
	{"dns/read/counts-zones", "counts-one"},
	{"dns/read/every-byte", "quotes-texts"},
	{"dns/read/every-byte", "cuts-texts"},
	{"dns/read/finds-zone", "no-name-servers"},
	{"dns/read/many-records", "reads-one-page"},
	{"dns/read/many-records", "reads-one-large-page"},
	{"dns/read/many-records", "repeats-the-first-page"},
	{"dns/read/rejected-credential", "rejected-is-broken"},
	{"dns/read/rejected-credential", "quotes-the-token"},
	{"dns/read/rejected-credential", "simulator-takes-any-token"},
	{"dns/read/wildcard", "expands-wildcards"},
	{"dns/write/adds-value", "changes-the-ttl"},
	{"dns/write/beside-cname", "overwrites"},
	{"dns/write/changed-since-plan", "overwrites"},
	{"dns/write/concurrent-writers", "no-condition"},
	{"dns/write/concurrent-writers", "conflict-is-broken"},
	{"dns/write/created-meanwhile", "overwrites"},
	{"dns/write/empty", "needs-changes"},
	{"dns/write/half-finished", "refuses-what-exists"},
	{"dns/write/keeps-foreign-records", "drops-foreign-records"},
	{"dns/write/lost-answer", "lost-is-down"},
	{"dns/write/not-sent-twice", "retries-writes"},
	{"dns/write/one-write", "never-removes"},
	{"dns/write/only-inside-the-zone", "writes-outside-the-zone"},
	{"dns/write/repeated", "writes-nothing"},
	{"dns/write/status-500", "500-of-a-write-is-down"},
	{"dns/write/status-503", "503-is-broken"},
	{"dns/write/status-504", "504-is-down"},
	{"mail/account/accepted", "logs-the-token"},
	{"mail/failures/cancelled", "ignores-deadlines"},
	{"mail/failures/deadline", "ignores-deadlines"},
	{"mail/failures/endless-answer", "reads-endlessly"},
	{"mail/failures/health", "health-waits-for-calls"},
	{"mail/failures/html-page", "html-is-fine"},
	{"mail/failures/nothing-listens", "unreachable-is-unknown"},
	{"mail/failures/redirect", "follows-redirects"},
	{"mail/failures/status-500", "500-is-refused"},
	{"plugin/commands/describe", "noise-in-describe"},
	{"plugin/commands/describe", "describes-otherwise"},
	{"plugin/commands/describe", "describes-fewer-fields"},
	{"plugin/commands/describe", "describes-other-budgets"},
	{"plugin/commands/describe", "describes-other-name-servers"},
	{"plugin/commands/describe", "describe-needs-home"},
	{"plugin/commands/without-host", "exits-with-0"},
	{"plugin/describe/complete", "no-title"},
	{"plugin/describe/complete", "no-help"},
	{"plugin/describe/complete", "secret-not-marked"},
	{"plugin/describe/complete", "odd-name"},
	{"plugin/describe/complete", "no-window"},
	{"plugin/describe/complete", "odd-budget-key"},
	{"plugin/describe/complete", "claims-every-name-server"},
	{"plugin/describe/complete", "unknown-capability"},
	{"plugin/describe/complete", "noise-before-handshake"},
	{"plugin/process/exits", "never-exits"},
	{"plugin/process/only-its-host", "answers-anybody"},
	{"plugin/process/only-its-host", "answers-any-certificate"},
	{"plugin/process/shutdown", "ignores-shutdown"},
	{"plugin/process/side-by-side", "one-process-only"},
	{"plugin/process/signals", "ends-on-sigint"},
	{"plugin/process/signals", "ends-on-sigterm"},
	{"plugin/process/starts", "starts-late"},
	{"sending/account/accepted", "logs-the-token"},
	{"sending/account/list-ends", "list-never-ends"},
	{"sending/account/list-ends", "lists-twice"},
	{"sending/account/no-such-mailbox", "finds-anybody"},
	{"sending/account/odd-workspace", "sends-any-workspace"},
	{"sending/describe/fields", "no-workspace"},
	{"sending/failures/health", "health-waits-for-calls"},
}

// faultyPlugin returns the path of the plugin testdata/faulty, of the given kind and with the given
// bug.
func faultyPlugin(t *testing.T, kind, bug string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), kind+"-faulty="+bug)
	if err := os.Symlink(testserver.Program(t, "testdata/faulty"), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSuiteFindsPlantedBugs runs, for each planted bug, the plugin with this bug and the check that
// must find it.
func TestSuiteFindsPlantedBugs(t *testing.T) {
	oldStop, oldAbandon, oldHealth, oldStart := stopTimeout, abandonTimeout, healthTimeout, hostStartTimeout
	// With some of the bugs, a check waits until one of these timeouts ends. Short timeouts make
	// the test faster.
	stopTimeout, abandonTimeout, healthTimeout, hostStartTimeout = 2*time.Second, 2*time.Second, 2*time.Second, time.Second/2
	t.Cleanup(func() {
		stopTimeout, abandonTimeout, healthTimeout, hostStartTimeout = oldStop, oldAbandon, oldHealth, oldStart
	})
	for _, planted := range plantedBugs {
		t.Run(planted.check+"="+planted.bug, func(t *testing.T) {
			t.Parallel() // the checks mostly wait
			kind, _, _ := strings.Cut(planted.check, "/")
			if kind == "plugin" { // a check of every plugin
				kind = "dns"
			}
			path := faultyPlugin(t, kind, planted.bug)
			report, err := Test(t.Context(), Options{Path: path, Only: []string{planted.check}})
			if err != nil || len(report.Results) != 1 || report.Results[0].Status != Failed {
				t.Fatalf("the report is %+v, %v, want one failed check, which found the bug", report, err)
			}
			result := report.Results[0]
			if text := strings.Join(append(result.Messages, result.Calls...), "\n"); strings.Contains(text, "simulated-token-of-faulty") {
				t.Errorf("the result contains the token:\n%s", text)
			}
		})
	}
}

// TestSuiteNeedsNoControlCalls runs the whole suite over a plugin whose simulator serves only the
// provider's API.
func TestSuiteNeedsNoControlCalls(t *testing.T) {
	report, err := Test(t.Context(), Options{Path: faultyPlugin(t, "dns", "simulator-without-control-calls")})
	if err != nil || report.Count(Passed) != len(List("dns")) {
		t.Fatalf("%d checks passed, want all %d: %v %+v", report.Count(Passed), len(List("dns")), err, report)
	}
}

// TestSuitePassesPluginWithoutSDK runs the checks that find the bugs of raw.go. It uses the plugin
// of raw.go without a bug, so the checks must pass.
func TestSuitePassesPluginWithoutSDK(t *testing.T) {
	only := []string{"plugin/process", "dns/failures/health", "dns/failures/nothing-listens"}
	report, err := Test(t.Context(), Options{Path: faultyPlugin(t, "dns", "raw"), Only: only})
	const wantChecks = 8 // six of plugin/process and two of dns/failures
	if err != nil || report.Count(Passed) != len(report.Results) || len(report.Results) != wantChecks {
		t.Fatalf("%d of %d checks passed, want %d of %d: %v %+v", report.Count(Passed), len(report.Results), wantChecks, wantChecks, err, report)
	}
}

// TestInvalidTextsOfOutcomesAreReported checks the messages of the suite about a detail that is too
// long and about a cause that has a line break.
func TestInvalidTextsOfOutcomesAreReported(t *testing.T) {
	for bug, want := range map[string]string{
		"long-detail":         "the detail of an outcome has 2000 bytes, but at most 1024 are allowed",
		"line-break-in-cause": "the cause of an outcome contains a control character, such as a line break",
	} {
		report, err := Test(t.Context(), Options{Path: faultyPlugin(t, "dns", bug), Only: []string{"dns/failures/nothing-listens"}})
		if err != nil || len(report.Results) != 1 || !slices.Equal(report.Results[0].Messages, []string{want}) {
			t.Errorf("%s: the report is %+v, %v, want only the message %q", bug, report, err, want)
		}
	}
}

// TestSuitePassesStrictProvider runs the whole suite over a plugin whose simulator enforces a rate
// limit and a minimum TTL, like real providers.
func TestSuitePassesStrictProvider(t *testing.T) {
	report, err := Test(t.Context(), Options{Path: faultyPlugin(t, "dns", "strict-provider")})
	if err != nil || report.Count(Passed) != len(List("dns")) {
		t.Fatalf("%d checks passed, want all %d: %v %+v", report.Count(Passed), len(List("dns")), err, report)
	}
}

// TestSuitePassesCorrectPlugin runs the suite over the plugin without a bug, and skips one check.
// The results and the calls of Done must have the same order.
func TestSuitePassesCorrectPlugin(t *testing.T) {
	var reported []string
	report, err := Test(t.Context(), Options{
		Path: testserver.Program(t, "testdata/faulty"), Skip: map[string]string{"dns/read/wildcard": "no wildcards"},
		Done: func(result Result) { reported = append(reported, result.ID) },
	})
	if err != nil || report.Name != "faulty" || report.Kind != "dns" || !report.Complete() {
		t.Fatalf("the report is %+v, %v, want a complete report of the dns plugin faulty", report, err)
	}
	for i, result := range report.Results {
		want := Passed
		if result.ID == "dns/read/wildcard" {
			want = Skipped
		}
		if result.Status != want || reported[i] != result.ID {
			t.Errorf("%s: %s %s, want %s\n%s", result.ID, result.Status, result.Reason, want, strings.Join(append(result.Messages, result.Calls...), "\n"))
		}
	}
}

// TestSkipDoesNotHideAPluginThatDoesNotStart skips all checks of a program that is not a plugin.
// One check must still fail.
func TestSkipDoesNotHideAPluginThatDoesNotStart(t *testing.T) {
	report, err := Test(t.Context(), Options{Path: "/bin/false", Skip: map[string]string{"plugin": "not today"}})
	if err != nil || report.Count(Failed) != 1 {
		t.Errorf("the report is %+v, %v, want one failed check", report, err)
	}
}

// TestSuitePassesCorrectPlatforms runs groups of checks over a mail plugin and a sending plugin
// without a bug. The groups contain all checks that plantedBugs lists for these kinds. Every check
// must pass.
func TestSuitePassesCorrectPlatforms(t *testing.T) {
	for kind, only := range map[string][]string{
		"mail":    {"plugin", "mail/account", "mail/failures"},
		"sending": {"plugin", "sending/account", "sending/describe", "sending/failures/health"},
	} {
		report, err := Test(t.Context(), Options{Path: faultyPlugin(t, kind, ""), Only: only})
		if err != nil || report.Kind != kind || report.Count(Passed) != len(report.Results) || len(report.Results) <= len(pluginChecks) {
			t.Errorf("%s: %d of %d checks passed, want all of more than %d: %v %+v", kind, report.Count(Passed), len(report.Results), len(pluginChecks), err, report)
		}
	}
}

// TestEachCheckHasAPlantedBug checks that each check of each kind of plugin has a bug that it must
// find, in plantedBugs or in the tests of package contract.
func TestEachCheckHasAPlantedBug(t *testing.T) {
	hasPlantedBug := map[string]bool{}
	for _, planted := range plantedBugs {
		hasPlantedBug[planted.check] = true
	}
	// For each check of package contract, TestEachMailCheckFindsItsPlantedBug or
	// TestEachSendingCheckFindsItsPlantedBug of that package has a platform with a bug.
	for _, c := range contract.MailPlatformChecks() {
		hasPlantedBug[c.ID] = true
	}
	for _, c := range contract.SendingPlatformChecks() {
		hasPlantedBug[c.ID] = true
	}
	for _, kind := range []string{"dns", "mail", "sending"} {
		for _, item := range List(kind) {
			if !hasPlantedBug[item.ID] {
				t.Errorf("no planted bug shows that %s can fail", item.ID)
			}
		}
	}
}

// TestSettingsCannotReplaceTheSimulator passes the settings of a foreign provider to the suite,
// without the option Real. All checks of DNS providers fail, and the foreign provider gets no call.
func TestSettingsCannotReplaceTheSimulator(t *testing.T) {
	path := faultyPlugin(t, "dns", "")
	foreignProvider, err := startSimulator(t, path, newZoneServer(t, "faulty").url, &exchange{secrets: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	callsBefore := foreignProvider.Calls.Load()
	report, err := Test(t.Context(), Options{Path: path, Settings: foreignProvider.Ready.Settings, Secrets: foreignProvider.Ready.Secrets, Only: []string{"dns"}})
	if err != nil || len(report.Results) == 0 || foreignProvider.Calls.Load() != callsBefore {
		t.Fatalf("%d results, and the foreign provider got %d calls, want results and no call: %v", len(report.Results), foreignProvider.Calls.Load()-callsBefore, err)
	}
	for _, result := range report.Results {
		if result.Status != Failed || !strings.Contains(strings.Join(result.Messages, "\n"), "--against real") {
			t.Errorf("the result is %+v, want a failure with the hint --against real", result)
		}
	}
}

// TestRealAccountIsOnlyRead runs the suite with the option Real against the plugin's simulator,
// which stands in for the real provider. Only checks that write nothing may run.
func TestRealAccountIsOnlyRead(t *testing.T) {
	for _, kind := range []string{"dns", "mail", "sending"} {
		t.Run(kind, func(t *testing.T) {
			path := faultyPlugin(t, kind, "")
			provider, err := startSimulator(t, path, newZoneServer(t, "faulty").url, &exchange{secrets: map[string]string{}})
			if err != nil {
				t.Fatal(err)
			}
			report, err := Test(t.Context(), Options{Path: path, Real: true, Settings: provider.Ready.Settings, Secrets: provider.Ready.Secrets})
			if err != nil || report.Against != "real" || report.Kind != kind || len(report.Results) <= len(pluginChecks) {
				t.Fatalf("the report is %+v, %v, want checks against the real provider", report, err)
			}
			for _, result := range report.Results {
				isSafe := strings.HasPrefix(result.ID, "plugin/") || strings.HasPrefix(result.ID, kind+"/account/") || result.ID == sendingDescription.ID
				if result.Status != Passed || !isSafe {
					t.Errorf("the result is %+v, want a passed check that may run against a real account", result)
				}
			}
			if calls := provider.Calls.Load(); calls == 0 || provider.writeCount(t) != 0 {
				t.Errorf("the provider got %d calls, %d of them writes, want calls and no writes", calls, provider.writeCount(t))
			}
		})
	}
}
