// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const repository = "github.com/tenantry/tenantry"

// forAuthors is all of the repository that an author outside imports; conformance is
// for the tests.
var forAuthors = []string{repository + "/plugins/sdk", repository + "/plugins/sdk/simulate", repository + "/plugins/conformance"}

// TestAPluginFromOutside copies sending-emailbison to where nothing of this
// repository is but the SDK's packages, builds it there without a network, runs its
// conformance over the binary, and adds that to a catalog. make test runs its other
// tests in their place.
func TestAPluginFromOutside(t *testing.T) {
	t.Parallel()
	o := newForeign(t, "sending-emailbison")
	o.importsOnlyTheSDK(t)
	binary := filepath.Join(o.home, "sending-emailbison")
	o.run(t, "go", "build", "-o", binary, ".")
	if out := o.run(t, "go", "test", "-count=1", "-v", "-timeout", "5m", "-run", "TestBinary", "."); strings.Contains(out, "--- SKIP") ||
		!strings.Contains(out, "--- PASS: TestBinary/the_contract_of_the_port/") {
		t.Errorf("its conformance did not run:\n%s", out)
	}
	env := []string{"TENANTRY_PLUGIN_DIR=" + t.TempDir()}
	for _, args := range [][]string{{"plugin", "add", binary}, {"plugin", "verify", "emailbison"}} {
		shown := operate(t, env, append(args, "--output", "json")...).json(t).objects("plugins")
		if len(shown) != 1 || shown[0].text("name") != "emailbison" {
			t.Errorf("%v: %v", args, shown)
		}
	}
}

// foreign is a place away from the repository, with the plugin in home.
type foreign struct{ home string }

func newForeign(t *testing.T, plugin string) foreign {
	t.Helper()
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	o, tree := foreign{filepath.Join(t.TempDir(), plugin)}, filepath.Join(t.TempDir(), "tenantry")
	if err := os.CopyFS(o.home, os.DirFS(filepath.Join(here, "plugins", plugin))); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}"}, forAuthors...)...)
	list.Dir = here
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	copyFiles(t, here, tree, "go.mod", "go.sum")
	for pkg := range strings.FieldsSeq(string(out)) {
		folder := strings.TrimPrefix(pkg, repository+"/")
		files, err := os.ReadDir(filepath.Join(here, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !f.IsDir() && !strings.HasSuffix(f.Name(), "_test.go") {
				copyFiles(t, here, tree, filepath.Join(folder, f.Name()))
			}
		}
	}
	if _, err := os.Stat(filepath.Join(tree, "app")); !os.IsNotExist(err) {
		t.Fatalf("the SDK brings the host with it: %v", err)
	}
	o.run(t, "go", "mod", "edit", "-replace", repository+"="+tree)
	return o
}

func copyFiles(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), fs.ModePerm); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a program in the plugin's folder, with no way to any other module.
func (o foreign) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = o.home
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly -buildvcs=false -trimpath", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// importsOnlyTheSDK looks at the code and its tests.
func (o foreign) importsOnlyTheSDK(t *testing.T) {
	t.Helper()
	seen := 0
	out := o.run(t, "go", "list", "-f", `{{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "./...")
	for imp := range strings.FieldsSeq(out) {
		if !strings.HasPrefix(imp, repository+"/") || strings.HasPrefix(imp, repository+"/plugins/sending-emailbison") {
			continue
		}
		if seen++; !slices.Contains(forAuthors, imp) {
			t.Errorf("it imports %s", imp)
		}
	}
	if seen < 3 {
		t.Errorf("only %d imports of the SDK are seen", seen)
	}
}
