// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/adapters/testserver"
)

const productionName = "https://tenantry.example"

// machine stands in for the server of the page: its paths are in a folder,
// its programs that need root do without, Microsoft is the simulator.
type machine struct {
	*rig
	root   string   // stands in for /
	work   string   // stands in for the repository's folder
	places []string // pairs for a replacer
	server client
}

// standIns are programs of the machine. The users and groups of the page do
// not exist here.
var standIns = map[string]string{
	"sudo":    `[ "$1" != -u ] || shift 2; exec "$@"`,
	"chgrp":   `:`,
	"install": `n=$#; while [ $n -gt 0 ]; do case $1 in -o|-g) shift 2; n=$((n-2)) ;; *) set -- "$@" "$1"; shift; n=$((n-1)) ;; esac; done; exec /usr/bin/install "$@"`,
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{rig: newRig(t, binary(t, release)), root: t.TempDir(), work: t.TempDir()}
	if err := m.zones.Add("tenantry.example", "manual"); err != nil {
		t.Fatal(err)
	}
	if err := m.zones.Replace("tenantry.example", []zones.Record{{Type: "A", Name: "tenantry.example", Content: "203.0.113.7", TTL: 300}}); err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(m.root, "bin")
	for _, err := range []error{
		os.Mkdir(bin, 0o755), os.Mkdir(filepath.Join(m.root, "opt"), 0o755),
		os.Symlink(m.binary.folder, filepath.Join(m.work, "bin")), os.Symlink(filepath.Join(repository, "deploy"), filepath.Join(m.work, "deploy")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, does := range standIns {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.places = []string{
		"/opt/tenantry", m.root + "/opt", "/etc/tenantry", m.root + "/etc", "/var/lib/tenantry", m.root + "/state",
		"/usr/local/bin", bin, "postgres:///tenantry?host=/var/run/postgresql", testserver.Database(t), "cp -R bin ", "cp -RL bin ",
	}
	return m
}

// environment is what differs from the page's machine: where Microsoft and
// the DNS are, and free ports.
func (m *machine) environment() []string {
	env := append([]string{
		"PATH=" + m.root + "/bin:" + os.Getenv("PATH"), "HOME=" + m.root, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0",
		"CLIENT_ID=" + m.settings["client_id"], "HOME_TENANT=organizations",
	}, m.given...)
	for name, value := range m.settings {
		if strings.HasSuffix(name, "_url") || strings.HasSuffix(name, "_scope") {
			env = append(env, "TENANTRY_PROVIDERS_MICROSOFT365_"+strings.ToUpper(name)+"="+value)
		}
	}
	return env
}

// runs adds blocks to the one shell of the page, runs it from where it was
// left, and returns what it prints.
func (m *machine) runs(blocks ...string) string {
	m.t.Helper()
	text := strings.NewReplacer(m.places...).Replace(strings.Join(blocks, "\n"))
	state := filepath.Join(m.work, ".shell")
	cmd := exec.Command("bash", "-c", "set -eu -o pipefail\n[ ! -e .shell ] || . ./.shell\n"+text+"\n{ declare -p RELEASE PUBLIC_URL KEY TENANT 2>/dev/null || :; } > "+state)
	cmd.Dir, cmd.Env = m.work, m.environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("the page stops: %v\n%s\n%s", err, text, out)
	}
	return string(out)
}

func (m *machine) mode(name string, want os.FileMode) {
	m.t.Helper()
	if info, err := os.Stat(filepath.Join(m.root, name)); err != nil || info.Mode().Perm() != want {
		m.t.Errorf("%s: %v (%v)", name, info, err)
	}
}

// registers does what `az` would: the certificate, and at first the redirect
// URIs of the manifest that the page made.
func (m *machine) registers(first bool) {
	m.t.Helper()
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(m.work, name))
		if err != nil {
			m.t.Fatal(err)
		}
		return raw
	}
	app := object{"certificate": string(read("certificate.pem"))}
	if first {
		var made manifest
		if err := json.Unmarshal(read("app.json"), &made); err != nil {
			m.t.Fatal(err)
		}
		app["redirect_uris"] = made.Web.RedirectURIs
	}
	c := client{t: m.t}
	c.ready.ControlURL = m.url + "/_control"
	c.control("POST", "/app", app)
}

// serves starts the service as the unit says.
func (m *machine) serves() *process {
	m.t.Helper()
	unit, err := os.ReadFile(unitFile)
	if err != nil {
		m.t.Fatal(err)
	}
	line := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindSubmatch(unit)
		if found == nil {
			m.t.Fatalf("the unit has no %s", name)
		}
		return strings.NewReplacer(m.places...).Replace(string(found[1]))
	}
	folder := line("WorkingDirectory")
	m.runs("cd " + folder + "\n" + line("ExecStartPre") + "\ncd " + m.work)
	program, serves := strings.CutSuffix(line("ExecStart"), " serve")
	if !serves {
		m.t.Fatalf("the unit starts %s", program)
	}
	m.binary = built{filepath.Dir(program), program}
	var p *process
	p, m.server = m.serve(m.environment(), "--config", filepath.Join(folder, "tenantry.yaml"))
	m.places = append(m.places, "http://127.0.0.1:9090", m.server.ready.AdminURL)
	return p
}

// connects is the customer's administrator, who follows the link.
func (m *machine) connects(printed string) {
	m.t.Helper()
	var answer object
	if err := json.Unmarshal([]byte(printed), &answer); err != nil {
		m.t.Fatalf("%v: %s", err, printed)
	}
	_, admin := m.tenant(m.server)
	v := newVisitor(m.t)
	v.client.Transport = behindProxy(m.server.ready.APIURL)
	signIn := v.open(v.consents(answer.text("connect_url"), admin, "accept"))
	offer := v.open(v.signsIn(signIn.location, admin).location)
	if done := v.submit(offer, url.Values{"decision": {"connect"}}); done.status != http.StatusOK {
		m.t.Fatalf("connect: %d %s", done.status, done.text)
	}
}

// behindProxy reaches the public name without the proxy.
type behindProxy string

func (b behindProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.String(), productionName) {
		to, err := url.Parse(string(b))
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	}
	return http.DefaultTransport.RoundTrip(r)
}
