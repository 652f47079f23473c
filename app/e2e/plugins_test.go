// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/cli"
)

// TestOperatorManagesPlugins adds a plugin to a new folder, damages and removes its file, and adds
// it again.
func TestOperatorManagesPlugins(t *testing.T) {
	t.Parallel()
	bundled := filepath.Join(requirePrograms(t, releaseBuild).folder, "plugins", "mail-microsoft365")
	dir := filepath.Join(t.TempDir(), "plugins")
	env := []string{"TENANTRY_PLUGIN_DIR=" + dir, "TENANTRY_DATA_DIR=" + t.TempDir()}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	runTenantry(t, env, "plugin", "list").checkFailure(t, cli.ExitRefused)
	runTenantry(t, env, "plugin", "verify").checkFailure(t, cli.ExitRefused)
	for _, want := range []string{"added", "unchanged"} {
		got := runTenantry(t, env, "plugin", "add", bundled, "-o", "json").mustJSON(t).objects("plugins")
		if len(got) != 1 || got[0].text("status") != want {
			t.Errorf("plugin add shows %v, want the status %s", got, want)
		}
	}
	actions := runTenantry(t, env, "audit", "list", "-o", "json").mustJSON(t).objects("events")
	if len(actions) != 2 || actions[0].text("action") != "plugin.add" {
		t.Errorf("the audit events are %v, want 2, first plugin.add", actions)
	}
	listed := runTenantry(t, env, "plugin", "list", "-o", "json").mustJSON(t).objects("plugins")
	checkMembers(t, "plugin", listed[0], "name kind version file sha256 title settings status problem")
	checkValues(t, listed[0], object{"name": "microsoft365", "kind": "mail", "file": "mail-microsoft365", "title": "Microsoft 365", "status": "ok", "problem": ""})
	settings := listed[0].objects("settings")
	checkMembers(t, "setting", settings[0], "name secret required default help")
	checkValues(t, settings[0], object{"name": "client_id", "required": true, "secret": false})
	if table := runTenantry(t, env, "plugin", "list"); !strings.Contains(table.stdout, "client_certificate_file") {
		t.Errorf("the table lacks the setting client_certificate_file:\n%s", table.stdout)
	}
	runTenantry(t, env, "plugin", "verify", "microsoft365", "-o", "json").mustJSON(t)
	runTenantry(t, env, "plugin", "verify", "microsoft366").checkFailure(t, cli.ExitNotFound)

	installed := filepath.Join(dir, "mail-microsoft365")
	for _, damage := range []struct {
		wantText string
		apply    func() error
	}{
		{"is not the one in the catalog", func() error { return os.WriteFile(installed, []byte("#!/bin/sh\n"), 0o755) }},
		{"is missing", func() error { return os.Remove(installed) }},
	} {
		must(t, damage.apply())
		got := runTenantry(t, env, "plugin", "verify")
		if got.code != cli.ExitRefused || !strings.Contains(got.stdout, installed) || !strings.Contains(got.stdout, damage.wantText) || got.stderr != "" {
			t.Errorf("plugin verify: exit code %d, want a refusal that says the file %s: %s%s", got.code, damage.wantText, got.stdout, got.stderr)
		}
		if got := runTenantry(t, env, "plugin", "list", "-o", "json").mustJSON(t).objects("plugins"); got[0].text("status") != "failed" {
			t.Errorf("plugin list shows %v, want the status failed", got)
		}
	}
	if got := runTenantry(t, env, "plugin", "add", bundled, "-o", "json").mustJSON(t).objects("plugins"); got[0].text("status") != "replaced" {
		t.Errorf("plugin add shows %v, want the status replaced", got)
	}
	if got := runTenantry(t, env, "plugin", "verify"); got.code != 0 {
		t.Errorf("plugin verify fails after the plugin was added again: %s", got.stdout)
	}
}

// TestServiceFollowsAnUpgradeOfAPlugin upgrades the plugin of the mail platform twice while
// requests use it. The first new version is healthy: it gets the calls, and the old process ends.
// The second new version works when the command checks it, but exits when the service starts it.
// The service therefore keeps the first new version. No request fails.
func TestServiceFollowsAnUpgradeOfAPlugin(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	bundled := filepath.Join(fixture.build.folder, "plugins", "mail-microsoft365")
	env := append(fixture.env(t.TempDir(), ""), "TENANTRY_PLUGIN_DIR="+filepath.Join(t.TempDir(), "plugins"), "TENANTRY_LIMITS=off")
	_, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	fixture.runCommand(env, "plugin", "add", bundled)
	service, server := fixture.serve(env)
	c := caller{client: server, key: key}
	requests := 0
	request := func() {
		t.Helper()
		requests++
		if link := c.expect("GET", "/v1/tenants/connect-url", nil, http.StatusOK, "").text("connect_url"); link == "" {
			t.Fatal("the answer has no connect link")
		}
	}
	request()
	upgrade := func(file, wantText string) {
		t.Helper()
		upgraded := fixture.runCommand(env, "plugin", "upgrade", file).objects("plugins")
		checkValues(t, upgraded[0], object{"name": mailPlatform, "status": "replaced"})
		before := requests
		c.eventually(wantText, func() bool {
			request()
			return strings.Contains(service.logs.String(), wantText)
		})
		request()
		t.Logf("%d requests during the upgrade", requests-before)
	}

	healthy := filepath.Join(t.TempDir(), "mail-microsoft365")
	must(t, os.WriteFile(healthy, []byte(fileText(t, bundled)+"new version"), 0o700)) // the loader ignores bytes after the program
	upgrade(healthy, `"the process of a replaced or removed plugin ended"`)

	// The command `plugin upgrade` starts this version twice. The third start is the service's and
	// fails.
	unhealthy, starts := filepath.Join(t.TempDir(), "mail-microsoft365"), filepath.Join(t.TempDir(), "starts")
	script := "#!/bin/sh\necho start >> " + starts + "\n[ $(wc -l < " + starts + ") -le 2 ] && exec " + bundled + ` "$@"` + "\nexit 3\n"
	must(t, os.WriteFile(unhealthy, []byte(script), 0o700))
	upgrade(unhealthy, `"the new version is not healthy, so the plugin stays as it is"`)
	if n := strings.Count(service.logs.String(), `"msg":"plugin started"`); n != 2 {
		t.Errorf("%d plugin processes were started, want 2:\n%s", n, tail(service.logs.String(), 3000))
	}
}

const repository = "github.com/tenantry/tenantry"

// authorPackages are the packages of the repository that a plugin may import. Only the tests of the
// plugin import conformance.
var authorPackages = []string{repository + "/plugins/sdk", repository + "/plugins/sdk/simulate", repository + "/plugins/conformance"}

// TestPluginBuildsOutsideTheRepository copies sending-emailbison and the packages of the SDK out of
// the repository. It builds the copy without a network, runs its conformance suite over the binary,
// and adds the binary to a catalog. `make test` runs the other tests of the plugin in the
// repository.
func TestPluginBuildsOutsideTheRepository(t *testing.T) {
	t.Parallel()
	module := newOutsideModule(t, "sending-emailbison")
	module.checkImports(t)
	binary := filepath.Join(module.dir, "sending-emailbison")
	module.run(t, "go", "build", "-o", binary, ".")
	if out := module.run(t, "go", "test", "-count=1", "-vet=off", "-v", "-timeout", "5m", "-run", "TestBinary", "."); !strings.Contains(out, "--- PASS: TestBinary/the_contract_of_the_port/") {
		t.Errorf("the conformance suite of the plugin did not run:\n%s", out)
	}
	env := []string{"TENANTRY_PLUGIN_DIR=" + t.TempDir()}
	for _, args := range [][]string{{"plugin", "add", binary}, {"plugin", "verify", "emailbison"}} {
		shown := runTenantry(t, env, append(args, "--output", "json")...).mustJSON(t).objects("plugins")
		if len(shown) != 1 || shown[0].text("name") != "emailbison" {
			t.Errorf("%v shows %v, want only emailbison", args, shown)
		}
	}
}

// outsideModule is the folder of a plugin outside the repository.
type outsideModule struct{ dir string }

// newOutsideModule copies a plugin, and the packages of the SDK, out of the repository.
func newOutsideModule(t *testing.T, plugin string) outsideModule {
	t.Helper()
	root, err := filepath.Abs("../..")
	must(t, err)
	module, sdkCopy := outsideModule{filepath.Join(t.TempDir(), plugin)}, filepath.Join(t.TempDir(), "tenantry")
	must(t, os.CopyFS(module.dir, os.DirFS(filepath.Join(root, "plugins", plugin))))
	listPackages := exec.Command("go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}"}, authorPackages...)...)
	listPackages.Dir = root
	out, err := listPackages.Output()
	must(t, err)
	copyFiles(t, root, sdkCopy, "go.mod", "go.sum")
	for pkg := range strings.FieldsSeq(string(out)) {
		folder := strings.TrimPrefix(pkg, repository+"/")
		files, err := os.ReadDir(filepath.Join(root, folder))
		must(t, err)
		for _, f := range files {
			if !f.IsDir() && !strings.HasSuffix(f.Name(), "_test.go") {
				copyFiles(t, root, sdkCopy, filepath.Join(folder, f.Name()))
			}
		}
	}
	if _, err := os.Stat(filepath.Join(sdkCopy, "app")); !os.IsNotExist(err) {
		t.Fatalf("the SDK depends on package app: %v", err)
	}
	module.run(t, "go", "mod", "edit", "-replace", repository+"="+sdkCopy)
	return module
}

// copyFiles copies files from one folder to another. names are paths in the folder.
func copyFiles(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		target := filepath.Join(to, name)
		must(t, os.MkdirAll(filepath.Dir(target), fs.ModePerm))
		must(t, os.WriteFile(target, []byte(fileText(t, filepath.Join(from, name))), 0o600))
	}
}

// run runs a program in the plugin's folder. Go commands cannot download modules.
func (o outsideModule) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = o.dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly -buildvcs=false -trimpath -ldflags=-s", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the program %v fails: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// checkImports checks that the code and its tests import no package of the repository besides
// authorPackages and the plugin's own.
func (o outsideModule) checkImports(t *testing.T) {
	t.Helper()
	sdkImports := 0
	out := o.run(t, "go", "list", "-f", `{{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "./...")
	for imp := range strings.FieldsSeq(out) {
		if !strings.HasPrefix(imp, repository+"/") || strings.HasPrefix(imp, repository+"/plugins/sending-emailbison") {
			continue
		}
		if sdkImports++; !slices.Contains(authorPackages, imp) {
			t.Errorf("the plugin imports %s, which is not for plugin authors", imp)
		}
	}
	if sdkImports < 3 {
		t.Errorf("only %d imports of the SDK were found, want at least 3", sdkImports)
	}
}
