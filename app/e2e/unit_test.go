// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

const unitFile = "../../deploy/systemd/tenantry.service"

// TestUnit: systemd finds nothing wrong with the unit, and next to nothing
// that the service could do and need not. The binary is where the unit says,
// once the test has put its own there.
func TestUnit(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.NewReplacer("/opt/tenantry/current", binary(t, release).folder).Replace(string(raw))
	file := filepath.Join(t.TempDir(), "tenantry.service")
	if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// Of 10 at the worst; in tenths.
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=15", file).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
	wrong := strings.Replace(unit, "ProtectSystem=strict", "ProtectSytem=strict", 1)
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := exec.Command("systemd-analyze", "verify", file).CombinedOutput(); len(out) == 0 {
		t.Error("a misspelt line is not noticed")
	}
}

// usualDrain is how long a stop takes at the most, unless set.
func usualDrain(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(fmt.Sprint(settings.Defaults()["drain_time"]))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestUnitWaits: systemd gives a stop more time than the service takes.
func TestUnitWaits(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindSubmatch(raw)
	if found == nil {
		t.Fatal("the unit says nothing about the stop")
	}
	seconds, _ := strconv.Atoi(string(found[1]))
	if spare := time.Duration(seconds)*time.Second - usualDrain(t); spare < 10*time.Second {
		t.Errorf("after the drain %s are left", spare)
	}
	for line := range strings.Lines(string(raw)) {
		given, ok := strings.CutPrefix(strings.TrimSpace(line), "Exec")
		if _, run, starts := strings.Cut(given, "=/opt/tenantry/current/tenantry "); ok && starts {
			if cmd, _, err := command.Root().Find(strings.Fields(run)); err != nil || cmd.CommandPath() != "tenantry "+run {
				t.Errorf("the unit runs %q, which is no command", run)
			}
		}
	}
}
