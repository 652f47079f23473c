// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

const containerfile = "../../deploy/container/Containerfile"

// TestContainerImageServes reads and starts the image that `make test-programs` builds: its
// binaries are static, it runs without privileges, and it serves with its plugins.
func TestContainerImageServes(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(testserver.Program(t, "image/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]string
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	for instruction, want := range map[string]string{
		"FROM": "scratch", "USER": "65532:65532", "ENTRYPOINT": `["/opt/tenantry/tenantry"]`, "CMD": `["serve"]`,
	} {
		if got := config[instruction]; got != want {
			t.Errorf("%s is %q, want %q", instruction, got, want)
		}
	}
	root := testserver.Program(t, "image/root")
	program := filepath.Join(root, "opt", "tenantry", "tenantry")
	static(t, program)
	sources, err := filepath.Glob("../../plugins/*/main.go")
	if err != nil || len(sources) < 4 {
		t.Fatalf("%v: %v", sources, err)
	}
	for _, source := range sources {
		static(t, filepath.Join(root, "opt", "tenantry", "plugins", filepath.Base(filepath.Dir(source))))
	}
	if out, err := exec.Command(program, "plugin", "verify", "--plugin-dir", filepath.Join(root, "opt", "tenantry", "plugins")).CombinedOutput(); err != nil || strings.Count(string(out), " ok ") != len(sources) {
		t.Errorf("its plugins: %v %s", err, out)
	}
	for name, want := range map[string]fs.FileMode{
		"tmp": 0o777 | fs.ModeSticky | fs.ModeDir, "data": 0o700 | fs.ModeDir, "opt/tenantry/tenantry": 0o755,
		"opt/tenantry/plugins/catalog.json": 0o644, "etc/ssl/certs/ca-certificates.crt": 0o644,
	} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode() != want {
			t.Errorf("/%s: %v (%v)", name, info, err)
		}
	}
	if out, err := exec.Command(program, "version").CombinedOutput(); err != nil || !strings.Contains(string(out), "9.8.7") {
		t.Errorf("version: %v %s", err, out)
	}
	r := &serviceFixture{t: t, binary: programs{filepath.Dir(program), program}}
	var env []string
	for variable := range strings.FieldsSeq(config["ENV"]) {
		env = append(env, strings.Replace(variable, "=/data", "="+t.TempDir(), 1))
	}
	env = append(env, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID=none")
	_, server := r.serve(env)
	if got := server.do("GET", server.ready.AdminURL+"/readyz", "", nil); got.status != 200 {
		t.Errorf("/readyz: %d %s", got.status, got.raw)
	}
	_, key := r.newAccount(env, "ann@example.com", "complete", 0)
	// The plugin was started and reported missing settings.
	if got := server.do("GET", server.ready.APIURL+"/v1/tenants/connect-url", key, nil); got.code() != "service_unavailable" {
		t.Errorf("connect-url: %d %s", got.status, got.raw)
	}
}

// static checks that a binary needs no dynamic loader.
func static(t *testing.T, file string) {
	t.Helper()
	program, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			loader, _ := io.ReadAll(part.Open())
			t.Errorf("%s needs %s, which the image does not have", file, loader)
		}
	}
}

// TestContainerfilePinsTheToolchain checks that the Go version is that of go.mod, and that the last
// stage is FROM scratch.
func TestContainerfilePinsTheToolchain(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(containerfile)
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(module)
	from := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllSubmatch(file, -1)
	if len(from) != 2 || string(from[0][1]) != "docker.io/library/golang:"+string(version[1])+"-bookworm" || string(from[1][1]) != "scratch" {
		t.Errorf("built from %s with Go %s", from, version[1])
	}
	page, err := os.ReadFile(filepath.Join(filepath.Dir(containerfile), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	stop := regexp.MustCompile(`--stop-timeout (\d+)s?`).FindSubmatch(page)
	if wait, err := time.ParseDuration(string(stop[1]) + "s"); err != nil || wait < defaultDrainTime(t)+10*time.Second {
		t.Errorf("a stop may take %s (%v)", wait, err)
	}
}

const unitFile = "../../deploy/systemd/tenantry.service"

// TestSystemdUnitIsValid checks that systemd-analyze finds no mistake in the unit, and rates its
// exposure at most 1.5. The unit gets the path of the test's binary.
func TestSystemdUnitIsValid(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.NewReplacer("/opt/tenantry/current", requirePrograms(t, releaseBuild).folder).Replace(string(raw))
	file := filepath.Join(t.TempDir(), "tenantry.service")
	if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The threshold is in tenths; the worst exposure is 10.
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=15", file).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
	wrong := strings.Replace(unit, "ProtectSystem=strict", "ProtectSytem=strict", 1)
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := exec.Command("systemd-analyze", "verify", file).CombinedOutput(); len(out) == 0 {
		t.Error("a misspelt line is not noticed")
	}
}

// defaultDrainTime returns the default of drain_time.
func defaultDrainTime(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(fmt.Sprint(settings.Defaults()["drain_time"]))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSystemdUnitWaitsForTheDrain checks that systemd waits at least 10 s longer for a stop than
// drain_time, and that the unit runs existing commands.
func TestSystemdUnitWaitsForTheDrain(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindSubmatch(raw)
	if found == nil {
		t.Fatal("the unit says nothing about the stop")
	}
	seconds, _ := strconv.Atoi(string(found[1]))
	if spare := time.Duration(seconds)*time.Second - defaultDrainTime(t); spare < 10*time.Second {
		t.Errorf("after the drain %s are left", spare)
	}
	for line := range strings.Lines(string(raw)) {
		directive, ok := strings.CutPrefix(strings.TrimSpace(line), "Exec")
		if _, run, starts := strings.Cut(directive, "=/opt/tenantry/current/tenantry "); ok && starts {
			if cmd, _, err := command.Root().Find(strings.Fields(run)); err != nil || cmd.CommandPath() != "tenantry "+run {
				t.Errorf("the unit runs %q, which is not a command", run)
			}
		}
	}
}
