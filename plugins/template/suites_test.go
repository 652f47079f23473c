// SPDX-License-Identifier: Apache-2.0

// Package template_test runs the plugin templates of other languages: the conformance suite, and the
// checksums of their files.
package template_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// template is a plugin in another language.
type template struct {
	entry string
	files []string // beside the entry, in the manifest
	// planted are files that the interpreter would load before its own, if they were there.
	planted []string
	tests   []string // the command that runs its own tests
	// described is the file with the version.
	described string
}

var templates = map[string]template{
	"python": {
		entry:     "python-dns/dns-example",
		files:     []string{"provider.py", "simulator.py", "tenantry_dns.py", "tenantry_http.py", "tenantry_plugin.py", "messages"},
		planted:   []string{"grpc.py", "json.py", "sitecustomize.py", "provider/__init__.py", "__pycache__/provider.cpython-311.pyc"},
		tests:     []string{"/usr/bin/python3", "-sB", "-m", "unittest"},
		described: "provider.py",
	},
	"node": {
		entry:     "node-dns/dns-example",
		files:     []string{"provider.js", "simulator.js", "tenantry-certificate.js", "tenantry-dns.js", "tenantry-http.js", "tenantry-plugin.js", "messages", packages},
		planted:   []string{"node_modules/@grpc/grpc-js/node_modules/@grpc/proto-loader/index.js", "node_modules/protobufjs/node_modules/long/index.js"},
		tests:     []string{"node", "--test"},
		described: "provider.js",
	},
}

// eachTemplate runs a test for each template.
func eachTemplate(t *testing.T, test func(t *testing.T, p template)) {
	for name, p := range templates {
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
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
			t.Errorf("the simulator ended with %v: %s", err, stderr.String())
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &ready) != nil {
		t.Fatalf("the ready line is %q, %v: %s", line, err, stderr.String())
	}
	return ready
}

// TestPluginTestPasses writes a plugin with `tenantry plugin new`, and runs `tenantry plugin test` over
// it. Each check of a DNS provider must pass.
func TestPluginTestPasses(t *testing.T) {
	for language, p := range templates {
		t.Run(language, func(t *testing.T) {
			parent := t.TempDir()
			runTenantry(t, parent, "plugin", "new", "dns", "acme", "--language", language)
			folder := filepath.Join(parent, "dns-acme")
			if slices.Contains(p.files, packages) { // instead of npm ci, which downloads them
				if err := os.CopyFS(filepath.Join(folder, packages), os.DirFS(filepath.Join(filepath.Dir(p.entry), packages))); err != nil {
					t.Fatal(err)
				}
			}
			runTenantry(t, folder, append([]string{"plugin", "manifest", "dns-acme"}, p.files...)...)
			printed := runTenantry(t, folder, "plugin", "test", "./dns-acme", "--output", "json")
			var report struct {
				Plugin, Kind, Against   string
				Passed, Failed, Skipped int
				Checks                  []struct{ ID, Status string }
			}
			if err := json.Unmarshal(printed, &report); err != nil {
				t.Fatalf("%v: %s", err, printed)
			}
			all := len(conformance.List("dns"))
			if report.Plugin != "acme" || report.Kind != "dns" || report.Against != "simulator" || report.Passed != all || report.Failed+report.Skipped != 0 || len(report.Checks) != all {
				t.Errorf("want %d passed checks: %s", all, printed)
			}
		})
	}
}

// packages is the folder with the packages of a plugin in JavaScript.
const packages = "node_modules"

// runTenantry runs the built program in a folder and returns what it prints. The exit code must be 0.
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
	eachTemplate(t, func(t *testing.T, p template) {
		cmd := exec.Command(p.tests[0], p.tests[1:]...)
		cmd.Dir = filepath.Dir(p.entry)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	})
}

// TestBytesOfATextAreKept writes a text that is not UTF-8 and reads it again.
func TestBytesOfATextAreKept(t *testing.T) {
	eachTemplate(t, func(t *testing.T, p template) {
		entry, err := filepath.Abs(p.entry)
		if err != nil {
			t.Fatal(err)
		}
		ready := startSimulator(t, entry)
		askControl(t, http.MethodPut, ready.URL+"/_control/zones/bytes.test", "{}")
		provider := conformance.Provider(conformance.Binary{Path: entry}.Start(t), sdk.Connection{
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
			t.Fatalf("got %+v, %v", sets, err)
		}
	})
}
