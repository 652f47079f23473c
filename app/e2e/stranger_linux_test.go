// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/doctor"
)

// TestTheWrongUser: who runs a command as somebody else than the service is
// told so, and not that the database or the keyset is broken.
func TestTheWrongUser(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	env := []string{"TENANTRY_DATA_DIR=" + data}
	operate(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").json(t)
	operate(t, env, "keyset", "create", "-o", "json").json(t)
	for _, args := range [][]string{{"account", "list"}, {"keyset", "list"}, {"backup", filepath.Join(t.TempDir(), "b")}} {
		o := operateAsStranger(t, data, args...)
		if o.code != cli.ExitRefused || !strings.Contains(o.errors, "as the user of the service") {
			t.Errorf("%v: exit code %d: %s", args, o.code, o.errors)
		}
	}
	var report object
	if err := json.Unmarshal([]byte(operateAsStranger(t, data, "doctor", "-o", "json").output), &report); err != nil {
		t.Fatal(err)
	}
	for _, check := range report.objects("checks") {
		if id := check.text("id"); id == "database" || id == "keyset" {
			sees(t, check, object{"status": doctor.Failed})
			if !strings.Contains(check.text("fix"), "as the user of the service") {
				t.Errorf("%s: %s", id, check.text("fix"))
			}
		}
	}
}

// operateAsStranger runs a command on files that this user may see and not
// read: root becomes another user, anybody else has files of mode 0.
func operateAsStranger(t *testing.T, data string, args ...string) operated {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary(t, release).binary, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "TENANTRY_DATA_DIR=" + data}
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	for _, name := range []string{"tenantry.db", "keyset.json"} {
		if err := os.Chmod(filepath.Join(data, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		enterable(t, data)
		enterable(t, binary(t, release).folder)
	}
	_ = cmd.Run()
	return operated{args, cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// enterable lets every user pass through a folder of the tests.
func enterable(t *testing.T, folder string) {
	t.Helper()
	for ; folder != filepath.Clean(os.TempDir()) && folder != "/"; folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
