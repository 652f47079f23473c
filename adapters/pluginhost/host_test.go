// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// waitStore is a ports.Waits whose waits never end.
type waitStore struct {
	mu    sync.Mutex
	waits map[string]time.Duration
}

func (s *waitStore) Wait(_ context.Context, scope string, atLeast time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[scope] = max(s.waits[scope], atLeast)
	return s.waits[scope]
}

// TestReplicasShareTheWaitsOfAPlugin starts a plugin under two hosts, as in two replicas of the
// service. Both processes of the plugin have a wait that one of them set. A different plugin does
// not have the wait.
func TestReplicasShareTheWaitsOfAPlugin(t *testing.T) {
	store := &waitStore{waits: map[string]time.Duration{}}
	dir := pluginDir(t, "waiting:puppet", "unaffected:puppet")
	firstReplica, _ := newHost(t, pluginhost.Options{Dir: dir, Waits: store})
	secondReplica, _ := newHost(t, pluginhost.Options{Dir: dir, Waits: store})
	if _, err := tenantOf(firstReplica, "waiting", "make others wait").Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
	callsWait := func(name string) string {
		t.Helper()
		profile, err := tenantOf(secondReplica, name, "ask").Profile(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return profile.Name
	}
	// A plugin ignores an answer of its host that comes too late, so the test asks repeatedly.
	for deadline := time.Now().Add(testTimeout); callsWait("waiting") != "true"; {
		if time.Now().After(deadline) {
			t.Fatal("the plugin `waiting` of the second replica does not have the wait of the first replica")
		}
	}
	if callsWait("unaffected") != "false" {
		t.Error("the plugin `unaffected` has the wait of the plugin `waiting`")
	}
}

func TestEnvironmentIsTheAllowList(t *testing.T) {
	allowed := []string{
		"OTEL_BSP_SCHEDULE_DELAY=1000", "OTEL_EXPORTER_OTLP_CERTIFICATE=/etc/collector.pem",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test",
		"OTEL_TRACES_EXPORTER=none", "OTEL_TRACES_SAMPLER=always_off", "OTEL_TRACES_SAMPLER_ARG=1",
		"SSL_CERT_FILE=/etc/ca.pem", "TZ=UTC",
	}
	host, _ := newHost(t, pluginhost.Options{
		Dir: pluginDir(t, "puppet:puppet"),
		Env: append([]string{
			"TENANTRY_DATABASE_URL=postgres://u:" + token + "@db/x", "PATH=/bin", "HOME=/root",
			"OTEL_EXPORTER_OTLP_HEADERS=authorization=" + token, "OTEL_SERVICE_NAME=tenantry",
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://user:" + token + "@collector", "OTEL_EXPORTER_OTLP_CLIENT_KEY=/etc/key.pem",
		}, allowed...),
	})
	environment, err := tenantOf(host, "puppet", "").Domains(t.Context()) // puppet returns each variable as a domain
	if err != nil {
		t.Fatal(err)
	}
	handshake := []string{"TENANTRY_PLUGIN", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_CLIENT_CERT", "PLUGIN_UNIX_SOCKET_DIR"}
	var got []string
	for _, v := range environment {
		if key, _, _ := strings.Cut(v.Name, "="); !slices.Contains(handshake, key) {
			got = append(got, v.Name)
		}
	}
	want := append(slices.Clone(allowed), "OTEL_SERVICE_NAME=tenantry-plugin-puppet", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the plugin has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTelemetryHeadersComeOnlyFromTheirOption(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet"), TelemetryHeaders: secret.New("api-key=k")})
	environment, err := tenantOf(host, "puppet", "").Domains(t.Context()) // puppet returns each variable as a domain
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range environment {
		if v.Name == "OTEL_EXPORTER_OTLP_HEADERS=api-key=k" {
			return
		}
	}
	t.Fatalf("the plugin did not receive the headers: %v", environment)
}

// TestTelemetryHeadersAreRemovedFromTheOutputOfPlugins starts plugins that print their headers and
// then end. The first line on standard output is quoted in the error of the start.
func TestTelemetryHeadersAreRemovedFromTheOutputOfPlugins(t *testing.T) {
	for name, redirection := range map[string]string{"standard error": " >&2", "standard output": ""} {
		t.Run(name, func(t *testing.T) {
			dir, file := t.TempDir(), writeScript(t, `echo "$OTEL_EXPORTER_OTLP_HEADERS decoded: Basic canary/7f3a"`+redirection, 0o755)
			if err := os.Rename(file, filepath.Join(dir, "mail-script")); err != nil {
				t.Fatal(err)
			}
			entry := pluginhost.CatalogEntry{Name: "script", Kind: "mail", File: "mail-script", SHA256: checksumOf(t, filepath.Join(dir, "mail-script")), Version: "1"}
			writeCatalog(t, dir, entry)
			host, logged := newHost(t, pluginhost.Options{Dir: dir, TelemetryHeaders: secret.New("x-team=canary-9d1e,authorization=Basic%20canary/7f3a")})
			if _, err := host.Describe(t.Context(), "script"); err == nil || strings.Contains(err.Error(), "canary") {
				t.Fatalf("got %v, want an error without a header", err)
			}
			host.Close()
			waitForLine(t, logged, "x-team=[redacted],authorization=[redacted] decoded: [redacted]")
			if strings.Contains(logged.String(), "canary") {
				t.Errorf("the log has a header:\n%s", logged)
			}
		})
	}
}

func TestConcurrentCallsStartOneProcess(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet")})
	if status := host.Status()[0]; status.State != pluginhost.Idle || status.PID != 0 {
		t.Fatalf("before the first call: %+v, want no process", status)
	}
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			description, err := host.Describe(t.Context(), "puppet")
			if err != nil || description.Title != "Puppet" || description.Fields[0].Name != "do" || description.Budgets[0].Window != time.Second {
				t.Errorf("got %+v, %v, want the description of puppet", description, err)
			}
		})
	}
	callers.Wait()
	if status := host.Status()[0]; status.State != pluginhost.Running || status.Starts != 1 {
		t.Fatalf("after 20 concurrent calls: %+v, want one start", status)
	}
}

func TestErrorsOfAPluginKeepTheirOutcome(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet")})
	_, err := tenantOf(host, "puppet", "refuse").Profile(t.Context())
	var result *outcome.Error
	if !errors.As(err, &result) || result.Kind != outcome.Refused || !errors.Is(err, fault.AccessDenied) || result.Cause != "invalid_client" {
		t.Fatalf("got %v, want access_denied with the cause invalid_client", err)
	}
}

func TestConnectionErrorIsReturnedByTheCall(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet")})
	mail := host.Mail("puppet", func(context.Context) (wire.Connection, error) {
		return wire.Connection{}, fault.ServiceUnavailable.With("not configured")
	})
	if _, err := mail.For("t").Profile(t.Context()); !errors.Is(err, fault.ServiceUnavailable) {
		t.Fatalf("got %v, want service_unavailable", err)
	}
	if s := host.Status()[0]; s.State != pluginhost.Idle {
		t.Fatalf("the plugin was started: %+v", s)
	}
}

func TestRequestIDReachesThePlugin(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t, "puppet:puppet")})
	profile, err := tenantOf(host, "puppet", "").Profile(ports.WithRequestID(t.Context(), "req-42"))
	if err != nil || profile.DefaultDomain != "req-42" {
		t.Fatalf("got %+v, %v, want the request id req-42", profile, err)
	}
}

// TestChangedFileIsNeverRun replaces the file with a program that would create a marker file.
func TestChangedFileIsNeverRun(t *testing.T) {
	dir := pluginDir(t, "puppet:puppet")
	host, _ := newHost(t, pluginhost.Options{Dir: dir})
	firstPID := processID(t, host, "puppet")

	marker := filepath.Join(dir, "mark")
	replacement := filepath.Join(dir, "swapped")
	if err := os.WriteFile(replacement, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(replacement, filepath.Join(dir, "mail-puppet")); err != nil {
		t.Fatal(err)
	}
	if pid := processID(t, host, "puppet"); pid != firstPID {
		t.Fatal("the running process was replaced")
	}
	if err := host.Kill("puppet"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first call attempts a start, and the second call is refused without a start
		_, err := tenantOf(host, "puppet", "").Profile(t.Context())
		var result *outcome.Error
		if !errors.As(err, &result) || result.Kind != outcome.Down || result.Cause != "plugin_checksum" || result.RetryAfter <= 0 {
			t.Fatalf("got %v, want an error of the kind down with the cause plugin_checksum and a time to retry", err)
		}
	}
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the changed file was executed")
	}
	if s := host.Status()[0]; s.LastError == nil || !strings.Contains(s.LastError.Error(), "SHA-256") {
		t.Fatalf("the status is %+v, want an error about the SHA-256 sum", s)
	}
}

func TestInvalidCatalogIsRefused(t *testing.T) {
	const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, tc := range []struct{ name, catalog, wantError string }{
		{"not JSON", `{`, "unexpected end"},
		{"a path", `{"plugins":[{"name":"a","kind":"mail","file":"../evil","sha256":"` + sum + `"}]}`, "must be a name without a path"},
		{"no checksum", `{"plugins":[{"name":"a","kind":"mail","file":"a"}]}`, "sha256"},
		{"a short checksum", `{"plugins":[{"name":"a","kind":"mail","file":"a","sha256":"e3b0"}]}`, "sha256"},
		{"no name", `{"plugins":[{"kind":"mail","file":"a","sha256":"` + sum + `"}]}`, "no name"},
		{"twice", `{"plugins":[{"name":"a","kind":"mail","file":"a","sha256":"` + sum + `"},{"name":"a","kind":"mail","file":"b","sha256":"` + sum + `"}]}`, "twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(tc.catalog), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := pluginhost.New(pluginhost.Options{Dir: dir})
			if err == nil || !strings.Contains(err.Error(), tc.wantError) {
				t.Fatalf("got %v, want an error with %q", err, tc.wantError)
			}
		})
	}
	if _, err := pluginhost.New(pluginhost.Options{Dir: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("without a catalog: %v, want %v", err, os.ErrNotExist)
	}
}

// TestDefaultPluginDirIsBesideTheProgram runs a host without Options.Dir, beside a folder "plugins"
// with an empty catalog.
func TestDefaultPluginDirIsBesideTheProgram(t *testing.T) {
	bin := t.TempDir()
	program, err := os.ReadFile(testserver.Program(t, "testdata/host"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "host"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pluginDir(t), filepath.Join(bin, "plugins")); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(withTimeout(t, testTimeout), filepath.Join(bin, "host"), "", "nobody")
	command.Dir = t.TempDir()
	output, _ := command.CombinedOutput()
	if !strings.Contains(string(output), "plugin_missing") {
		t.Fatalf("the host printed %s, want plugin_missing, because it read the empty catalog", output)
	}
}

func TestUnknownPluginIsDown(t *testing.T) {
	host, _ := newHost(t, pluginhost.Options{Dir: pluginDir(t)})
	if _, err := tenantOf(host, "nobody", "").Profile(t.Context()); outcome.KindOf(err) != outcome.Down {
		t.Fatalf("got %v, want an error of the kind down", err)
	}
	if host.Kill("nobody") == nil {
		t.Fatal("Kill succeeded for an unknown plugin")
	}
}

// TestAccountCannotOverrideOperatorSettings checks that an account cannot set allow_private for a
// DNS plugin. Only the operator may set this field.
func TestAccountCannotOverrideOperatorSettings(t *testing.T) {
	dir := t.TempDir()
	if entry, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir, Supervision: fastRestart}, testserver.Program(t, "release/plugins/dns-powerdns")); err != nil || entry.Kind != "dns" {
		t.Fatalf("got %+v, %v, want a DNS plugin", entry, err)
	}
	host, _ := newHost(t, pluginhost.Options{Dir: dir})
	description, err := host.Describe(t.Context(), "powerdns")
	if err != nil {
		t.Fatal(err)
	}
	accountConnection := wire.Connection{
		Settings: map[string]string{"api_url": "http://127.0.0.1:1", "allow_private": "true"},
		Secrets:  map[string]secret.Text{"api_key": secret.New(token)},
	}
	checkWith := func(operatorSettings map[string]string) error {
		_, err := host.DNS("powerdns", func(context.Context) (wire.Connection, error) {
			return description.Join(wire.Connection{Settings: operatorSettings}, accountConnection), nil
		}).Check(withTimeout(t, testTimeout))
		return err
	}
	if err := checkWith(nil); !errors.Is(err, fault.InvalidRequest) {
		t.Errorf("only the account allows a private host: %v, want invalid_request", err)
	}
	if err := checkWith(map[string]string{"allow_private": "true"}); outcome.KindOf(err) != outcome.Down {
		t.Errorf("the operator allows a private host on which nothing listens: %v, want down", err)
	}
	if _, err := host.DNS("missing", nil).Check(t.Context()); outcome.KindOf(err) != outcome.Down {
		t.Errorf("a plugin that is not in the catalog: %v, want down", err)
	}
}
