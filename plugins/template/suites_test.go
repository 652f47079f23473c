// SPDX-License-Identifier: Apache-2.0

// Package template_test tests the plugin templates in Python and JavaScript. It runs the
// conformance suite and the sandbox with them, and checks the checksums of their files. One test
// runs the Go template of a mail platform in the sandbox.
package template_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/template"
	"github.com/tenantry/tenantry/plugins/wire"
)

// plugin is a plugin in a language other than Go that `tenantry plugin new` has written.
type plugin struct {
	kind   string
	folder string   // the folder of the template
	entry  string   // the path of the program
	files  []string // the files in the manifest, without the entry
	language
}

// language has the properties that all plugins in a language share.
type language struct {
	// shadowingFiles are files that the interpreter would load instead of files of the plugin, if
	// they existed.
	shadowingFiles []string
	tests          []string // the command that runs the plugin's own tests
	// versionFile is the file that contains the version of the plugin.
	versionFile string
}

var languages = map[string]language{
	"python": {
		shadowingFiles: []string{"grpc.py", "json.py", "sitecustomize.py", "provider/__init__.py", "__pycache__/provider.cpython-311.pyc"},
		tests:          []string{"/usr/bin/python3", "-sB", "-m", "unittest"},
		versionFile:    "provider.py",
	},
	"node": {
		shadowingFiles: []string{"node_modules/@grpc/grpc-js/node_modules/@grpc/proto-loader/index.js", "node_modules/protobufjs/node_modules/long/index.js"},
		tests:          []string{"node", "--test"},
		versionFile:    "provider.js",
	},
}

// eachTemplate writes a plugin from the template in each of these folders and runs a test with it.
func eachTemplate(t *testing.T, folders []string, test func(t *testing.T, p plugin)) {
	for _, folder := range folders {
		languageName, kind, _ := strings.Cut(folder, "-")
		t.Run(folder, func(t *testing.T) { test(t, writePlugin(t, kind, languageName, languages[languageName])) })
	}
}

// onlyDNS are the templates for tests of DNS providers, and for tests whose result does not depend
// on the kind of plugin. allKinds are all templates in Python and JavaScript.
var (
	onlyDNS  = []string{"python-dns", "node-dns"}
	allKinds = []string{"python-dns", "node-dns", "python-sending", "node-sending", "python-mail", "node-mail"}
)

// writePlugin writes the plugin "acme", with its packages and its manifest.
func writePlugin(t *testing.T, kind, languageName string, properties language) plugin {
	t.Helper()
	written, err := template.New(template.Options{Kind: kind, Name: "acme", Language: languageName, Parent: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if languageName == "node" { // instead of npm ci, which downloads the packages
		if err := os.CopyFS(filepath.Join(written.Folder, "node_modules"), programFiles{os.DirFS("node/node_modules")}); err != nil {
			t.Fatal(err)
		}
	}
	writtenPlugin := plugin{kind: kind, folder: languageName + "-" + kind, entry: filepath.Join(written.Folder, kind+"-acme"), language: properties}
	// The last command is tenantry plugin manifest PROGRAM FILE...
	for _, pattern := range strings.Fields(written.Build[len(written.Build)-1])[4:] {
		found, err := filepath.Glob(filepath.Join(written.Folder, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no file is named %s: %v", pattern, err)
		}
		for _, path := range found {
			writtenPlugin.files = append(writtenPlugin.files, filepath.Base(path))
		}
	}
	if _, err := verified.WriteManifest(writtenPlugin.entry, writtenPlugin.files); err != nil {
		t.Fatal(err)
	}
	return writtenPlugin
}

// startSimulator starts the simulator of a plugin and stops it when the test ends.
func startSimulator(t *testing.T, entry string) simulate.Ready {
	t.Helper()
	var ready simulate.Ready
	cmd := exec.Command(entry, "simulate", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // ends the simulator
		if err := cmd.Wait(); err != nil {
			t.Errorf("the simulator ended with %v, want no error: %s", err, stderr.String())
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &ready) != nil {
		t.Fatalf("the ready line is %q, %v, want a simulate.Ready: %s", line, err, stderr.String())
	}
	return ready
}

// update makes TestPluginTestPasses write the output of the suite into the READMEs instead of
// comparing it:
//
//	go test ./plugins/template -run TestPluginTestPasses -update
var update = flag.Bool("update", false, "write the READMEs of the templates")

const readmeHeading = "## What `tenantry plugin test` prints\n"

// TestPluginTestPasses runs `tenantry plugin test` over each template. Each check of its kind must
// pass, and the README must end with the output. Without TENANTRY_SOAK it tests both templates of
// DNS providers and one other template.
func TestPluginTestPasses(t *testing.T) {
	folders := allKinds
	if !*update {
		otherTemplates := slices.DeleteFunc(slices.Clone(allKinds), func(folder string) bool { return slices.Contains(onlyDNS, folder) })
		folders = append(soak.Sample(t, otherTemplates, 1), onlyDNS...)
	}
	eachTemplate(t, folders, func(t *testing.T, p plugin) {
		t.Parallel() // the checks mostly wait
		folder := filepath.Dir(p.entry)
		printed := string(runTenantry(t, folder, "plugin", "test", "./"+filepath.Base(p.entry)))
		checks := conformance.List(p.kind)
		for _, suiteCheck := range checks {
			if !strings.Contains(printed, "ok    "+suiteCheck.ID+" ") {
				t.Errorf("the output does not show that %s passed", suiteCheck.ID)
			}
		}
		if want := fmt.Sprintf("acme 0.1.0: %d passed, 0 failed, 0 skipped\n", len(checks)); !strings.HasSuffix(printed, want) {
			t.Fatalf("the output does not end with %q:\n%s", want, printed)
		}
		ending := readmeHeading + "\n```\n" + printed + "```\n"
		if *update {
			p.updateReadme(t, ending)
			return
		}
		if page, err := os.ReadFile(filepath.Join(folder, "README.md")); err != nil || !strings.HasSuffix(string(page), "\n"+ending) {
			t.Errorf("the README does not end with the output; run this test with -update: %v", err)
		}
	})
}

// updateReadme replaces the ending of the README in the folder of the template.
func (p plugin) updateReadme(t *testing.T, ending string) {
	t.Helper()
	path := filepath.Join(p.folder, "README.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(page), readmeHeading)
	page = []byte(strings.TrimRight(before, "\n") + "\n\n" + strings.ReplaceAll(ending, "acme", "example"))
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
}

// runTenantry runs the built program in a folder and returns its output. The exit code must be 0.
func runTenantry(t *testing.T, folder string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(testserver.Program(t, "release/tenantry"), args...)
	cmd.Dir = folder
	var problems bytes.Buffer
	cmd.Stderr = &problems
	printed, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, printed, problems.Bytes())
	}
	return printed
}

// TestOwnTestsPass runs the tests that a template has in its own language.
func TestOwnTestsPass(t *testing.T) {
	eachTemplate(t, allKinds, func(t *testing.T, p plugin) {
		cmd := exec.Command(p.tests[0], p.tests[1:]...)
		cmd.Dir = filepath.Dir(p.entry)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the tests of the template fail: %v: %s", err, output)
		}
	})
}

// TestOptionalMembersOfADescription removes the members of a description that a plugin may leave
// out, and adds the member needs. The host must receive what `describe` prints, and the plugin must
// answer calls.
func TestOptionalMembersOfADescription(t *testing.T) {
	eachTemplate(t, []string{"python-sending", "node-sending"}, func(t *testing.T, p plugin) {
		provider := filepath.Join(filepath.Dir(p.entry), p.versionFile)
		source, err := os.ReadFile(provider)
		if err != nil {
			t.Fatal(err)
		}
		changed := regexp.MustCompile(`(?m)^ +"?budgets"?: .*$`).ReplaceAll(source, nil)
		changed = regexp.MustCompile(`(?m)^( +"?)hosts("?): .*$`).ReplaceAll(changed, []byte(`${1}needs${2}: {"mailbox_refresh": ["workspace_id"]},`))
		if err := os.WriteFile(provider, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := verified.WriteManifest(p.entry, p.files); err != nil {
			t.Fatal(err)
		}
		d, err := conformance.Binary{Path: p.entry}.Start(t).Describe(t.Context())
		if err != nil || len(d.Hosts) > 0 || len(d.Budgets) > 0 || !slices.Equal(d.Needs["mailbox_refresh"], []string{"workspace_id"}) {
			t.Fatalf("the host receives %+v, %v, want needs without hosts and budgets", d, err)
		}
		report, err := conformance.Test(t.Context(), conformance.Options{Path: p.entry, Only: []string{"plugin/commands/describe", "sending/account/accepted"}})
		if err != nil || report.Count(conformance.Passed) != 2 {
			t.Errorf("the checks of the plugin: %v %+v, want both passed", err, report)
		}
	})
}

// TestPluginNamesItsProtocolVersion starts a plugin under a host that supports only protocol
// version 9. The host can only tell that the versions differ if the plugin prints its own version.
func TestPluginNamesItsProtocolVersion(t *testing.T) {
	eachTemplate(t, onlyDNS, func(t *testing.T, p plugin) {
		cmd := exec.CommandContext(t.Context(), p.entry)
		cmd.Env = []string{wire.SearchPath, "TENANTRY_PLUGIN=b6b0ad7a-hosted-by-tenantry", "PLUGIN_PROTOCOL_VERSIONS=9"}
		stdout, err := cmd.Output()
		var exit *exec.ExitError
		if string(stdout) != "1|1|unix||grpc|\n" || !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("it printed %q and ended with %v, want a handshake line of version 1 and status 1", stdout, err)
		}
	})
}

// TestHealthCheckAnswersDuringManyCalls makes 200 calls to a provider that never answers. If the
// health check failed meanwhile, the host would kill the plugin and all its calls.
func TestHealthCheckAnswersDuringManyCalls(t *testing.T) {
	eachTemplate(t, onlyDNS, func(t *testing.T, p plugin) {
		var requests atomic.Int64
		release := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			requests.Add(1)
			<-release
		}))
		defer server.Close()
		defer close(release)
		process := conformance.Binary{Path: p.entry}.Start(t)
		provider := conformance.Provider(process, sdk.Connection{
			Settings: map[string]string{"api_url": server.URL}, Secrets: map[string]secret.Text{"api_token": secret.New("k")},
		})
		calls, cancel := context.WithCancel(t.Context())
		var pending sync.WaitGroup
		defer pending.Wait()
		defer cancel()
		for range 200 {
			pending.Go(func() { _, _ = provider.Check(calls) })
		}
		const maxCalls = 128 // the limit of concurrent calls in tenantry_plugin.py
		for start := time.Now(); requests.Load() < maxCalls; time.Sleep(10 * time.Millisecond) {
			if time.Since(start) > 4*time.Minute {
				t.Fatalf("only %d calls reached the provider, want %d", requests.Load(), maxCalls)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
		defer stop()
		if err := process.Ping(ctx); err != nil {
			t.Errorf("the health check during the calls: %v, want no error", err)
		}
	})
}

// TestBytesOfATextAreKept writes a TXT record whose text is not UTF-8, and reads the record.
func TestBytesOfATextAreKept(t *testing.T) {
	eachTemplate(t, onlyDNS, func(t *testing.T, p plugin) {
		ready := startSimulator(t, p.entry)
		askControl(t, http.MethodPut, ready.URL+"/_control/zones/bytes.test", "{}")
		provider := conformance.Provider(conformance.Binary{Path: p.entry}.Start(t), sdk.Connection{
			Settings: ready.Settings, Secrets: map[string]secret.Text{"api_token": secret.New(ready.Secrets["api_token"])},
		})
		zone, err := provider.Zone(t.Context(), "bytes.test")
		if err != nil {
			t.Fatal(err)
		}
		text := "\x00\xff\xfe é " + strings.Repeat("x", 300)
		want := dns.RRSet{Name: zone.Name, Type: dns.TXT, TTL: 300, Values: []string{text}}
		if _, err := provider.Apply(t.Context(), zone, []dns.Change{{Before: dns.RRSet{Name: zone.Name, Type: dns.TXT}, After: want}}); err != nil {
			t.Fatal(err)
		}
		sets, err := provider.Records(t.Context(), zone)
		if err != nil || len(sets) != 1 || len(sets[0].Values) != 1 || sets[0].Values[0] != text {
			t.Fatalf("got %+v, %v, want the text %q", sets, err, text)
		}
	})
}
