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
// sandbox lists only a different tenant or none.
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
			t.Fatalf("the file env is %q, %v, want the key %q in it", env, err, ready.APIKey)
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
// and the terminal none below a warning.
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
		t.Errorf("the file is, with the error %v, want two info records and two warnings:\n%s", err, file)
	}
	if text := terminal.String(); strings.Count(text, "a warning") != 2 || strings.Contains(text, "an info record") {
		t.Errorf("the terminal shows, want two warnings:\n%s", text)
	}
}

// TestStopDuringTheStartOfASandboxIsNoError checks that a sandbox ends without an error if it is
// stopped before it serves.
func TestStopDuringTheStartOfASandboxIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// The start fails at the look-up of localhost, because the context has ended.
	c := settings.Config{DataDir: t.TempDir(), Listen: "localhost:0"}
	err := runSandbox(ctx, c, devOptions{}, slog.New(slog.DiscardHandler), func(sandbox.Ready) { t.Error("the sandbox serves") })
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}

// TestWelcomeSaysThatTheControlAddressIsTaken checks that the welcome text warns if the control
// interface has a different port than --control asks for. Port 0 asks for any port.
func TestWelcomeSaysThatTheControlAddressIsTaken(t *testing.T) {
	for control, wantTaken := range map[string]bool{"127.0.0.1:8081": true, "127.0.0.1:5000": false, "localhost:5000": false, "127.0.0.1:0": false} {
		var out bytes.Buffer
		printWelcome(&out, sandbox.Ready{ControlURL: "http://127.0.0.1:5000"}, devOptions{control: control, data: "./x"})
		if got := strings.Contains(out.String(), control+" is taken"); got != wantTaken || !strings.Contains(out.String(), "x/"+devLogFile) {
			t.Errorf("with --control %s, the text has a warning: %v, want %v, and the path of the log:\n%s", control, got, wantTaken, out.String())
		}
	}
}
