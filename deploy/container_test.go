// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"debug/elf"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestContainerImageServes checks the image that `make test-programs` builds. The binaries of the
// image must be static, its user unprivileged, and its plugins valid. The service must start.
func TestContainerImageServes(t *testing.T) {
	t.Parallel()
	var config map[string]string
	if err := json.Unmarshal([]byte(fileText(t, testserver.Program(t, "image/config.json"))), &config); err != nil {
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
	checkStatic(t, program)
	mainFiles, err := filepath.Glob("../plugins/*/main.go")
	if err != nil || len(mainFiles) < 4 {
		t.Fatalf("the main files of the plugins are %v, want at least four: %v", mainFiles, err)
	}
	for _, mainFile := range mainFiles {
		checkStatic(t, filepath.Join(root, "opt", "tenantry", "plugins", filepath.Base(filepath.Dir(mainFile))))
	}
	if out, err := exec.Command(program, "plugin", "verify", "--plugin-dir", filepath.Join(root, "opt", "tenantry", "plugins")).CombinedOutput(); err != nil || strings.Count(string(out), " ok ") != len(mainFiles) {
		t.Errorf("plugin verify: %v, want %d plugins that are ok: %s", err, len(mainFiles), out)
	}
	for name, want := range map[string]fs.FileMode{
		"tmp": 0o777 | fs.ModeSticky | fs.ModeDir, "data": 0o700 | fs.ModeDir, "opt/tenantry/tenantry": 0o755,
		"opt/tenantry/plugins/catalog.json": 0o644, "etc/ssl/certs/ca-certificates.crt": 0o644,
	} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode() != want {
			t.Errorf("/%s: %v (%v), want the mode %v", name, info, err, want)
		}
	}
	if out, err := exec.Command(program, "version").CombinedOutput(); err != nil || !strings.Contains(string(out), "9.8.7") {
		t.Errorf("version: %v %s, want 9.8.7", err, out)
	}
	var env []string
	for variable := range strings.FieldsSeq(config["ENV"]) {
		env = append(env, strings.Replace(variable, "=/data", "="+t.TempDir(), 1))
	}
	env = append(env, "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID=none")
	service := serve(t, program, env)
	if status, answer := get(t, service.text("admin")+"/readyz", ""); status != http.StatusOK {
		t.Errorf("/readyz: %d %v, want 200", status, answer)
	}
	account := runCommand(t, program, env, "account", "create", "--email", "ann@example.com", "--plan", "complete")
	key := runCommand(t, program, env, "key", "create", "--account", account.text("account_id")).text("api_key")
	// The mail plugin starts, but some of its required settings are missing, so the answer is
	// service_unavailable.
	if status, answer := get(t, service.text("api")+"/v1/tenants/connect-url", key); answer.text("code") != "service_unavailable" {
		t.Errorf("connect-url: %d %v, want the code service_unavailable", status, answer)
	}
}

// checkStatic checks that a binary needs no dynamic loader.
func checkStatic(t *testing.T, file string) {
	t.Helper()
	program, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			loader, _ := io.ReadAll(segment.Open())
			t.Errorf("%s needs %s, which the image does not have", file, loader)
		}
	}
}

// TestContainerfilePinsTheToolchain checks that the Containerfile has the Go version of go.mod, and
// that its last stage is FROM scratch. The test also checks the stop timeout in README.md.
func TestContainerfilePinsTheToolchain(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(fileText(t, "../go.mod"))
	from := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(fileText(t, "container/Containerfile"), -1)
	if len(from) != 2 || from[0][1] != "docker.io/library/golang:"+version[1]+"-bookworm" || from[1][1] != "scratch" {
		t.Errorf("the stages are %s, want the bookworm image of Go %s and then scratch", from, version[1])
	}
	if wait := secondsIn(t, fileText(t, "container/README.md"), `--stop-timeout (\d+)`); wait < defaultDrainTime(t)+10*time.Second {
		t.Errorf("the stop timeout in README.md is %s, want at least 10 s more than drain_time", wait)
	}
}
