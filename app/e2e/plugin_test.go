// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/cli"
)

// TestOperatorsPlugins adds the built plugin to a folder of its own, and
// spoils it.
func TestOperatorsPlugins(t *testing.T) {
	t.Parallel()
	bundled := filepath.Join(binary(t, release).folder, "plugins", "mail-microsoft365")
	dir := filepath.Join(t.TempDir(), "plugins")
	env := []string{"TENANTRY_PLUGIN_DIR=" + dir, "TENANTRY_DATA_DIR=" + t.TempDir()}
	operate(t, env, "migrate", "-o", "json").json(t)
	operate(t, env, "plugin", "list").fails(t, cli.ExitRefused)
	operate(t, env, "plugin", "verify").fails(t, cli.ExitRefused)
	for _, want := range []string{"added", "unchanged"} {
		got := operate(t, env, "plugin", "add", bundled, "-o", "json").json(t).objects("plugins")
		if len(got) != 1 || got[0].text("status") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	acts := operate(t, env, "audit", "list", "-o", "json").json(t).objects("events")
	if len(acts) != 2 || acts[0].text("action") != "plugin.add" {
		t.Errorf("recorded: %v", acts)
	}
	all := operate(t, env, "plugin", "list", "-o", "json").json(t).objects("plugins")
	has(t, "plugin", all[0], "name kind version file sha256 title settings status problem")
	sees(t, all[0], object{"name": "microsoft365", "kind": "mail", "file": "mail-microsoft365", "title": "Microsoft 365", "status": "ok", "problem": ""})
	settings := all[0].objects("settings")
	has(t, "setting", settings[0], "name secret required default help")
	sees(t, settings[0], object{"name": "client_id", "required": true, "secret": false})
	if table := operate(t, env, "plugin", "list"); !strings.Contains(table.output, "client_certificate_file") {
		t.Errorf("the table does not say what it needs:\n%s", table.output)
	}
	operate(t, env, "plugin", "verify", "microsoft365", "-o", "json").json(t)
	operate(t, env, "plugin", "verify", "microsoft366").fails(t, cli.ExitNotFound)

	own := filepath.Join(dir, "mail-microsoft365")
	for _, spoilt := range []struct {
		says string
		by   func() error
	}{
		{"is not the one in the catalog", func() error { return os.WriteFile(own, []byte("#!/bin/sh\n"), 0o755) }},
		{"is missing", func() error { return os.Remove(own) }},
	} {
		if err := spoilt.by(); err != nil {
			t.Fatal(err)
		}
		got := operate(t, env, "plugin", "verify")
		if got.code != cli.ExitRefused || !strings.Contains(got.output, own) || !strings.Contains(got.output, spoilt.says) || got.errors != "" {
			t.Errorf("exit code %d: %s%s", got.code, got.output, got.errors)
		}
		if got := operate(t, env, "plugin", "list", "-o", "json").json(t).objects("plugins"); got[0].text("status") != "failed" {
			t.Errorf("list: %v", got)
		}
	}
	if got := operate(t, env, "plugin", "add", bundled, "-o", "json").json(t).objects("plugins"); got[0].text("status") != "replaced" {
		t.Errorf("put back: %v", got)
	}
	if got := operate(t, env, "plugin", "verify"); got.code != 0 {
		t.Errorf("after it was put back: %s", got.output)
	}
}
