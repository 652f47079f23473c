// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/apptest"
)

// TestShellsOfferThePluginsOfTheCatalog checks the values that a shell offers for a flag. The
// values of --mail-platform and --provider come from the plugin catalog, those of --limits are
// fixed.
func TestShellsOfferThePluginsOfTheCatalog(t *testing.T) {
	dir := t.TempDir()
	catalogEntry := func(name, kind string) string {
		return `{"name":"` + name + `","kind":"` + kind + `","file":"` + kind + "-" + name + `","sha256":"` + strings.Repeat("a", 64) + `","version":"1"}`
	}
	catalog := `{"plugins":[` + catalogEntry("acme", "mail") + "," + catalogEntry("beta", "mail") + "," + catalogEntry("gamma", "dns") + `]}`
	apptest.Must(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(catalog), 0o600))
	t.Setenv("TENANTRY_PLUGIN_DIR", dir)
	for commandLine, want := range map[string]string{
		"serve --mail-platform ":         "acme beta",
		"doctor --mail-platform ":        "acme beta",
		"dns-connection add --provider ": "gamma",
		"serve --limits ":                "on off",
		"dev --limits ":                  "off",
	} {
		root := Root()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append([]string{"__complete"}, strings.Split(commandLine, " ")...))
		apptest.Must(t, root.Execute())
		offered, _, _ := strings.Cut(out.String(), "\n:") // the last line, such as ":4", tells the shell how to complete
		if got := strings.Join(strings.Fields(offered), " "); got != want {
			t.Errorf("%q offers %q, want %q", commandLine, got, want)
		}
	}
}
