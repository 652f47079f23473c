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
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), roleVariable+"="+role)
	return c
}

func TestCommandsPrintAndExitAsDocumented(t *testing.T) {
	for _, tt := range []struct {
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
		t.Run(tt.name, func(t *testing.T) {
			c := pluginCommand(t, "plain", tt.args...)
			var stdout, stderr bytes.Buffer
			c.Stdout, c.Stderr = &stdout, &stderr
			_ = c.Run()
			if c.ProcessState.ExitCode() != tt.exit || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Fatalf("exit %d, want %d\nstdout %s, want %q\nstderr %s, want %q", c.ProcessState.ExitCode(), tt.exit, &stdout, tt.stdout, &stderr, tt.stderr)
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
		t.Fatal("an empty list is not []")
	}
}

// startSimulator starts a simulator process and reads the simulate.Ready that the process prints.
func startSimulator(t *testing.T, c *exec.Cmd) simulate.Ready {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
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
	for _, tt := range []struct {
		name string
		stop func(*exec.Cmd, io.Closer) error
	}{
		{"at the end of its standard input", func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() }},
		{"on SIGTERM", func(c *exec.Cmd, _ io.Closer) error { return c.Process.Signal(syscall.SIGTERM) }},
		{"on SIGINT", func(c *exec.Cmd, _ io.Closer) error { return c.Process.Signal(syscall.SIGINT) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := pluginCommand(t, "simulator", "simulate", "--listen", "127.0.0.1:0", "--data", "folder", "--world", "http://world")
			stdin, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			ready := startSimulator(t, c)
			if ready.Provider != "test" || ready.Settings["url"] != ready.URL || ready.Control[0] != "tenants" {
				t.Fatalf("the provider, URL or control calls are wrong: %+v", ready)
			}
			answer, err := http.Get(ready.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = answer.Body.Close() }()
			if body, _ := io.ReadAll(answer.Body); string(body) != "folder http://world" {
				t.Fatalf("the simulator answered %q, want its folder and the world's URL", body)
			}
			if err := tt.stop(c, stdin); err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(); err != nil {
				t.Fatalf("the simulator exited with %v", err)
			}
		})
	}
}

// TestSimulatorKeepsRunningWithoutStandardInput starts the simulator like a background process: its
// standard input is /dev/null.
func TestSimulatorKeepsRunningWithoutStandardInput(t *testing.T) {
	c := pluginCommand(t, "simulator", "simulate", "--data", "folder")
	ready := startSimulator(t, c)
	answer, err := http.Get(ready.URL)
	if err != nil {
		t.Fatalf("the simulator does not answer: %v", err)
	}
	_ = answer.Body.Close()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
}

func TestSimulatorReportsWhyItCannotStart(t *testing.T) {
	c := pluginCommand(t, "simulator", "simulate", "--data", "unusable")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if out, err := c.Output(); err == nil || len(out) != 0 || !strings.Contains(stderr.String(), "the folder is unusable") {
		t.Fatalf("stdout %q, stderr %q, %v, want an exit with the reason on stderr only", out, &stderr, err)
	}
}
