// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/settings"
)

// TestEnvFileKeepsItsFirstTenant checks that the file env keeps its first tenant when a restarted
// sandbox lists other tenants.
func TestEnvFileKeepsItsFirstTenant(t *testing.T) {
	folder := t.TempDir()
	writeEnvAndReadTenant := func(tenants ...string) string {
		t.Helper()
		ready := sandbox.Ready{APIKey: "key of " + strings.Join(tenants, " ")}
		for _, id := range tenants {
			ready.Tenants = append(ready.Tenants, sandbox.Tenant{TenantID: id})
		}
		apptest.Must(t, writeEnv(folder, ready))
		env, err := os.ReadFile(filepath.Join(folder, "env"))
		if err != nil || !strings.Contains(string(env), "TENANTRY_KEY="+ready.APIKey+"\n") {
			t.Fatalf("%s, %v", env, err)
		}
		_, tenant, _ := strings.Cut(string(env), "TENANTRY_TENANT=")
		return strings.TrimSpace(tenant)
	}
	for _, step := range []struct {
		readyTenants []string
		want         string
	}{{nil, ""}, {[]string{"one", "two"}, "one"}, {[]string{"two"}, "one"}, {nil, "one"}} {
		if got := writeEnvAndReadTenant(step.readyTenants...); got != step.want {
			t.Fatalf("with the tenants %q the file env names %q, want %q", step.readyTenants, got, step.want)
		}
	}
}

// TestDevLogFileGetsAllRecords checks that the log file gets all records at or above the log level,
// and the terminal only warnings.
func TestDevLogFileGetsAllRecords(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	var terminal bytes.Buffer
	for range 2 { // a restart appends
		log, closeLog, err := devLog(settings.Config{DataDir: folder, LogLevel: "info"}, &terminal)
		apptest.Must(t, err)
		log.Debug("a debug record")
		log.Info("an info record")
		log.Warn("a warning")
		apptest.Must(t, closeLog())
	}
	file, err := os.ReadFile(filepath.Join(folder, devLogFile))
	if err != nil || strings.Count(string(file), "an info record") != 2 || strings.Count(string(file), "a warning") != 2 || strings.Contains(string(file), "a debug record") {
		t.Errorf("%v, the file:\n%s", err, file)
	}
	if text := terminal.String(); strings.Count(text, "a warning") != 2 || strings.Contains(text, "an info record") {
		t.Errorf("the terminal:\n%s", text)
	}
}

// TestStopDuringTheStartOfASandboxIsNoError checks that a sandbox ends without an error if it is
// stopped before it serves.
func TestStopDuringTheStartOfASandboxIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// The look-up of localhost fails, because the context has ended.
	c := settings.Config{DataDir: t.TempDir(), Listen: "localhost:0"}
	err := runSandbox(ctx, c, devOptions{}, slog.New(slog.DiscardHandler), func(sandbox.Ready) { t.Error("the sandbox serves") })
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}

// TestWelcomeSaysThatTheControlAddressIsTaken checks that the welcome text warns if the control
// interface has a different address than --control asks for.
func TestWelcomeSaysThatTheControlAddressIsTaken(t *testing.T) {
	for control, wantTaken := range map[string]bool{"127.0.0.1:8081": true, "127.0.0.1:5000": false, "localhost:5000": false, "127.0.0.1:0": false} {
		var out bytes.Buffer
		printWelcome(&out, sandbox.Ready{ControlURL: "http://127.0.0.1:5000"}, devOptions{control: control, data: "./x"})
		if got := strings.Contains(out.String(), control+" is taken"); got != wantTaken || !strings.Contains(out.String(), "x/"+devLogFile) {
			t.Errorf("with --control %s:\n%s", control, out.String())
		}
	}
}
