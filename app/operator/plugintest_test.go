// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// faultyPlugin returns the path of a test plugin of the given kind. The plugin has the given bug,
// or no bug if bug is empty.
func faultyPlugin(t *testing.T, kind, bug string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), kind+"-faulty="+bug)
	apptest.Must(t, os.Symlink(testserver.Program(t, "testdata/faulty"), path))
	return path
}

// runPluginTest runs `plugin test` for a DNS plugin that has the given bug, or no bug if bug is
// empty.
func runPluginTest(t *testing.T, bug, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runPluginTestOf(t, faultyPlugin(t, "dns", bug), stdin, args...)
}

// runPluginTestOf runs `plugin test` for the plugin at path.
func runPluginTestOf(t *testing.T, path, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := pluginTestCommand()
	cmd.Flags().String("output", "text", "")
	var stdoutBuffer, stderrBuffer bytes.Buffer
	cmd.SetArgs(append([]string{path}, args...))
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&stdoutBuffer)
	cmd.SetErr(&stderrBuffer)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdoutBuffer.String(), stderrBuffer.String(), err
}

func TestPluginTestReportsChecks(t *testing.T) {
	reportFile := filepath.Join(t.TempDir(), "report.xml")
	out, _, err := runPluginTest(t, "", "", "--only", "dns/account", "--skip", "dns/account/no-such-zone=not today", "--junit", reportFile)
	if err != nil || !strings.Contains(out, "ok    dns/account/accepted ") || !strings.Contains(out, "not today") ||
		!strings.HasSuffix(out, "faulty 1.0.0: 1 passed, 0 failed, 1 skipped\n") {
		t.Errorf("got the error %v, want one passed and one skipped check in\n%s", err, out)
	}
	raw, err := os.ReadFile(reportFile)
	apptest.Must(t, err)
	var suite struct {
		Tests   int `xml:"tests,attr"`
		Skipped int `xml:"skipped,attr"`
		Cases   []struct {
			Name string `xml:"name,attr"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(raw, &suite); err != nil || suite.Tests != 2 || suite.Skipped != 1 || len(suite.Cases) != 2 || suite.Cases[0].Name != "dns/account/accepted" {
		t.Errorf("got the JUnit report %+v, %v, want one passed and one skipped check\n%s", suite, err, raw)
	}
}

// TestPluginTestShowsTheFailedExchange checks that text, JSON and JUnit have the message and the
// calls of a failed check, without the secret.
func TestPluginTestShowsTheFailedExchange(t *testing.T) {
	const check = "dns/read/rejected-credential"
	reportFile := filepath.Join(t.TempDir(), "report.xml")
	text, _, err := runPluginTest(t, "quotes-the-token", "", "--only", check, "--junit", reportFile)
	if !errors.Is(err, cli.ErrReported) || cli.ExitCode(err) != cli.ExitRefused || !strings.HasPrefix(text, "FAIL  "+check+" ") ||
		!strings.HasSuffix(text, "faulty 1.0.0: 0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("got the error %v, want ErrReported and the failed check %s in\n%s", err, check, text)
	}
	raw, err := os.ReadFile(reportFile)
	apptest.Must(t, err)
	var suite struct {
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure struct {
				Message string `xml:"message,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(raw, &suite); err != nil || suite.Failures != 1 || len(suite.Cases) != 1 || suite.Cases[0].Name != check ||
		suite.Cases[0].Failure.Message != "calls with a rejected credential are refused with access_denied" {
		t.Fatalf("got the JUnit report %+v, %v, want the failed check %s\n%s", suite, err, check, raw)
	}
	for name, shown := range map[string]string{"text": text, "JUnit": suite.Cases[0].Failure.Text} {
		for _, want := range []string{"the secret api_token", "host calls check", "plugin calls GET /zones", "401"} {
			if !strings.Contains(shown, want) {
				t.Errorf("the %s lacks %q:\n%s", name, want, shown)
			}
		}
		if strings.Contains(shown, "guessed-api_token") {
			t.Errorf("the %s has the secret:\n%s", name, shown)
		}
	}
	out, _, err := runPluginTest(t, "quotes-the-token", "", "--only", check, "--output", "json")
	if !errors.Is(err, cli.ErrReported) || cli.ExitCode(err) != cli.ExitRefused {
		t.Errorf("with --output json: got %v, want ErrReported with the exit code %d", err, cli.ExitRefused)
	}
	var report pluginReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Failed != 1 || report.Against != "simulator" || len(report.Checks) != 1 {
		t.Fatalf("with --output json: got the error %v, want one failed check of the simulator in\n%s", err, out)
	}
	calls := strings.Join(report.Checks[0].Calls, "\n")
	if !strings.Contains(calls, "host calls check") || !strings.Contains(calls, "plugin calls GET /zones") || !strings.Contains(calls, "401") ||
		!strings.Contains(strings.Join(report.Checks[0].Messages, "\n"), "the secret api_token") || strings.Contains(out, "guessed-api_token") {
		t.Errorf("the report lacks a call or the message, or has the secret:\n%s", out)
	}
}

func TestPluginTestWithoutSimulatorIsIncomplete(t *testing.T) {
	out, _, err := runPluginTest(t, "no-simulator", "")
	if cli.ExitCode(err) != cli.ExitExternal || !errors.Is(err, cli.ErrReported) || !strings.Contains(out, "the plugin has no simulator") || strings.Contains(out, "FAIL") {
		t.Errorf("got the error %v, want ErrReported with the exit code %d, and no failed check in\n%s", err, cli.ExitExternal, out)
	}
}

func TestPluginTestRefusesWrongFlags(t *testing.T) {
	listFile := filepath.Join(t.TempDir(), "list.json")
	apptest.Must(t, os.WriteFile(listFile, []byte(`["secret-in-the-file"]`), 0o600))
	for _, args := range [][]string{
		{"--against", "nobody"}, {"--against", "real"}, {"--skip", "dns/read"}, {"--skip", "dns/nothing=x"}, {"--only", "mail/rules"},
		{"--settings", listFile}, {"--credential-file", filepath.Join(t.TempDir(), "missing")},
	} {
		if _, _, err := runPluginTest(t, "", "", args...); cli.ExitCode(err) != cli.ExitUsage || strings.Contains(err.Error(), "secret-in-the-file") {
			t.Errorf("%v: got %v, want a usage error without the content of the file", args, err)
		}
	}
}

func TestPluginTestOfAFolderNamesTheProgram(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dns-acme")
	apptest.Must(t, os.Mkdir(folder, 0o700))
	_, _, err := runPluginTestOf(t, folder, "")
	if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), filepath.Join(folder, "dns-acme")) {
		t.Errorf("got %v, want a usage error that names the program in the folder", err)
	}
}

// TestPluginTestAgainstRealOnlyReads checks that a test of a real provider asks for confirmation
// and runs no check that writes. Nothing listens at the address of the provider, so the check of
// the credential fails.
func TestPluginTestAgainstRealOnlyReads(t *testing.T) {
	settings, credential := map[string]string{"api_url": "http://127.0.0.1:1"}, map[string]string{"api_token": "a-wrong-token"}
	args := []string{"--against", "real", "--settings", writeJSON(t, settings), "--credential-file", writeJSON(t, credential)}
	out, prompt, err := runPluginTest(t, "", "n\n", args...)
	if err == nil || out != "" || !strings.Contains(prompt, "dns/account/accepted") || !strings.Contains(prompt, "Continue?") {
		t.Errorf("without confirmation: got the error %v, want an error and no checks\n%s%s", err, out, prompt)
	}
	for confirmation, runConfirmed := range map[string]func() (string, string, error){
		"the answer y": func() (string, string, error) { return runPluginTest(t, "", "y\n", args...) },
		"--yes":        func() (string, string, error) { return runPluginTest(t, "", "", append(args, "--yes")...) },
	} {
		out, _, err := runConfirmed()
		if cli.ExitCode(err) != cli.ExitRefused || !strings.Contains(out, "FAIL  dns/account/accepted") || !strings.Contains(out, "ok    plugin/process/exits") ||
			strings.Contains(out, "dns/write") || strings.Contains(out, "a-wrong-token") {
			t.Errorf("%s: got the error %v, want only the check of the credential to fail, and no check that writes in\n%s", confirmation, err, out)
		}
	}
}

// TestInterruptEndsTheQuestionOfPluginTest checks that Ctrl-C ends the question without an answer,
// with the error "not confirmed".
func TestInterruptEndsTheQuestionOfPluginTest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silentStdin, stdinWriter := io.Pipe()
	defer func() { _ = stdinWriter.Close() }()
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetIn(silentStdin)
	cmd.SetErr(io.Discard)
	if err := (pluginTestFlags{}).confirm(cmd, conformance.Options{}); err == nil || !strings.HasPrefix(err.Error(), "not confirmed") {
		t.Errorf("got the error %v, want that the test was not confirmed", err)
	}
}

// TestPluginTestAgainstRealOfEachKind checks that a test of a real provider makes no call before
// the confirmation, and only reads after it. The simulator of the plugin stands for the real
// provider.
func TestPluginTestAgainstRealOfEachKind(t *testing.T) {
	for _, kind := range []string{"dns", "mail", "sending"} {
		t.Run(kind, func(t *testing.T) {
			path := faultyPlugin(t, kind, "")
			provider := startSimulator(t, path)
			args := []string{"--against", "real", "--settings", writeJSON(t, provider.Settings), "--credential-file", writeJSON(t, provider.Secrets)}
			out, prompt, err := runPluginTestOf(t, path, "n\n", args...)
			if err == nil || out != "" || !strings.Contains(prompt, "Continue?") {
				t.Errorf("without confirmation: got the error %v, want an error and no checks\n%s%s", err, out, prompt)
			}
			if calls := callsOf(t, provider); len(calls) != 0 {
				t.Errorf("without confirmation the provider got the calls %+v, want none", calls)
			}
			out, _, err = runPluginTestOf(t, path, "y\n", append(args, "--output", "json")...)
			var report pluginReport
			if err != nil || json.Unmarshal([]byte(out), &report) != nil || report.Kind != kind || report.Against != "real" || report.Failed+report.Skipped != 0 {
				t.Fatalf("with confirmation: got the error %v, want only passed checks of the real %s provider in\n%s", err, kind, out)
			}
			credentialChecked := false
			for _, check := range report.Checks {
				credentialChecked = credentialChecked || check.ID == kind+"/account/accepted"
				if !strings.Contains(prompt, "  "+check.ID+": "+check.Proves) {
					t.Errorf("the command did not say that it runs %s:\n%s", check.ID, prompt)
				}
				if strings.HasPrefix(check.ID, kind) && !strings.HasPrefix(check.ID, kind+"/account/") && check.ID != "sending/describe/fields" {
					t.Errorf("%s ran on the real account", check.ID)
				}
			}
			calls := callsOf(t, provider)
			if !credentialChecked || len(calls) == 0 {
				t.Errorf("the provider got no call, or no check of the credential ran: %s", out)
			}
			for _, call := range calls {
				if call.Method != http.MethodGet {
					t.Errorf("the provider got %+v, want only GET", call)
				}
			}
		})
	}
}

// startSimulator runs the command `simulate` of the plugin at path until the test ends. The control
// server of the simulator has no zones.
func startSimulator(t *testing.T, path string) (ready simulate.Ready) {
	t.Helper()
	controlServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "[]") }))
	t.Cleanup(controlServer.Close)
	cmd := exec.Command(path, "simulate", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--world", controlServer.URL)
	stdin, err := cmd.StdinPipe()
	apptest.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	apptest.Must(t, err)
	apptest.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close() // ends the simulator
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	apptest.Must(t, json.NewDecoder(stdout).Decode(&ready))
	return ready
}

// callsOf returns the calls of the provider's API that the simulator received.
func callsOf(t *testing.T, provider simulate.Ready) (calls []simulate.Entry) {
	t.Helper()
	answer, err := http.Get(provider.URL + "/_control/calls")
	apptest.Must(t, err)
	defer func() { _ = answer.Body.Close() }()
	apptest.Must(t, json.NewDecoder(answer.Body).Decode(&calls))
	return calls
}

// writeJSON writes a value to a new file and returns the path.
func writeJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	apptest.Must(t, err)
	path := filepath.Join(t.TempDir(), "file.json")
	apptest.Must(t, os.WriteFile(path, raw, 0o600))
	return path
}

func TestPluginTestOfAProgramThatIsNotAPluginFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other")
	apptest.Must(t, os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	cmd := pluginTestCommand()
	var out bytes.Buffer
	cmd.SetArgs([]string{path, "--only", "plugin/process/exits"})
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); cli.ExitCode(err) != cli.ExitRefused || !strings.Contains(out.String(), "plugin handshake") ||
		!strings.HasSuffix(out.String(), "other: 0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("got the error %v, want the exit code %d, and a failed plugin handshake in\n%s", err, cli.ExitRefused, out.String())
	}
}
