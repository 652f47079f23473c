// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// pluginDirVariable is the environment variable of the plugin folder, without its value.
const pluginDirVariable = "TENANTRY_PLUGIN_DIR="

// allPlugins is an environment variable with which a program uses all bundled plugins.
const allPlugins = pluginDirVariable

// onePluginPerKindEnv returns the environment variable with which a program uses one plugin of each
// kind: Microsoft 365, Cloudflare and Instantly. Fewer plugins start faster: a sandbox computes the
// checksum of each plugin and starts its simulator, and some commands start each plugin.
func onePluginPerKindEnv(t *testing.T) string {
	t.Helper()
	variable, err := linkPlugins()
	must(t, err)
	return variable
}

// linkPlugins makes the folder of onePluginPerKindEnv and returns the environment variable.
var linkPlugins = sync.OnceValues(func() (string, error) {
	bundled, dir := filepath.Join(os.Getenv(testserver.ProgramsEnv), "release", "plugins"), filepath.Join(scratchDir, "plugins")
	raw, err := os.ReadFile(filepath.Join(bundled, "catalog.json"))
	if err != nil {
		return "", err
	}
	var catalog struct {
		Plugins []map[string]string `json:"plugins"`
	}
	if err := errors.Join(json.Unmarshal(raw, &catalog), os.Mkdir(dir, 0o700)); err != nil {
		return "", err
	}
	catalog.Plugins = slices.DeleteFunc(catalog.Plugins, func(p map[string]string) bool {
		return !slices.Contains([]string{"microsoft365", "cloudflare", "instantly"}, p["name"])
	})
	for _, p := range catalog.Plugins {
		err = errors.Join(err, os.Symlink(filepath.Join(bundled, p["file"]), filepath.Join(dir, p["file"])))
	}
	if raw, err = json.Marshal(catalog); err == nil {
		err = os.WriteFile(filepath.Join(dir, "catalog.json"), raw, 0o644)
	}
	return pluginDirVariable + dir, err
})

// shareSigningKey writes a signing key that all tests share into the data folder of a mail platform
// simulator, unless the folder has a key. Generating a key is slow.
func shareSigningKey(dir string) error {
	file := filepath.Join(dir, "app.json")
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	key, err := signingKey()
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, key, 0o600))
}

// signingKey lets the simulator of Microsoft 365 generate a key, and returns the content for
// app.json, the file in which this simulator stores its registration.
var signingKey = sync.OnceValues(func() ([]byte, error) {
	dir := filepath.Join(scratchDir, "signing-key")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	platform, _, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: dir, World: "http://127.0.0.1:1", Log: io.Discard})
	if err != nil {
		return nil, err
	}
	platform.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/login/organizations/discovery/v2.0/keys", http.NoBody))
	raw, err := os.ReadFile(filepath.Join(dir, "app.json"))
	if err != nil {
		return nil, err
	}
	var registered struct {
		Keys json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &registered); err != nil {
		return nil, err
	}
	return json.Marshal(registered)
})

// startDev starts a sandbox and waits for its ready line. The sandbox has one plugin of each kind,
// unless env selects other plugins.
func startDev(t *testing.T, build programs, dataDir string, env []string, args ...string) (*process, sandbox.Ready) {
	t.Helper()
	p, ready, err := launchDev(build, dataDir, env, args...)
	if p != nil {
		p.stopAtEnd(t)
	}
	must(t, err)
	return p, ready
}

// launchDev is like startDev without a test: the caller stops the process.
func launchDev(build programs, dataDir string, env []string, args ...string) (*process, sandbox.Ready, error) {
	var ready sandbox.Ready
	plugins, err := linkPlugins()
	if err == nil {
		err = shareSigningKey(filepath.Join(dataDir, "simulators", mailPlatform))
	}
	if err != nil {
		return nil, ready, err
	}
	read, write := io.Pipe()
	started, err := launchProcess(build, append([]string{plugins}, env...), write, append([]string{"dev", "--json", "--listen", "127.0.0.1:0", "--data", dataDir}, args...)...)
	if err != nil {
		return nil, ready, err
	}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(read).ReadString('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, read)
	}()
	go func() { <-started.done; _ = write.Close() }()
	select {
	case line := <-lines:
		if err := json.Unmarshal([]byte(line), &ready); err != nil {
			return started, ready, fmt.Errorf("the ready line %q is not JSON: %w", line, err)
		}
		return started, ready, nil
	case <-time.After(waitTimeout):
		return started, ready, fmt.Errorf("no ready line in %s", waitTimeout)
	}
}

// sharedSandboxState is the sandbox of tests that use only their own accounts and tenants. Tests
// that inject faults, check all calls in a simulator's journal, or move the clock start their own
// sandbox.
var sharedSandboxState struct {
	start   sync.Once
	process *process
	ready   sandbox.Ready
	err     error
}

// sharedSandbox returns the seeded account of the shared sandbox. The first call starts the
// sandbox.
func sharedSandbox(t *testing.T) caller {
	t.Helper()
	build := requirePrograms(t, releaseBuild)
	sharedSandboxState.start.Do(func() {
		sharedSandboxState.process, sharedSandboxState.ready, sharedSandboxState.err = launchDev(build, filepath.Join(scratchDir, "shared"), []string{allPlugins})
	})
	t.Cleanup(func() {
		if t.Failed() && sharedSandboxState.process != nil {
			t.Logf("logs of the shared sandbox:\n%s", tail(sharedSandboxState.process.logs.String(), 3000))
		}
	})
	if sharedSandboxState.err != nil {
		t.Fatal(sharedSandboxState.err)
	}
	return seededAccount(t, sharedSandboxState.ready)
}

func stopShared() error {
	if sharedSandboxState.process == nil {
		return nil
	}
	return sharedSandboxState.process.stop()
}

// privateSandbox starts a sandbox for this test alone, and returns the account with which the
// sandbox starts.
func privateSandbox(t *testing.T, args ...string) caller {
	t.Helper()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), nil, append([]string{"--no-seed"}, args...)...)
	return seededAccount(t, ready)
}

// onBothDatabases runs a test on SQLite, in the sandbox of the account that sandboxOnSQLite
// returns, and on PostgreSQL, in a private sandbox.
func onBothDatabases(t *testing.T, sandboxOnSQLite func(*testing.T) caller, test func(*testing.T, caller)) {
	t.Helper()
	for name, start := range map[string]func(*testing.T) caller{
		"sqlite": sandboxOnSQLite, "postgres": func(t *testing.T) caller { return privateSandbox(t, "--database", testserver.Database(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}
