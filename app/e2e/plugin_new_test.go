// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/plugins/template"
)

// newPlugin writes a plugin in Go with `tenantry plugin new` and builds its program, without
// downloads. It returns the folder of the plugin and the path of the program.
func newPlugin(t *testing.T, kind, name string) (outsideModule, string) {
	t.Helper()
	source, err := filepath.Abs("../..")
	must(t, err)
	written := runTenantry(t, nil, "plugin", "new", kind, name, "--source", source, "--module", "plugins.acme.example/"+kind, "-o", "json").mustJSON(t)
	checkMembers(t, "the written plugin", written, "kind name language folder module files")
	module, program := outsideModule{written.text("folder")}, filepath.Join(written.text("folder"), kind+"-"+name)
	module.run(t, "go", "build", "-o", program, ".")
	return module, program
}

// TestNewPluginsWork writes a plugin. The unedited plugin is formatted. It passes its own tests,
// which run the conformance suite over its program, and can be added, upgraded and removed. A soak
// tests each kind of plugin. Other runs test one kind, because the tests of plugins/template test
// all templates.
func TestNewPluginsWork(t *testing.T) {
	t.Parallel()
	for _, kind := range soak.Sample(t, template.Kinds, 1) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			module, program := newPlugin(t, kind, "acme")
			if unformatted := module.run(t, "gofmt", "-l", "."); unformatted != "" {
				t.Errorf("gofmt would change the files %s", unformatted)
			}
			module.run(t, "go", "vet", "./...")
			if out := module.run(t, "go", "test", "-count=1", "-v", "-vet=off", "./..."); strings.Contains(out, "--- SKIP") || !strings.Contains(out, "--- PASS: TestBinary/") {
				t.Errorf("tests of the plugin were skipped, or TestBinary did not run:\n%s", out)
			}
			env := []string{"TENANTRY_PLUGIN_DIR=" + t.TempDir(), "TENANTRY_DATA_DIR=" + t.TempDir()}
			runTenantry(t, env, "plugin", "upgrade", program).checkFailure(t, cli.ExitNotFound)
			added := runTenantry(t, env, "plugin", "add", program, "-o", "json").mustJSON(t).objects("plugins")[0]
			checkMembers(t, "the added plugin", added, "name kind version file sha256 status previous_version title capabilities settings account_settings reaches")
			checkValues(t, added, object{"name": "acme", "kind": kind, "status": "added", "title": "Acme", "previous_version": nil})
			if reaches := fmt.Sprint(added["reaches"]); !strings.Contains(reaches, "api.example.com") {
				t.Errorf("the plugin may reach %s, want api.example.com", reaches)
			}
			runTenantry(t, env, "plugin", "verify", "acme", "-o", "json").mustJSON(t)
			buildNewVersion(t, module, program)
			upgraded := runTenantry(t, env, "plugin", "upgrade", program, "-o", "json").mustJSON(t).objects("plugins")[0]
			checkValues(t, upgraded, object{"name": "acme", "status": "replaced", "previous_version": "0.1.0", "version": "0.2.0"})
			removed := runTenantry(t, env, "plugin", "remove", "acme", "-o", "json").mustJSON(t).objects("plugins")[0]
			checkValues(t, removed, object{"name": "acme", "status": "removed", "version": "0.2.0"})
			runTenantry(t, env, "plugin", "remove", "acme").checkFailure(t, cli.ExitNotFound)
		})
	}
}

// buildNewVersion builds the program of a plugin with the version 0.2.0.
func buildNewVersion(t *testing.T, module outsideModule, program string) {
	t.Helper()
	editVersion(t, filepath.Join(module.dir, "describe.go"))
	module.run(t, "go", "build", "-o", program, ".")
}

func editVersion(t *testing.T, path string) {
	t.Helper()
	text := fileText(t, path)
	changed := strings.Replace(text, "0.1.0", "0.2.0", 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil || changed == text {
		t.Fatalf("the version in %s was not changed (%v)", path, err)
	}
}

// pluginInDevelopment is a plugin of `tenantry plugin new`, and the command that builds it.
type pluginInDevelopment struct {
	module outsideModule
	build  []string
	// versionFile is the file with the version of the plugin.
	versionFile string
}

// newPluginInDevelopment writes a plugin in the given language and builds it.
func newPluginInDevelopment(t *testing.T, kind, name, language string) pluginInDevelopment {
	t.Helper()
	if language == template.DefaultLanguage {
		module, program := newPlugin(t, kind, name)
		return pluginInDevelopment{module, []string{"go", "build", "-o", program, "."}, "describe.go"}
	}
	written := runTenantry(t, nil, "plugin", "new", kind, name, "--language", language, "-o", "json").mustJSON(t)
	p := pluginInDevelopment{module: outsideModule{written.text("folder")}, versionFile: "provider.py"}
	if language == "node" { // copies the packages, because npm ci would download them
		const packages = "node_modules"
		p.versionFile = "provider.js"
		must(t, os.CopyFS(filepath.Join(p.module.dir, packages), os.DirFS(filepath.Join("..", "..", "plugins", "template", "node", packages))))
	}
	_, rest, _ := strings.Cut(fileText(t, filepath.Join(p.module.dir, "README.md")), "\ntenantry plugin manifest ")
	manifest, _, _ := strings.Cut(rest, "\n")
	p.build = []string{"sh", "-c", requirePrograms(t, releaseBuild).binary + " plugin manifest " + manifest}
	p.module.run(t, p.build[0], p.build[1:]...)
	return p
}

// upgrade builds the plugin with the version 0.2.0, and waits until the sandbox uses it.
func (p pluginInDevelopment) upgrade(c caller, sandbox *process) {
	c.t.Helper()
	editVersion(c.t, filepath.Join(p.module.dir, p.versionFile))
	p.module.run(c.t, p.build[0], p.build[1:]...)
	c.eventually("the sandbox uses the rebuilt plugin", func() bool { return strings.Contains(sandbox.logs.String(), `"the rebuilt plugin is used"`) })
	if !strings.Contains(sandbox.logs.String(), `"version":"0.2.0"`) {
		c.t.Errorf("the log does not name the new version:\n%s", tail(sandbox.logs.String(), 3000))
	}
}

// TestPluginUnderDevelopmentRunsInTheSandbox writes a DNS plugin in each language and starts the
// sandbox with it. The plugin provisions a domain. After the plugin is built again, the running
// sandbox uses the new program with the same zones.
func TestPluginUnderDevelopmentRunsInTheSandbox(t *testing.T) {
	t.Parallel()
	for _, language := range template.Languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			plugin := newPluginInDevelopment(t, "dns", "acme", language)
			sandbox, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), nil, "--plugin", plugin.module.dir)
			t.Logf("%s from `plugin new` to the ready line of the sandbox", time.Since(start).Round(time.Millisecond))
			c := seededAccount(t, ready)
			tenant := c.newConnectedTenant(nil)
			tenant.provisionAt("acme", "acme-one.test")
			plugin.upgrade(c, sandbox)
			tenant.checkZoneRecords("acme-one.test")
			tenant.provisionAt("acme", "acme-two.test")
		})
	}
}

// provisionAt adds a domain, provisions its DNS, and checks that the plugin of this provider wrote
// the records.
func (tenant accountTenant) provisionAt(provider, zone string) {
	tenant.t.Helper()
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	started := tenant.expect("POST", "/v1/domains/"+tenant.domainNamed(zone).text("id")+"/dns/provision", nil, http.StatusAccepted, "")
	ended := tenant.waitForRun(fmt.Sprint(started.valueAt("run.id")))
	if job := ended.objects("jobs")[0]; job.text("status") != "completed" || job.text("provider") != provider {
		tenant.t.Fatalf("the run ended as %s, want its job completed by the plugin", ended.raw)
	}
	tenant.checkProvisioned(zone)
}

// TestSendingPluginUnderDevelopmentRunsInTheSandbox writes a sending plugin in each language and
// starts the sandbox with it. A mailbox is connected at the platform of the plugin. After the
// plugin is built again, the platform still has the mailbox, and the mailbox can be disconnected.
func TestSendingPluginUnderDevelopmentRunsInTheSandbox(t *testing.T) {
	t.Parallel()
	for _, language := range template.Languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			plugin := newPluginInDevelopment(t, "sending", "acme", language)
			sandbox, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), nil, "--plugin", plugin.module.dir)
			c := seededAccount(t, ready)
			integration := c.newMailboxTenant("anna").addIntegration("acme")
			integration.connectMailbox(0)
			integration.checkConnection(0, "connected")
			plugin.upgrade(c, sandbox)
			if !integration.hasAccount(0) {
				t.Error("the platform of the plugin has no account of the mailbox")
			}
			integration.expect("DELETE", integration.mailboxPath(0, ""), nil, http.StatusOK, "")
			if integration.hasAccount(0) {
				t.Error("the platform of the plugin still has the account")
			}
		})
	}
}

func TestDevRefusesAPluginWithoutAProgram(t *testing.T) {
	t.Parallel()
	got := runTenantry(t, nil, "dev", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--plugin", t.TempDir())
	if got.code == 0 || !strings.Contains(got.stderr, "there is no program") || !strings.Contains(got.stderr, "go build") {
		t.Errorf("exit code %d, want an error that names the missing program and go build: %s", got.code, got.stderr)
	}
}
