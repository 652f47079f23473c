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

// TestEnvironmentIsTheAllowList compares all that a plugin sees with what it
// may see.
func TestEnvironmentIsTheAllowList(t *testing.T) {
	allowed := []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_TRACES_EXPORTER=none", "OTEL_TRACES_SAMPLER=always_off", "OTEL_TRACES_SAMPLER_ARG=1",
		"SSL_CERT_FILE=/etc/ca.pem", "TZ=UTC",
	}
	h, _ := host(t, pluginhost.Options{
		Dir: folder(t, "puppet:puppet"),
		Env: append([]string{
			"TENANTRY_DATABASE_URL=postgres://u:" + token + "@db/x", "PATH=/bin", "HOME=/root",
			"OTEL_EXPORTER_OTLP_HEADERS=authorization=" + token, "OTEL_SERVICE_NAME=tenantry",
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://user:" + token + "@collector",
		}, allowed...),
	})
	list, err := doing(h, "puppet", "").Domains(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	handshake := []string{"TENANTRY_PLUGIN", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_CLIENT_CERT", "PLUGIN_UNIX_SOCKET_DIR"}
	var got []string
	for _, v := range list {
		if key, _, _ := strings.Cut(v.Name, "="); !slices.Contains(handshake, key) {
			got = append(got, v.Name)
		}
	}
	want := append(slices.Clone(allowed), "OTEL_SERVICE_NAME=tenantry-plugin-puppet")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the plugin sees\n%s\nit may see\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTelemetryHeadersOnlyByTheirSetting(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet"), TelemetryHeaders: secret.New("api-key=k")})
	list, err := doing(h, "puppet", "").Domains(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if v.Name == "OTEL_EXPORTER_OTLP_HEADERS=api-key=k" {
			return
		}
	}
	t.Fatalf("the headers did not arrive: %v", list)
}

func TestDescribeStartsOnFirstUseAndOnce(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet")})
	if s := h.Status()[0]; s.State != pluginhost.Idle || s.PID != 0 {
		t.Fatalf("before the first use: %+v", s)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			d, err := h.Describe(t.Context(), "puppet")
			if err != nil || d.Title != "Puppet" || d.Fields[0].Name != "do" || d.Budgets[0].Window != time.Second {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
	all.Wait()
	if s := h.Status()[0]; s.State != pluginhost.Running || s.Starts != 1 {
		t.Fatalf("after 20 uses at once: %+v", s)
	}
}

func TestOutcomesCrossTheProcess(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet")})
	_, err := doing(h, "puppet", "refuse").Profile(t.Context())
	var o *outcome.Error
	if !errors.As(err, &o) || o.Kind != outcome.Refused || !errors.Is(err, fault.AccessDenied) || o.Cause != "invalid_client" {
		t.Fatalf("got %v", err)
	}
}

func TestConnectionErrorIsTheCalls(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet")})
	m := h.Mail("puppet", func(context.Context) (wire.Connection, error) {
		return wire.Connection{}, fault.ServiceUnavailable.With("not configured")
	})
	if _, err := m.For("t").Profile(t.Context()); !errors.Is(err, fault.ServiceUnavailable) {
		t.Fatalf("got %v", err)
	}
	if s := h.Status()[0]; s.State != pluginhost.Idle {
		t.Fatalf("the plugin was started for nothing: %+v", s)
	}
}

func TestRequestIDCrosses(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t, "puppet:puppet")})
	p, err := doing(h, "puppet", "").Profile(ports.WithRequestID(t.Context(), "req-42"))
	if err != nil || p.BuiltinDomain != "req-42" {
		t.Fatalf("got %+v, %v", p, err)
	}
}

// TestChangedFileIsNeverRun replaces the file by a program that leaves a mark.
func TestChangedFileIsNeverRun(t *testing.T) {
	dir := folder(t, "puppet:puppet")
	h, _ := host(t, pluginhost.Options{Dir: dir, Patience: quick})
	first := pid(t, h, "puppet")

	mark := filepath.Join(dir, "mark")
	swapped := filepath.Join(dir, "swapped")
	if err := os.WriteFile(swapped, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(swapped, filepath.Join(dir, "mail-puppet")); err != nil {
		t.Fatal(err)
	}
	if again := pid(t, h, "puppet"); again != first {
		t.Fatal("the running process was replaced")
	}
	if err := h.Kill("puppet"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first call tries to start, the second is told to wait
		_, err := doing(h, "puppet", "").Profile(t.Context())
		var o *outcome.Error
		if !errors.As(err, &o) || o.Kind != outcome.Down || o.Cause != "plugin_checksum" || o.RetryAfter <= 0 {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the changed file was executed")
	}
	if s := h.Status()[0]; s.LastError == nil || !strings.Contains(s.LastError.Error(), "SHA-256") {
		t.Fatalf("the status does not say why: %+v", s)
	}
}

func TestCatalogIsChecked(t *testing.T) {
	const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, tt := range []struct{ name, catalog, says string }{
		{"not JSON", `{`, "unexpected end"},
		{"a path", `{"plugins":[{"name":"a","kind":"mail","file":"../evil","sha256":"` + sum + `"}]}`, "not a file name"},
		{"no checksum", `{"plugins":[{"name":"a","kind":"mail","file":"a"}]}`, "sha256"},
		{"a short checksum", `{"plugins":[{"name":"a","kind":"mail","file":"a","sha256":"e3b0"}]}`, "sha256"},
		{"no name", `{"plugins":[{"kind":"mail","file":"a","sha256":"` + sum + `"}]}`, "no name"},
		{"twice", `{"plugins":[{"name":"a","kind":"mail","file":"a","sha256":"` + sum + `"},{"name":"a","kind":"mail","file":"b","sha256":"` + sum + `"}]}`, "twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(tt.catalog), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := pluginhost.New(pluginhost.Options{Dir: dir})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("got %v, want something about %q", err, tt.says)
			}
		})
	}
	if _, err := pluginhost.New(pluginhost.Options{Dir: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("without a catalog: %v", err)
	}
}

// TestPluginsAreFoundBesideTheBinary runs a host with no folder given.
func TestPluginsAreFoundBesideTheBinary(t *testing.T) {
	bin := t.TempDir()
	program, err := os.ReadFile(testserver.Program(t, "testdata/host"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "host"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(folder(t), filepath.Join(bin, "plugins")); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(within(t, hang), filepath.Join(bin, "host"), "", "nobody")
	c.Dir = t.TempDir()
	said, _ := c.CombinedOutput()
	if !strings.Contains(string(said), "plugin_missing") {
		t.Fatalf("the host said: %s", said)
	}
}

func TestUnknownPlugin(t *testing.T) {
	h, _ := host(t, pluginhost.Options{Dir: folder(t)})
	if _, err := doing(h, "nobody", "").Profile(t.Context()); outcome.Of(err) != outcome.Down {
		t.Fatalf("got %v", err)
	}
	if h.Kill("nobody") == nil {
		t.Fatal("a plugin that is not there was killed")
	}
}
