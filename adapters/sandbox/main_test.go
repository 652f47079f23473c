// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("SANDBOX_TEST_CHILD"); dir != "" {
		runChild(dir)
		return
	}
	leaks.VerifyTestMain(m)
}

// pluginDirWith creates a plugin directory with the program testdata/fake under each of these
// names. The names select how the program behaves.
func pluginDirWith(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	fake := testserver.Program(t, "testdata/fake")
	program, err := os.ReadFile(fake)
	must(t, err)
	sum := sha256.Sum256(program)
	entries := []map[string]string{}
	for _, name := range names {
		must(t, os.Symlink(fake, filepath.Join(dir, name)))
		entries = append(entries, map[string]string{"name": name, "kind": "mail", "file": name, "sha256": hex.EncodeToString(sum[:]), "version": "1"})
	}
	catalog, err := json.Marshal(map[string]any{"plugins": entries})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "catalog.json"), catalog, 0o600))
	return dir
}

// startSandbox starts a sandbox that is closed at the end of the test.
func startSandbox(t testing.TB, options sandbox.Options) *sandbox.Environment {
	t.Helper()
	env, err := sandbox.Start(t.Context(), options)
	must(t, err)
	t.Cleanup(func() { closeEnvironment(t, env) })
	return env
}

func closeEnvironment(t testing.TB, env *sandbox.Environment) {
	t.Helper()
	if err := env.Close(); err != nil {
		t.Error(err)
	}
}

// sendRequest makes a call and returns its status and trimmed body.
func sendRequest(t testing.TB, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, url, strings.NewReader(body))
	must(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, strings.TrimSpace(string(content))
}
