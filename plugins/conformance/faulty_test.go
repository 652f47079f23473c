// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports/contract"
)

// plantedBugs are the bugs of testdata/faulty, each with a check that must find it.
var plantedBugs = []struct{ check, bug string }{
	{"dns/account/accepted", "logs-the-token"},
	{"dns/account/no-such-zone", "no-zone-is-refused"},
	{"dns/calls/cancelled", "finishes-cancelled-writes"},
	{"dns/failures/cancelled", "ignores-deadlines"},
	{"dns/failures/deadline", "ignores-deadlines"},
	{"dns/failures/endless-answer", "reads-endlessly"},
	{"dns/failures/html-page", "html-is-fine"},
	{"dns/failures/html-page", "panics"},
	{"dns/failures/nothing-listens", "unreachable-is-unknown"},
	{"dns/failures/redirect", "follows-redirects"},
	{"dns/failures/status-500", "500-is-refused"},
	{"dns/failures/status-503", "503-is-broken"},
	{"dns/failures/throttled", "drops-retry-after"},
	{"dns/failures/write-html-page", "html-is-fine"},
	{"dns/read/apex-only", "finds-the-zone-above"},
	{"dns/read/counts-zones", "counts-one"},
	{"dns/read/every-byte", "quotes-texts"},
	{"dns/read/every-byte", "cuts-texts"},
	{"dns/read/finds-zone", "no-name-servers"},
	{"dns/read/many-records", "reads-one-page"},
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
	{"plugin/commands/describe", "noise-in-describe"},
	{"plugin/commands/describe", "describes-otherwise"},
	{"plugin/commands/without-host", "exits-with-0"},
	{"plugin/describe/complete", "no-title"},
	{"plugin/describe/complete", "no-help"},
	{"plugin/describe/complete", "secret-not-marked"},
	{"plugin/describe/complete", "odd-name"},
	{"plugin/describe/complete", "no-window"},
	{"plugin/describe/complete", "odd-budget-key"},
	{"plugin/describe/complete", "noise-before-handshake"},
	{"plugin/process/exits", "never-exits"},
	{"plugin/process/side-by-side", "one-process-only"},
}

// TestSuiteFindsPlantedBugs builds a plugin for each planted bug and runs the check that must find
// the bug.
func TestSuiteFindsPlantedBugs(t *testing.T) {
	stop, abandon := stopTimeout, abandonTimeout
	// Plugins with a planted bug make the checks wait for the whole time.
	stopTimeout, abandonTimeout = 2*time.Second, 2*time.Second
	t.Cleanup(func() { stopTimeout, abandonTimeout = stop, abandon })
	program := testserver.Program(t, "testdata/faulty")
	for _, tt := range plantedBugs {
		t.Run(tt.check+"="+tt.bug, func(t *testing.T) {
			t.Parallel() // the checks mostly wait
			path := filepath.Join(t.TempDir(), "dns-faulty="+tt.bug)
			if err := os.Symlink(program, path); err != nil {
				t.Fatal(err)
			}
			report, err := Test(t.Context(), Options{Path: path, Only: []string{tt.check}})
			if err != nil || len(report.Results) != 1 || report.Results[0].Status != Failed {
				t.Fatalf("the check does not find the bug: %+v, %v", report, err)
			}
			result := report.Results[0]
			if all := strings.Join(append(result.Messages, result.Calls...), "\n"); strings.Contains(all, "simulated-token-of-faulty") {
				t.Errorf("the result contains the token:\n%s", all)
			}
		})
	}
}

// TestSuiteNeedsNoControlCalls runs the whole suite over a plugin whose simulator serves nothing
// but the provider's API. Small simulators in other languages do the same.
func TestSuiteNeedsNoControlCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dns-faulty=simulator-without-control-calls")
	if err := os.Symlink(testserver.Program(t, "testdata/faulty"), path); err != nil {
		t.Fatal(err)
	}
	report, err := Test(t.Context(), Options{Path: path})
	if err != nil || report.Count(Passed) != len(List("dns")) {
		t.Fatalf("%v %+v", err, report)
	}
}

// TestSuitePassesStrictProvider runs the whole suite over a plugin whose simulator enforces a rate limit
// and a minimum TTL, as providers do.
func TestSuitePassesStrictProvider(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dns-faulty=strict-provider")
	if err := os.Symlink(testserver.Program(t, "testdata/faulty"), path); err != nil {
		t.Fatal(err)
	}
	report, err := Test(t.Context(), Options{Path: path})
	if err != nil || report.Count(Passed) != len(List("dns")) {
		t.Fatalf("%v %+v", err, report)
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

// TestEachCheckHasAPlantedBug lists the checks that no planted bug fails, of all kinds of plugins.
func TestEachCheckHasAPlantedBug(t *testing.T) {
	found := map[string]bool{
		"sending/describe/fields": true, // TestSendingDescriptionProblemsAreReported
	}
	for _, tt := range plantedBugs {
		found[tt.check] = true
		// The checks of the other kinds of plugins that have this name run the same code.
		if area, ok := strings.CutPrefix(tt.check, "dns/"); ok && (strings.HasPrefix(area, "failures/") || area == "account/accepted") {
			found["mail/"+area], found["sending/"+area] = true, true
		}
	}
	for _, tt := range plantedAccountBugs {
		found[tt.check] = true
	}
	// The tests of package contract have a planted bug for each of its checks.
	for _, c := range contract.MailPlatformChecks() {
		found[c.ID] = true
	}
	for _, c := range contract.SendingPlatformChecks() {
		found[c.ID] = true
	}
	for _, kind := range []string{"dns", "mail", "sending"} {
		for _, item := range List(kind) {
			if !found[item.ID] {
				t.Errorf("no planted bug shows that %s can fail", item.ID)
			}
		}
	}
}

// brokenAccounts is a sending platform with wrong answers about accounts.
type brokenAccounts struct {
	*fake.SendingPlatform
	found integration.Account
	page  integration.Page
}

// Account implements sdk.SendingPlatform.
func (b brokenAccounts) Account(context.Context, string) (integration.Account, error) {
	return b.found, nil
}

// Accounts implements sdk.SendingPlatform.
func (b brokenAccounts) Accounts(context.Context, string) (integration.Page, error) {
	return b.page, nil
}

// plantedAccountBugs are bugs that the checks of a real sending account must find.
var plantedAccountBugs = []struct {
	check, says string // what the message of the failed check contains
	run         func(T, sdk.SendingPlatform)
	bug         brokenAccounts
}{
	{"sending/account/no-such-mailbox", "a@a.example", checkNoSuchMailbox, brokenAccounts{found: integration.Account{ID: "1", Address: "a@a.example"}}},
	{"sending/account/list-ends", "does not end", checkListEnds, brokenAccounts{page: integration.Page{Next: "1"}}},
	{"sending/account/list-ends", "listed twice", checkListEnds, brokenAccounts{page: integration.Page{
		Accounts: []integration.Account{{ID: "1", Address: "a@a.example"}}, Next: "1",
	}}},
}

// TestAccountChecksFindPlantedBugs runs the checks of a real sending account in this process.
func TestAccountChecksFindPlantedBugs(t *testing.T) {
	for _, tt := range plantedAccountBugs {
		e := &exchange{secrets: map[string]string{}}
		correct := runCheck(t.Context(), checkTimeout, func(t T) { tt.run(t, fake.NewSendingPlatform()) })
		if correct.failed {
			t.Errorf("%s fails without a bug: %v", tt.check, correct.messages)
		}
		run := runCheck(t.Context(), checkTimeout, func(t T) {
			tt.run(t, wire.SendingInProcess(tt.bug, e.interceptors(sdk.Connection{})...))
		})
		if records, _ := e.all(); !run.failed || !strings.Contains(strings.Join(run.messages, "\n"), tt.says) || len(records) == 0 || !strings.HasPrefix(records[len(records)-1], "host calls account") {
			t.Errorf("%s: %v, %v", tt.check, run.messages, records)
		}
	}
}

// TestRealAccountIsOnlyRead uses the plugin's simulator in the place of the real provider.
func TestRealAccountIsOnlyRead(t *testing.T) {
	path := testserver.Program(t, "testdata/faulty")
	e := &exchange{secrets: map[string]string{}}
	provider, err := startSimulator(t, path, newWorld(t, "faulty").url, e)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Test(t.Context(), Options{Path: path, Real: true, Settings: provider.Ready.Settings, Secrets: provider.Ready.Secrets})
	if err != nil || report.Against != "real" || len(report.Results) < 7 {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, r := range report.Results {
		if r.Status != Passed || strings.HasPrefix(r.ID, "dns/write") || strings.HasPrefix(r.ID, "dns/failures") {
			t.Errorf("%+v", r)
		}
	}
	if calls := provider.Calls.Load(); calls == 0 || provider.writes(t) != 0 {
		t.Errorf("%d calls, %d of them writes", calls, provider.writes(t))
	}
}
