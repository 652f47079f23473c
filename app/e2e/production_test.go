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

// TestProductionPageWorks runs the sh blocks of docs/production.md. It does not run the console
// blocks.
func TestProductionPageWorks(t *testing.T) {
	t.Parallel()
	steps := productionSteps(t)
	host := newProductionHost(t)
	host.setUp(steps)
	service := host.startService()
	host.runBlocks(steps[7]...)
	host.replacements = append(host.replacements, "$PUBLIC_URL/v1", host.server.ready.APIURL+"/v1")
	host.connectTenant(host.runBlocks(steps[9][0]))
	if out := host.runBlocks(steps[9][1:]...); !strings.Contains(out, `"status":"completed"`) || !strings.Contains(out, `"next_step":"add_domain"`) {
		t.Errorf("the sync of the first tenant is not complete, or its next step is not add_domain: %s", out)
	}
	if out := host.runBlocks(steps[10]...); !strings.Contains(out, "you@example.com") {
		t.Errorf("the rehearsal has no account: %s", out)
	}
	host.runBlocks(steps[11][0])
	host.uploadRegistration(false)
	host.runBlocks(steps[11][1:]...)
	host.runBlocks(`curl -sS --fail -X POST -H "Authorization: Bearer $KEY" -H "Idempotency-Key: second" "$PUBLIC_URL/v1/tenants/$TENANT/sync"`)
	if !strings.Contains(service.logs.String(), "credential reloaded") {
		t.Error("the service did not load the new certificate")
	}
	host.runBlocks(steps[12]...)
	host.checkMode("opt/current/tenantry", 0o755)
	host.checkMode("opt/current/plugins/catalog.json", 0o644)
	if out := host.runBlocks(steps[13]...); !strings.Contains(out, "added") {
		t.Errorf("the plugin of another author is not added: %s", out)
	}
	if to, err := os.Readlink(host.root + "/opt/current"); err != nil || to != "0.2.0" {
		t.Errorf("current is %s, want 0.2.0 (%v)", to, err)
	}
}

// setUp follows the page up to the first start.
func (h *productionHost) setUp(steps map[int][]string) {
	h.t.Helper()
	h.runBlocks(steps[2]...)
	if strings.Contains(steps[2][1], "cd ") {
		h.t.Error("the script enters the folder of the settings without sudo, but only the group of the service may enter it")
	}
	if out := h.runBlocks(steps[3]...); strings.Contains(out, "PRIVATE KEY") {
		h.t.Error("the page prints the private key")
	}
	h.checkMode("etc/microsoft365.pem", 0o640)
	h.runBlocks(steps[4]...)
	h.uploadRegistration(true)
	if out := h.runBlocks(steps[5]...); !strings.Contains(out, h.settings["client_id"]) || !regexp.MustCompile(`(?m)^public_url +https://tenantry.example +file`).MatchString(out) {
		h.t.Errorf("config lacks the client id, or the public URL from the file: %s", out)
	}
	if out := h.runBlocks(steps[6]...); strings.Contains(out, "failed") {
		h.t.Errorf("doctor reports a failed check: %s", out)
	}
	h.checkMode("state/keyset.json", 0o600)
}

var (
	stepHead = regexp.MustCompile(`(?m)^## .*$`)
	shBlock  = regexp.MustCompile("(?s)```sh\n(.*?)```")
)

// productionSteps returns the sh blocks of the page by the position of their section, which is the
// number of the step. All blocks must belong to a section.
func productionSteps(t *testing.T) map[int][]string {
	t.Helper()
	page, steps, found := fileText(t, "../../docs/production.md"), map[int][]string{}, 0
	heads := stepHead.FindAllStringIndex(page, -1)
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
	if want := len(shBlock.FindAllString(page, -1)); found != want || found < 15 || len(steps) != 11 {
		t.Fatalf("%d of %d blocks are in %d steps, want all of at least 15 blocks, in 11 steps", found, want, len(steps))
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
	"chown":   `:`,
	"install": `n=$#; while [ $n -gt 0 ]; do case $1 in -o|-g) shift 2; n=$((n-2)) ;; *) set -- "$@" "$1"; shift; n=$((n-1)) ;; esac; done; exec /usr/bin/install "$@"`,
}

// newProductionHost prepares the folders and programs that the page expects.
func newProductionHost(t *testing.T) *productionHost {
	t.Helper()
	host := &productionHost{serviceFixture: newServiceFixture(t, requirePrograms(t, releaseBuild)), root: t.TempDir(), work: t.TempDir()}
	must(t, host.zones.Add("tenantry.example", "manual"))
	must(t, host.zones.Replace("tenantry.example", []zones.Record{{Type: "A", Name: "tenantry.example", Content: "203.0.113.7", TTL: 300}}))
	repository, err := filepath.Abs("../..")
	must(t, err)
	bin, built := filepath.Join(host.root, "bin"), filepath.Join(host.work, "bin")
	for _, err := range []error{
		os.Mkdir(bin, 0o755), os.Mkdir(filepath.Join(host.root, "opt"), 0o755),
		os.Mkdir(built, 0o755), os.Symlink(host.build.binary, filepath.Join(built, "tenantry")),
		os.Symlink(strings.TrimPrefix(onePluginPerKindEnv(t), allPlugins), filepath.Join(built, "plugins")), os.Symlink(filepath.Join(repository, "deploy"), filepath.Join(host.work, "deploy")),
	} {
		must(t, err)
	}
	for name, script := range standInPrograms {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	host.replacements = []string{
		"/opt/tenantry", host.root + "/opt", "/etc/tenantry", host.root + "/etc", "/var/lib/tenantry", host.root + "/state",
		"/usr/local/bin", bin, "postgres:///tenantry?host=/var/run/postgresql", testserver.Database(t), "cp -R bin ", "cp -RL bin ",
		"/srv/dns-acme", testserver.Program(t, "testdata/go-dns"),
	}
	return host
}

// environment returns environment variables for the shell blocks and the service. The TENANTRY_
// variables replace settings of the documented server: the addresses of Microsoft 365 and DNS, and
// the ports.
func (h *productionHost) environment() []string {
	env := append([]string{
		"PATH=" + h.root + "/bin:" + os.Getenv("PATH"), "HOME=" + h.root, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0",
		"CLIENT_ID=" + h.settings["client_id"], "HOME_TENANT=organizations",
	}, h.extraEnv...)
	for name, value := range h.settings {
		if strings.HasSuffix(name, "_url") || strings.HasSuffix(name, "_scope") {
			env = append(env, "TENANTRY_PROVIDERS_MICROSOFT365_"+strings.ToUpper(name)+"="+value)
		}
	}
	return env
}

// runBlocks runs shell blocks of the page in the state that the previous blocks left, and returns
// their output.
func (h *productionHost) runBlocks(blocks ...string) string {
	h.t.Helper()
	text := strings.NewReplacer(h.replacements...).Replace(strings.Join(blocks, "\n"))
	state := filepath.Join(h.work, ".shell")
	cmd := exec.Command("bash", "-c", "set -eu -o pipefail\n[ ! -e .shell ] || . ./.shell\n"+text+"\n{ declare -p RELEASE PUBLIC_URL KEY TENANT 2>/dev/null || :; } > "+state)
	cmd.Dir, cmd.Env = h.work, h.environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("the script of the page failed: %v\n%s\n%s", err, text, out)
	}
	return string(out)
}

func (h *productionHost) checkMode(name string, want os.FileMode) {
	h.t.Helper()
	if info, err := os.Stat(filepath.Join(h.root, name)); err != nil || info.Mode().Perm() != want {
		h.t.Errorf("%s: the file is %v, want the mode %v (%v)", name, info, want, err)
	}
}

// uploadRegistration does what `az` does on the page: it uploads the certificate and, if
// withRedirects is set, the redirect URIs of the generated manifest.
func (h *productionHost) uploadRegistration(withRedirects bool) {
	h.t.Helper()
	app := object{"certificate": fileText(h.t, filepath.Join(h.work, "certificate.pem"))}
	if withRedirects {
		var registration manifest
		must(h.t, json.Unmarshal([]byte(fileText(h.t, filepath.Join(h.work, "app.json"))), &registration))
		app["redirect_uris"] = registration.Web.RedirectURIs
	}
	c := client{t: h.t}
	c.ready.ControlURL = h.url + "/_control"
	c.control("POST", "/app", app)
}

// startService starts the service with the commands of the systemd unit.
func (h *productionHost) startService() *process {
	h.t.Helper()
	unit := fileText(h.t, "../../deploy/systemd/tenantry.service")
	unitSetting := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindStringSubmatch(unit)
		if found == nil {
			h.t.Fatalf("the unit has no %s", name)
		}
		return strings.NewReplacer(h.replacements...).Replace(found[1])
	}
	folder := unitSetting("WorkingDirectory")
	h.runBlocks("cd " + folder + "\n" + unitSetting("ExecStartPre") + "\ncd " + h.work)
	program, serves := strings.CutSuffix(unitSetting("ExecStart"), " serve")
	if !serves {
		h.t.Fatalf("the unit starts %s, want the command serve", program)
	}
	h.build = programs{filepath.Dir(program), program}
	var p *process
	p, h.server = h.serve(h.environment(), "--config", filepath.Join(folder, "tenantry.yaml"))
	h.replacements = append(h.replacements, "http://127.0.0.1:9090", h.server.ready.AdminURL)
	return p
}

// connectTenant follows the connect link as the customer's administrator. printed is the response
// with the link, as the shell block printed it.
func (h *productionHost) connectTenant(printed string) {
	h.t.Helper()
	var answer object
	if err := json.Unmarshal([]byte(printed), &answer); err != nil {
		h.t.Fatalf("the shell block did not print JSON: %v: %s", err, printed)
	}
	_, admin := h.newTenant(h.server)
	b := newBrowser(h.t)
	b.client.Transport = withoutProxy(h.server.ready.APIURL)
	signIn := b.open(b.answerConsent(answer.text("connect_url"), admin, "accept"))
	confirmation := b.open(b.signIn(signIn.location, admin).location)
	if result := b.submit(confirmation, url.Values{"decision": {"connect"}}); result.status != http.StatusOK {
		h.t.Fatalf("the confirmation is answered %d %s, want 200", result.status, result.text)
	}
}

// withoutProxy is the URL of the service. As a transport it sends requests for the public URL
// directly to the service.
type withoutProxy string

func (serviceURL withoutProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.String(), productionURL) {
		to, err := url.Parse(string(serviceURL))
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	}
	return http.DefaultTransport.RoundTrip(r)
}
