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

// TestProductionPageWorks follows docs/production.md step by step.
func TestProductionPageWorks(t *testing.T) {
	t.Parallel()
	steps := productionSteps(t)
	m := newProductionHost(t)
	m.setUp(steps)
	p := m.startService()
	m.runBlocks(steps[7]...)
	m.replacements = append(m.replacements, "$PUBLIC_URL/v1", m.server.ready.APIURL+"/v1")
	m.connectTenant(m.runBlocks(steps[9][0]))
	if out := m.runBlocks(steps[9][1:]...); !strings.Contains(out, `"status":"completed"`) || !strings.Contains(out, `"next_step":"add_domain"`) {
		t.Errorf("the first tenant: %s", out)
	}
	if out := m.runBlocks(steps[10]...); !strings.Contains(out, "you@example.com") {
		t.Errorf("the rehearsal has no account: %s", out)
	}
	m.runBlocks(steps[11][0])
	m.uploadRegistration(false)
	m.runBlocks(steps[11][1:]...)
	m.runBlocks(`curl -sS --fail -X POST -H "Authorization: Bearer $KEY" -H "Idempotency-Key: second" "$PUBLIC_URL/v1/tenants/$TENANT/sync"`)
	if !strings.Contains(p.logs.String(), "credential reloaded") {
		t.Error("the service did not load the new certificate")
	}
	m.runBlocks(steps[12]...)
	m.checkMode("opt/current/tenantry", 0o755)
	m.checkMode("opt/current/plugins/catalog.json", 0o644)
	if to, err := os.Readlink(m.root + "/opt/current"); err != nil || to != "0.2.0" {
		t.Errorf("current is %s (%v)", to, err)
	}
}

// setUp follows the page up to the first start.
func (m *productionHost) setUp(steps map[int][]string) {
	m.t.Helper()
	m.runBlocks(steps[2]...)
	if strings.Contains(steps[2][1], "cd ") {
		m.t.Error("the script enters a folder before sudo: only the service's group may enter that of the settings")
	}
	if out := m.runBlocks(steps[3]...); strings.Contains(out, "PRIVATE KEY") {
		m.t.Error("the key is printed")
	}
	m.checkMode("etc/microsoft365.pem", 0o640)
	m.runBlocks(steps[4]...)
	m.uploadRegistration(true)
	if out := m.runBlocks(steps[5]...); !strings.Contains(out, m.settings["client_id"]) || !regexp.MustCompile(`(?m)^public_url +https://tenantry.example +file`).MatchString(out) {
		m.t.Errorf("config says %s", out)
	}
	if out := m.runBlocks(steps[6]...); strings.Contains(out, "failed") {
		m.t.Errorf("doctor says %s", out)
	}
	m.checkMode("state/keyset.json", 0o600)
}

var (
	stepHead = regexp.MustCompile(`(?m)^## (?:(\d+)\. )?.*$`)
	shBlock  = regexp.MustCompile("(?s)```sh\n(.*?)```")
)

// productionSteps returns the sh blocks of the page by the number of their step. All blocks must
// belong to a step.
func productionSteps(t *testing.T) map[int][]string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/production.md")
	must(t, err)
	page, steps, found := string(raw), map[int][]string{}, 0
	heads := stepHead.FindAllStringSubmatchIndex(page, -1)
	for i, head := range heads {
		end := len(page)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		for _, block := range shBlock.FindAllStringSubmatch(page[head[1]:end], -1) {
			steps[i+1] = append(steps[i+1], block[1])
			found++
		}
	}
	if want := len(shBlock.FindAllString(page, -1)); found != want || found < 14 || len(steps) != 10 {
		t.Fatalf("%d of %d blocks in the steps %d", found, want, len(steps))
	}
	return steps
}

const productionURL = "https://tenantry.example"

// productionHost stands in for the server of docs/production.md. Its file system is a temporary
// folder, commands that need root are replaced, and Microsoft 365 is simulated.
type productionHost struct {
	*serviceFixture
	root         string   // replaces /
	work         string   // replaces the working copy of the repository
	replacements []string // arguments of strings.NewReplacer
	server       client
}

// standInPrograms replace programs that need root, or users and groups that do not exist on the
// test machine.
var standInPrograms = map[string]string{
	"sudo":    `[ "$1" != -u ] || shift 2; exec "$@"`,
	"chgrp":   `:`,
	"install": `n=$#; while [ $n -gt 0 ]; do case $1 in -o|-g) shift 2; n=$((n-2)) ;; *) set -- "$@" "$1"; shift; n=$((n-1)) ;; esac; done; exec /usr/bin/install "$@"`,
}

func newProductionHost(t *testing.T) *productionHost {
	t.Helper()
	m := &productionHost{serviceFixture: newServiceFixture(t, requirePrograms(t, releaseBuild)), root: t.TempDir(), work: t.TempDir()}
	must(t, m.zones.Add("tenantry.example", "manual"))
	must(t, m.zones.Replace("tenantry.example", []zones.Record{{Type: "A", Name: "tenantry.example", Content: "203.0.113.7", TTL: 300}}))
	repository, err := filepath.Abs("../..")
	must(t, err)
	bin, built := filepath.Join(m.root, "bin"), filepath.Join(m.work, "bin")
	for _, err := range []error{
		os.Mkdir(bin, 0o755), os.Mkdir(filepath.Join(m.root, "opt"), 0o755),
		os.Mkdir(built, 0o755), os.Symlink(m.binary.binary, filepath.Join(built, "tenantry")),
		os.Symlink(strings.TrimPrefix(onePluginPerKindEnv(t), allPlugins), filepath.Join(built, "plugins")), os.Symlink(filepath.Join(repository, "deploy"), filepath.Join(m.work, "deploy")),
	} {
		must(t, err)
	}
	for name, does := range standInPrograms {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755))
	}
	m.replacements = []string{
		"/opt/tenantry", m.root + "/opt", "/etc/tenantry", m.root + "/etc", "/var/lib/tenantry", m.root + "/state",
		"/usr/local/bin", bin, "postgres:///tenantry?host=/var/run/postgresql", testserver.Database(t), "cp -R bin ", "cp -RL bin ",
	}
	return m
}

// environment returns the variables that differ from the documented server: the addresses of
// Microsoft 365 and DNS, and free ports.
func (m *productionHost) environment() []string {
	env := append([]string{
		"PATH=" + m.root + "/bin:" + os.Getenv("PATH"), "HOME=" + m.root, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0",
		"CLIENT_ID=" + m.settings["client_id"], "HOME_TENANT=organizations",
	}, m.extraEnv...)
	for name, value := range m.settings {
		if strings.HasSuffix(name, "_url") || strings.HasSuffix(name, "_scope") {
			env = append(env, "TENANTRY_PROVIDERS_MICROSOFT365_"+strings.ToUpper(name)+"="+value)
		}
	}
	return env
}

// runBlocks runs shell blocks of the page in the state that the previous blocks left, and returns
// their output.
func (m *productionHost) runBlocks(blocks ...string) string {
	m.t.Helper()
	text := strings.NewReplacer(m.replacements...).Replace(strings.Join(blocks, "\n"))
	state := filepath.Join(m.work, ".shell")
	cmd := exec.Command("bash", "-c", "set -eu -o pipefail\n[ ! -e .shell ] || . ./.shell\n"+text+"\n{ declare -p RELEASE PUBLIC_URL KEY TENANT 2>/dev/null || :; } > "+state)
	cmd.Dir, cmd.Env = m.work, m.environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("the script of the page failed: %v\n%s\n%s", err, text, out)
	}
	return string(out)
}

func (m *productionHost) checkMode(name string, want os.FileMode) {
	m.t.Helper()
	if info, err := os.Stat(filepath.Join(m.root, name)); err != nil || info.Mode().Perm() != want {
		m.t.Errorf("%s: %v (%v)", name, info, err)
	}
}

// uploadRegistration does what `az` would: it uploads the certificate and, with withRedirects, the
// redirect URIs of the manifest that the page made.
func (m *productionHost) uploadRegistration(withRedirects bool) {
	m.t.Helper()
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(m.work, name))
		must(m.t, err)
		return raw
	}
	app := object{"certificate": string(read("certificate.pem"))}
	if withRedirects {
		var made manifest
		must(m.t, json.Unmarshal(read("app.json"), &made))
		app["redirect_uris"] = made.Web.RedirectURIs
	}
	c := client{t: m.t}
	c.ready.ControlURL = m.url + "/_control"
	c.control("POST", "/app", app)
}

// startService starts the service with the commands of the systemd unit.
func (m *productionHost) startService() *process {
	m.t.Helper()
	unit, err := os.ReadFile("../../deploy/systemd/tenantry.service")
	must(m.t, err)
	line := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindSubmatch(unit)
		if found == nil {
			m.t.Fatalf("the unit has no %s", name)
		}
		return strings.NewReplacer(m.replacements...).Replace(string(found[1]))
	}
	folder := line("WorkingDirectory")
	m.runBlocks("cd " + folder + "\n" + line("ExecStartPre") + "\ncd " + m.work)
	program, serves := strings.CutSuffix(line("ExecStart"), " serve")
	if !serves {
		m.t.Fatalf("the unit starts %s", program)
	}
	m.binary = programs{filepath.Dir(program), program}
	var p *process
	p, m.server = m.serve(m.environment(), "--config", filepath.Join(folder, "tenantry.yaml"))
	m.replacements = append(m.replacements, "http://127.0.0.1:9090", m.server.ready.AdminURL)
	return p
}

// connectTenant follows the connect link as the customer's administrator. printed is the response
// of the API as the page prints it.
func (m *productionHost) connectTenant(printed string) {
	m.t.Helper()
	var answer object
	if err := json.Unmarshal([]byte(printed), &answer); err != nil {
		m.t.Fatalf("%v: %s", err, printed)
	}
	_, admin := m.newTenant(m.server)
	v := newBrowser(m.t)
	v.client.Transport = withoutProxy(m.server.ready.APIURL)
	signIn := v.open(v.answerConsent(answer.text("connect_url"), admin, "accept"))
	offer := v.open(v.signIn(signIn.location, admin).location)
	if done := v.submit(offer, url.Values{"decision": {"connect"}}); done.status != http.StatusOK {
		m.t.Fatalf("connect: %d %s", done.status, done.text)
	}
}

// withoutProxy sends requests for the public URL directly to the service.
type withoutProxy string

func (b withoutProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.String(), productionURL) {
		to, err := url.Parse(string(b))
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	}
	return http.DefaultTransport.RoundTrip(r)
}
