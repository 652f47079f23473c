// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const containerfile = "../../deploy/container/Containerfile"

// stage is one stage of a Containerfile, carried out in a folder.
type stage struct {
	name, root, folder string
	env                []string
	said               map[string]string // USER, ENTRYPOINT and the like
}

// image does what the Containerfile says without a container engine: what it
// copies is copied, what it runs is run here, on folders that stand in for
// /src and /out of the build stage.
func image(t *testing.T, args map[string]string) (last *stage) {
	t.Helper()
	raw, err := os.ReadFile(containerfile)
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string]*stage{}
	for line := range strings.Lines(string(raw)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "", "#":
		case "FROM":
			base, name, _ := strings.Cut(rest, " AS ")
			last = &stage{name: name, root: t.TempDir(), said: map[string]string{word: base}}
			stages[name] = last
		case "COPY":
			last.copy(t, stages, strings.Fields(rest))
		case "RUN":
			last.run(t, rest)
		case "WORKDIR":
			last.folder = filepath.Join(last.root, rest)
			if err := os.MkdirAll(last.folder, 0o755); err != nil {
				t.Fatal(err)
			}
		case "ARG":
			name, value, _ := strings.Cut(rest, "=")
			if given, ok := args[name]; ok {
				value = given
			}
			last.env = append(last.env, name+"="+value)
		case "ENV":
			last.env = append(last.env, strings.Fields(rest)...)
		case "USER", "EXPOSE", "VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD":
			last.said[word] = rest
		default:
			t.Fatalf("the Containerfile says %s, which this test cannot do", word)
		}
	}
	return last
}

func (s *stage) copy(t *testing.T, stages map[string]*stage, words []string) {
	t.Helper()
	from := "../.."
	if name, ok := strings.CutPrefix(words[0], "--from="); ok {
		from, words = stages[name].root, words[1:]
	}
	to := filepath.Join(s.folder, words[len(words)-1])
	if strings.HasPrefix(words[len(words)-1], "/") {
		to = filepath.Join(s.root, words[len(words)-1])
	}
	for _, name := range words[:len(words)-1] {
		source := filepath.Join(from, name)
		if info, err := os.Stat(source); err == nil && info.IsDir() {
			source += "/."
		}
		if out, err := exec.Command("mkdir", "-p", to).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		if out, err := exec.Command("cp", "-a", source, to).CombinedOutput(); err != nil {
			t.Fatalf("COPY %v: %v\n%s", words, err, out)
		}
	}
}

var outFolder = regexp.MustCompile(`(^|\s)/out\b`)

func (s *stage) run(t *testing.T, command string) {
	t.Helper()
	// Only root gives files away.
	prelude := "set -e\n"
	if os.Getuid() != 0 {
		prelude += "chown() { :; }\n"
	}
	cmd := exec.Command("sh", "-c", prelude+outFolder.ReplaceAllString(command, "${1}"+filepath.Join(s.root, "out")))
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), s.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("RUN %s: %v\n%s", command, err, out)
	}
}

// TestImage: what the Containerfile builds needs nothing but itself, runs
// without privileges, and serves with the plugins beside it.
func TestImage(t *testing.T) {
	t.Parallel()
	s := image(t, map[string]string{"VERSION": "9.8.7", "COMMIT": "abc"})
	if s.said["FROM"] != "scratch" || s.said["USER"] != "65532:65532" || s.said["ENTRYPOINT"] != `["/opt/tenantry/tenantry"]` || s.said["CMD"] != `["serve"]` {
		t.Errorf("the image says %v", s.said)
	}
	program := filepath.Join(s.root, "opt", "tenantry", "tenantry")
	static(t, program)
	sources, err := filepath.Glob("../../plugins/*/main.go")
	if err != nil || len(sources) < 4 {
		t.Fatalf("%v: %v", sources, err)
	}
	for _, source := range sources {
		static(t, filepath.Join(s.root, "opt", "tenantry", "plugins", filepath.Base(filepath.Dir(source))))
	}
	if out, err := exec.Command(program, "plugin", "verify", "--plugin-dir", filepath.Join(s.root, "opt", "tenantry", "plugins")).CombinedOutput(); err != nil || strings.Count(string(out), " ok ") != len(sources) {
		t.Errorf("its plugins: %v %s", err, out)
	}
	for name, want := range map[string]fs.FileMode{
		"tmp": 0o777 | fs.ModeSticky | fs.ModeDir, "data": 0o700 | fs.ModeDir, "opt/tenantry/tenantry": 0o755,
		"opt/tenantry/plugins/catalog.json": 0o644, "etc/ssl/certs/ca-certificates.crt": 0o644,
	} {
		if info, err := os.Stat(filepath.Join(s.root, name)); err != nil || info.Mode() != want {
			t.Errorf("/%s: %v (%v)", name, info, err)
		}
	}
	if out, err := exec.Command(program, "version").CombinedOutput(); err != nil || !strings.Contains(string(out), "9.8.7") {
		t.Errorf("version: %v %s", err, out)
	}
	r := &rig{t: t, binary: built{filepath.Dir(program), program}}
	var env []string
	for _, variable := range s.env {
		env = append(env, strings.Replace(variable, "=/data", "="+filepath.Join(s.root, "data"), 1))
	}
	env = append(env, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID=none")
	_, server := r.serve(env)
	if got := server.do("GET", server.ready.AdminURL+"/readyz", "", nil); got.status != 200 {
		t.Errorf("/readyz: %d %s", got.status, got.raw)
	}
	_, key := r.account(env, "ann@example.com", "complete", 0)
	// The plugin was started and found its settings wanting.
	if got := server.do("GET", server.ready.APIURL+"/v1/tenants/connect-url", key, nil); got.code() != "service_unavailable" {
		t.Errorf("connect-url: %d %s", got.status, got.raw)
	}
}

// static refuses a binary that needs a library or a loader.
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

// TestContainerfilePins: the toolchain is the one of go.mod, and the last
// stage starts from nothing.
func TestContainerfilePins(t *testing.T) {
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
	if wait, err := time.ParseDuration(string(stop[1]) + "s"); err != nil || wait < usualDrain(t)+10*time.Second {
		t.Errorf("a stop may take %s (%v)", wait, err)
	}
}
