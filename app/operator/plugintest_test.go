// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
)

// runPluginTest runs `plugin test` over the plugin of the conformance tests, with a planted bug or
// without one.
func runPluginTest(t *testing.T, bug, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dns-faulty="+bug)
	if err := os.Symlink(testserver.Program(t, "testdata/faulty"), path); err != nil {
		t.Fatal(err)
	}
	cmd := pluginTestCommand()
	cmd.Flags().String("output", "text", "")
	var out, problems bytes.Buffer
	cmd.SetArgs(append([]string{path}, args...))
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), problems.String(), err
}

func TestPluginTestReportsChecks(t *testing.T) {
	junit := filepath.Join(t.TempDir(), "report.xml")
	out, _, err := runPluginTest(t, "", "", "--only", "dns/account", "--skip", "dns/account/no-such-zone=not today", "--junit", junit)
	if err != nil || !strings.Contains(out, "ok    dns/account/accepted ") || !strings.Contains(out, "not today") ||
		!strings.HasSuffix(out, "faulty 1.0.0: 1 passed, 0 failed, 1 skipped\n") {
		t.Errorf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(junit)
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests   int `xml:"tests,attr"`
		Skipped int `xml:"skipped,attr"`
		Cases   []struct {
			Name string `xml:"name,attr"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(raw, &suite); err != nil || suite.Tests != 2 || suite.Skipped != 1 || len(suite.Cases) != 2 || suite.Cases[0].Name != "dns/account/accepted" {
		t.Errorf("%v %+v\n%s", err, suite, raw)
	}
}

func TestPluginTestShowsTheFailedExchange(t *testing.T) {
	out, _, err := runPluginTest(t, "quotes-the-token", "", "--only", "dns/read/rejected-credential", "--output", "json")
	if !errors.Is(err, cli.ErrReported) || cli.ExitCode(err) != cli.ExitRefused {
		t.Errorf("got %v", err)
	}
	var report pluginReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Failed != 1 || report.Against != "simulator" || len(report.Checks) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	calls := strings.Join(report.Checks[0].Calls, "\n")
	if !strings.Contains(calls, "host calls check") || !strings.Contains(calls, "plugin calls GET /zones") || !strings.Contains(calls, "401") ||
		!strings.Contains(strings.Join(report.Checks[0].Messages, "\n"), "the secret api_token") || strings.Contains(out, "guessed-api_token") {
		t.Errorf("%s", out)
	}
}

func TestPluginTestWithoutSimulatorIsIncomplete(t *testing.T) {
	out, _, err := runPluginTest(t, "no-simulator", "")
	if cli.ExitCode(err) != cli.ExitExternal || !errors.Is(err, cli.ErrReported) || !strings.Contains(out, "the plugin has no simulator") || strings.Contains(out, "FAIL") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPluginTestRefusesWrongFlags(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(list, []byte(`["secret-in-the-file"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--against", "nobody"}, {"--against", "real"}, {"--skip", "dns/read"}, {"--skip", "dns/nothing=x"}, {"--only", "mail/rules"},
		{"--settings", list}, {"--credential-file", filepath.Join(t.TempDir(), "missing")},
	} {
		if _, _, err := runPluginTest(t, "", "", args...); cli.ExitCode(err) != cli.ExitUsage || strings.Contains(err.Error(), "secret-in-the-file") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestPluginTestAgainstRealOnlyReads names an address where nothing listens as the real provider.
func TestPluginTestAgainstRealOnlyReads(t *testing.T) {
	credential := filepath.Join(t.TempDir(), "credential.json")
	settings := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(credential, []byte(`{"api_token": "a-wrong-token"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, []byte(`{"api_url": "http://127.0.0.1:1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--against", "real", "--settings", settings, "--credential-file", credential}
	out, asked, err := runPluginTest(t, "", "n\n", args...)
	if err == nil || out != "" || !strings.Contains(asked, "dns/account/accepted") || !strings.Contains(asked, "Continue?") {
		t.Errorf("without consent: %v\n%s%s", err, out, asked)
	}
	for name, run := range map[string]func() (string, string, error){
		"an answer": func() (string, string, error) { return runPluginTest(t, "", "y\n", args...) },
		"--yes":     func() (string, string, error) { return runPluginTest(t, "", "", append(args, "--yes")...) },
	} {
		out, _, err := run()
		if cli.ExitCode(err) != cli.ExitRefused || !strings.Contains(out, "FAIL  dns/account/accepted") || !strings.Contains(out, "ok    plugin/process/exits") ||
			strings.Contains(out, "dns/write") || strings.Contains(out, "a-wrong-token") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestPluginTestOfAnotherProgramFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := pluginTestCommand()
	var out bytes.Buffer
	cmd.SetArgs([]string{path, "--only", "plugin/process/exits"})
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); cli.ExitCode(err) != cli.ExitRefused || !strings.Contains(out.String(), "plugin handshake") ||
		!strings.HasSuffix(out.String(), "other: 0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
