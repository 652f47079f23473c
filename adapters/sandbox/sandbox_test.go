// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/app/apptest"
)

// must ends the test if err is not nil.
var must = apptest.Must

// runChild runs a sandbox until the process is killed. TestMain calls it in the child process of
// TestSimulatorsEndWhenTheirParentIsKilled.
func runChild(dir string) {
	plugins := os.Getenv("SANDBOX_TEST_PLUGINS")
	env, err := sandbox.Start(context.Background(), sandbox.Options{DataDir: dir, PluginDir: plugins})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(env.Settings()["fake"]["login_url"])
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent kills the process
}

func TestSimulatorsEndWithTheSandbox(t *testing.T) {
	env, err := sandbox.Start(t.Context(), sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "fake", "nosimulator")})
	must(t, err)
	conn := connectTo(t, env.Settings()["fake"]["login_url"])
	closeEnvironment(t, env)
	waitUntilClosed(t, conn)
}

// hangTimeout is how long a test waits for an event. It is exceeded only if something hangs.
const hangTimeout = 4 * time.Minute

// TestCloseKillsASuspendedSimulator suspends a simulator with SIGSTOP. The close of the sandbox
// must end the simulator, and a call that waits for its answer.
func TestCloseKillsASuspendedSimulator(t *testing.T) {
	env, err := sandbox.Start(t.Context(), sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "fake")})
	must(t, err)
	ready, err := env.Open(t.Context(), newService(t).services(env))
	must(t, err)
	settings := env.Settings()["fake"]
	pid, err := strconv.Atoi(settings["pid"])
	must(t, err)
	conn := connectTo(t, settings["login_url"])
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	callDone := make(chan error, 1)
	go func() {
		resp, err := http.Get(ready.ControlURL + "/calls?provider=fake")
		if err == nil {
			_ = resp.Body.Close()
		}
		callDone <- err
	}()
	closeDone := make(chan error, 1)
	go func() { closeDone <- env.Close() }()
	for _, operation := range []struct {
		name string
		done <-chan error
	}{{"the close of the sandbox", closeDone}, {"the call to the suspended simulator", callDone}} {
		select {
		case err := <-operation.done:
			if operation.done == closeDone && err != nil {
				t.Error(err)
			}
		case <-time.After(hangTimeout):
			t.Fatalf("%s did not end within %s", operation.name, hangTimeout)
		}
	}
	waitUntilClosed(t, conn)
}

func TestSimulatorsEndWhenTheirParentIsKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SANDBOX_TEST_CHILD="+t.TempDir(), "SANDBOX_TEST_PLUGINS="+pluginDirWith(t, "fake"))
	stdin, err := cmd.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	firstLine, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	conn := connectTo(t, strings.TrimSpace(firstLine))
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	waitUntilClosed(t, conn)
}

// connectTo opens a connection to a simulator.
func connectTo(t *testing.T, simulatorURL string) net.Conn {
	t.Helper()
	parsedURL, err := url.Parse(simulatorURL)
	must(t, err)
	conn, err := net.Dial("tcp", parsedURL.Host)
	if err != nil {
		t.Fatalf("connect to %s: %v", simulatorURL, err)
	}
	return conn
}

// waitUntilClosed waits until the simulator's end of the connection is closed, which happens when
// the process of the simulator ends.
func waitUntilClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(hangTimeout))
	if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Fatalf("the connection to the simulator is open after %s: %v", hangTimeout, err)
	}
}

func TestSimulatorsGetACleanEnvironment(t *testing.T) {
	t.Setenv("TENANTRY_KEYSET_FILE", "canary")
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "fake")})
	if variables := env.Settings()["fake"]["env"]; strings.Contains(variables, "canary") || !strings.Contains(variables, "PATH=") {
		t.Fatalf("the simulator has the variables %s, want PATH and no TENANTRY_KEYSET_FILE", variables)
	}
	if got := env.Secrets()["fake"]["client_secret"]; got.Reveal() != "s3cret" {
		t.Fatalf("the secret is %q, want s3cret", got.Reveal())
	}
}

func TestPluginsWithoutASimulatorAreLeftOut(t *testing.T) {
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "nosimulator", "fake")})
	if len(env.Settings()) != 1 {
		t.Fatalf("settings of simulators: got %v, want only those of fake", env.Settings())
	}
}

func TestStartErrorsNameTheProblem(t *testing.T) {
	changedPlugins := pluginDirWith(t, "fake")
	if err := os.Remove(filepath.Join(changedPlugins, "fake")); err != nil { // a symbolic link to the program that all tests use
		t.Fatal(err)
	}
	must(t, os.WriteFile(filepath.Join(changedPlugins, "fake"), []byte("#!/bin/sh\n"), 0o700))
	damagedData := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(damagedData, "sandbox"), 0o700))
	must(t, os.WriteFile(filepath.Join(damagedData, "sandbox", "zones.json"), []byte("{"), 0o600))
	for _, tc := range []struct{ name, data, plugins, wantError string }{
		{"a simulator that fails", t.TempDir(), pluginDirWith(t, "broken"), "simulator of broken: it ended with exit status 1: the disk is full"},
		{"a simulator with an invalid ready line", t.TempDir(), pluginDirWith(t, "babbling"), "simulator of babbling: ready line"},
		{"a simulator of a different provider", t.TempDir(), pluginDirWith(t, "liar"), `it simulates "somebody-else"`},
		{"a simulator that does not listen on loopback", t.TempDir(), pluginDirWith(t, "open"), "it does not listen on a loopback address"},
		{"a binary that was changed", t.TempDir(), changedPlugins, "not the one in the catalog"},
		{"a damaged state", damagedData, pluginDirWith(t), "read zones: zones.json"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := sandbox.Start(t.Context(), sandbox.Options{DataDir: tc.data, PluginDir: tc.plugins})
			if err == nil || !strings.Contains(err.Error(), tc.wantError) {
				t.Fatalf("got %v, want an error with %s", err, tc.wantError)
			}
		})
	}
}

func TestSimulatorsCanReadAndEditZones(t *testing.T) {
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "fake"), Seed: true})
	zonesURL := env.Settings()["fake"]["zones_url"]
	if status, body := sendRequest(t, "GET", zonesURL+"/dns", ""); status != http.StatusOK || body != fmt.Sprintf(`{"addr":%q}`, env.DNSAddr()) {
		t.Errorf("the address of the DNS server: got %d %s, want %s", status, body, env.DNSAddr())
	}
	records := `[{"type":"A","name":"www.example-one.test","content":"192.0.2.1","ttl":60}]`
	if status, body := sendRequest(t, "PUT", zonesURL+"/zones/example-one.test/records", records); status != http.StatusOK || body != "{}" {
		t.Errorf("replace the records: got %d %s, want 200 {}", status, body)
	}
	if status, body := sendRequest(t, "GET", zonesURL+"/zones/example-one.test/records", ""); status != http.StatusOK || body != records {
		t.Errorf("read the records: got %d %s, want %s", status, body, records)
	}
	if status, _ := sendRequest(t, "POST", zonesURL+"/accounts", "{}"); status != http.StatusNotFound {
		t.Errorf("a call of the control interface at the URL for simulators: got %d, want 404", status)
	}
}

func TestCrossOriginRequestsAreRefused(t *testing.T) {
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "fake"), Seed: true})
	recordsURL := env.Settings()["fake"]["zones_url"] + "/zones/example-one.test/records"
	for _, test := range []struct {
		name, method, origin, host string
		want                       int
	}{
		{"a foreign origin", "PUT", "https://evil.example", "", http.StatusForbidden},
		{"a foreign host, as after DNS rebinding", "PUT", "http://evil.example", "evil.example", http.StatusForbidden},
		{"a read with a foreign host", "GET", "", "evil.example:8080", http.StatusForbidden},
		{"a read of localhost", "GET", "", "localhost:8080", http.StatusOK},
		{"a read of an IPv6 address", "GET", "", "[::1]:8080", http.StatusOK},
	} {
		req, err := http.NewRequest(test.method, recordsURL, strings.NewReader("[]"))
		must(t, err)
		req.Host = test.host
		if test.origin != "" {
			req.Header.Set("Origin", test.origin)
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		must(t, err)
		must(t, resp.Body.Close())
		if resp.StatusCode != test.want {
			t.Errorf("%s: got %d, want %d", test.name, resp.StatusCode, test.want)
		}
	}
}

func TestReadyLineHasExactlyTheseFields(t *testing.T) {
	raw, err := json.Marshal(sandbox.Ready{Zones: []string{}, Tenants: []sandbox.Tenant{{}}, Sending: map[string]any{}})
	must(t, err)
	want := `{"api_url":"","api_key":"","account_id":"","user_email":"","admin_url":"","control_url":"","dns_addr":"",` +
		`"zones":[],"tenants":[{"tenant_id":"","admin":"","name":""}],"sending":{}}`
	if string(raw) != want {
		t.Fatalf("got %s, want %s", raw, want)
	}
}

// TestOtherMailPlatformsAreNotSimulated checks that the simulator of a second mail platform does
// not run.
func TestOtherMailPlatformsAreNotSimulated(t *testing.T) {
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "liar", "fake"), MailPlatform: "fake"})
	if settings := env.Settings(); len(settings) != 1 || settings["fake"] == nil {
		t.Errorf("settings of simulators: got %v, want only those of fake", settings)
	}
}
