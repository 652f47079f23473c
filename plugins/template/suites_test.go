// SPDX-License-Identifier: Apache-2.0

// Package template_test runs the plugin templates of other languages: the suites of a DNS provider,
// and the checksums of their files.
package template_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
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
		files:     []string{"provider.js", "simulator.js", "tenantry-certificate.js", "tenantry-dns.js", "tenantry-http.js", "tenantry-plugin.js", "messages", "node_modules"},
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

// fixture is a simulator of a template. It implements contract.DNSProviderEnv.
type fixture struct {
	ready       simulate.Ready
	newProvider func(sdk.Connection) sdk.DNSProvider
	serial      atomic.Int64
}

// startSimulator starts the simulator of a plugin and stops it when the test ends.
func startSimulator(t conformance.T, entry string) simulate.Ready {
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

func (f *fixture) provider(token string) sdk.DNSProvider {
	return f.newProvider(sdk.Connection{Settings: f.ready.Settings, Secrets: map[string]secret.Text{"api_token": secret.New(token)}})
}

func (f *fixture) Provider() sdk.DNSProvider { return f.provider(f.ready.Secrets["api_token"]) }

func (f *fixture) Refused() sdk.DNSProvider { return f.provider("guessed") }

func (f *fixture) NewZone(t conformance.T) string {
	zone := fmt.Sprintf("zone-%d.test", f.serial.Add(1))
	f.control(t, http.MethodPut, "/zones/"+zone, struct{}{}, nil)
	return zone
}

// setDoc is a record set in the format of the simulated API.
type setDoc struct {
	Name   string   `json:"name"`
	Type   dns.Type `json:"type"`
	TTL    int      `json:"ttl"`
	Values []string `json:"values"`
}

func (f *fixture) sets(t conformance.T, zone string) []setDoc {
	var sets []setDoc
	f.control(t, http.MethodGet, "/zones/"+zone+"/sets", nil, &sets)
	return sets
}

func (f *fixture) Put(t conformance.T, zone string, s dns.RRSet) {
	sets := []setDoc{}
	for _, old := range f.sets(t, zone) {
		if old.Name != s.Name || old.Type != s.Type {
			sets = append(sets, old)
		}
	}
	f.control(t, http.MethodPut, "/zones/"+zone+"/sets", append(sets, setDoc{s.Name, s.Type, s.TTL, append([]string{}, s.Values...)}), nil)
}

func (f *fixture) Held(t conformance.T, zone string) []dns.RRSet {
	var held []dns.RRSet
	for _, s := range f.sets(t, zone) {
		held = append(held, dns.RRSet{Name: s.Name, Type: s.Type, TTL: s.TTL, Values: s.Values})
	}
	return held
}

func (f *fixture) Lose(t conformance.T, failure contract.Failure) {
	kind := simulate.DropBefore
	if failure == contract.LosesAnswer {
		kind = simulate.DropAfter
	}
	f.control(t, http.MethodPost, "/faults", simulate.Fault{Kind: kind, Times: 1, WritesOnly: true}, nil)
}

// control sends a control call to the simulator and decodes the answer into out, which may be nil.
func (f *fixture) control(t conformance.T, method, path string, in, out any) {
	t.Helper()
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), method, f.ready.URL+"/_control"+path, &body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s, %v", method, path, answer.StatusCode, content, err)
	}
	if out != nil {
		if err := json.Unmarshal(content, out); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
}

// TestSuites runs the checks of every plugin and the contract of a DNS provider.
func TestSuites(t *testing.T) {
	eachTemplate(t, func(t *testing.T, p template) {
		entry, err := filepath.Abs(p.entry)
		if err != nil {
			t.Fatal(err)
		}
		conformance.DNS(t, conformance.Binary{Path: entry}, func(t conformance.T, newProvider func(sdk.Connection) sdk.DNSProvider) contract.DNSProviderEnv {
			return &fixture{ready: startSimulator(t, entry), newProvider: newProvider}
		})
	})
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
		process := conformance.Binary{Path: entry}.Start(t)
		f := &fixture{ready: startSimulator(t, entry), newProvider: func(c sdk.Connection) sdk.DNSProvider { return conformance.Provider(process, c) }}
		zone, err := f.Provider().Zone(t.Context(), f.NewZone(t))
		if err != nil {
			t.Fatal(err)
		}
		text := "\x00\xff\xfe é " + strings.Repeat("x", 300)
		want := dns.RRSet{Name: zone.Name, Type: dns.TXT, TTL: 300, Values: []string{text}}
		if _, err := f.Provider().Apply(t.Context(), zone, []dns.Change{{Before: dns.RRSet{Name: zone.Name, Type: dns.TXT}, After: want}}); err != nil {
			t.Fatal(err)
		}
		sets, err := f.Provider().Records(t.Context(), zone)
		if err != nil || len(sets) != 1 || len(sets[0].Values) != 1 || sets[0].Values[0] != text {
			t.Fatalf("got %+v, %v", sets, err)
		}
	})
}
