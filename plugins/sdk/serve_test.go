// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/wire"
)

// roleVariable is the environment variable that makes the test binary run as a plugin, or as a
// program that makes one request with NewHTTPClient.
const roleVariable = "TENANTRY_SDK_TEST_PLUGIN"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "simulator":
		p := testPlugin
		p.Simulator = testSimulator
		Serve(p)
	case "plain":
		Serve(testPlugin)
	case "fetch":
		if _, err := NewHTTPClient(4 * time.Minute).Get(os.Args[1]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var testPlugin = Plugin{Describe: Description{
	Name: "test", Kind: wire.KindMail, Version: "0.1.0", Title: "Test",
	Fields:  []Field{{Name: "client_secret", Secret: true, Required: true, Help: "from the portal"}},
	Budgets: []Budget{{Key: "tenant", Limit: 5, Window: 1500 * time.Millisecond}},
}}

func testSimulator(o simulate.Options) (http.Handler, simulate.Ready, error) {
	if strings.HasSuffix(o.DataDir, "unusable") {
		return nil, simulate.Ready{}, errors.New("the folder is unusable")
	}
	answerOptions := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, o.DataDir+" "+o.World) }
	return http.HandlerFunc(answerOptions), simulate.Ready{
		Provider: "test", URL: o.URL, Settings: map[string]string{"url": o.URL},
		Secrets: map[string]string{"client_secret": "s"}, Control: []string{"tenants"},
	}, nil
}

func pluginCommand(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

func TestCommandsPrintAndExitAsDocumented(t *testing.T) {
	for _, tc := range []struct {
		name   string
		args   []string
		exit   int
		stdout string
		stderr string
	}{
		{"no arguments", nil, 2, "", "is a plugin of tenantry"},
		{"an unknown command", []string{"serve"}, 2, "", "describe | simulate"},
		{"--version", []string{"--version"}, 0, "test 0.1.0\n", ""},
		{"describe", []string{"describe"}, 0, `"window_seconds": 1.5`, ""},
		{"simulate without a simulator", []string{"simulate", "--data", "x"}, 2, "", "has no simulator"},
		{"simulate without a folder", []string{"simulate"}, 2, "", "--data"},
		{"simulate on every address", []string{"simulate", "--data", "x", "--listen", ":0"}, 2, "", "loopback"},
		{"simulate on the unspecified address", []string{"simulate", "--data", "x", "--listen", "0.0.0.0:0"}, 2, "", "loopback"},
		{"simulate with an extra argument", []string{"simulate", "--data", "x", "more"}, 2, "", "unexpected"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := pluginCommand(t, "plain", tc.args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run()
			if cmd.ProcessState.ExitCode() != tc.exit || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Fatalf("exit %d, want %d\nstdout %s, want %q\nstderr %s, want %q", cmd.ProcessState.ExitCode(), tc.exit, &stdout, tc.stdout, &stderr, tc.stderr)
			}
		})
	}
}

func TestDescribePrintsJSON(t *testing.T) {
	out, err := pluginCommand(t, "plain", "describe").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	field, _ := got["fields"].([]any)[0].(map[string]any)
	if got["name"] != "test" || got["kind"] != "mail" || field["name"] != "client_secret" || field["secret"] != true {
		t.Fatalf("got %s, want the plugin test with its secret field", out)
	}
	if list, ok := got["name_servers"].([]any); !ok || len(list) != 0 {
		t.Fatalf("name_servers is %v, want []", got["name_servers"])
	}
}

// startSimulator starts a simulator process and reads the simulate.Ready that the process prints.
func startSimulator(t *testing.T, cmd *exec.Cmd) simulate.Ready {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready simulate.Ready
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatalf("the first line %s is not a simulate.Ready: %v", line, err)
	}
	return ready
}

func TestSimulatorServesUntilStopped(t *testing.T) {
	for _, tc := range []struct {
		name string
		stop func(*exec.Cmd, io.Closer) error
	}{
		{"at the end of its standard input", func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() }},
		{"on SIGTERM", func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGTERM) }},
		{"on SIGINT", func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGINT) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := pluginCommand(t, "simulator", "simulate", "--listen", "127.0.0.1:0", "--data", "folder", "--world", "http://world")
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			ready := startSimulator(t, cmd)
			if ready.Provider != "test" || ready.Settings["url"] != ready.URL || ready.Control[0] != "tenants" {
				t.Fatalf("the ready line is %+v, want the provider test, its URL as the setting url, and the control call tenants", ready)
			}
			answer, err := http.Get(ready.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = answer.Body.Close() }()
			if body, _ := io.ReadAll(answer.Body); string(body) != "folder http://world" {
				t.Fatalf("the simulator answered %q, want its folder and the world's URL", body)
			}
			if err := tc.stop(cmd, stdin); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("the simulator exited with %v, want no error", err)
			}
		})
	}
}

// TestSimulatorKeepsRunningWithoutStandardInput starts the simulator like a background process: its
// standard input is /dev/null.
func TestSimulatorKeepsRunningWithoutStandardInput(t *testing.T) {
	cmd := pluginCommand(t, "simulator", "simulate", "--data", "folder")
	ready := startSimulator(t, cmd)
	answer, err := http.Get(ready.URL)
	if err != nil {
		t.Fatalf("the simulator does not answer: %v, want an answer although standard input has ended", err)
	}
	_ = answer.Body.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func TestSimulatorReportsWhyItCannotStart(t *testing.T) {
	cmd := pluginCommand(t, "simulator", "simulate", "--data", "unusable")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if out, err := cmd.Output(); err == nil || len(out) != 0 || !strings.Contains(stderr.String(), "the folder is unusable") {
		t.Fatalf("stdout %q, stderr %q, %v, want an exit with the reason on stderr only", out, &stderr, err)
	}
}
