// SPDX-License-Identifier: Apache-2.0

package deploy

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

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

const unitFile = "systemd/tenantry.service"

// TestSystemdUnitIsValid checks that systemd-analyze finds no error in the unit, and rates its
// exposure at most 1.5. The test replaces the folder of the program in the unit by a folder that
// exists. It also checks that systemd-analyze reports a misspelt directive.
func TestSystemdUnitIsValid(t *testing.T) {
	t.Parallel()
	unit := strings.ReplaceAll(fileText(t, unitFile), "/opt/tenantry/current", filepath.Dir(testserver.Program(t, "release/tenantry")))
	file := filepath.Join(t.TempDir(), "tenantry.service")
	if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The threshold is in tenths: 15 means 1.5. An exposure of 10 is the worst.
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=15", file).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
	misspelt := strings.Replace(unit, "ProtectSystem=strict", "ProtectSytem=strict", 1)
	if err := os.WriteFile(file, []byte(misspelt), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := exec.Command("systemd-analyze", "verify", file).CombinedOutput(); len(out) == 0 {
		t.Error("systemd-analyze verify reports nothing, want the misspelt directive")
	}
}

// TestSystemdUnitLimitsAllPluginsTogether checks that the unit leaves memory to the system, and
// lets the service continue if the kernel ends one of its processes. The unit must allow at least
// three times as many processes as one plugin may start, so that two plugins cannot use up all
// processes.
func TestSystemdUnitLimitsAllPluginsTogether(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`(?m)^MemoryHigh=(\d+)%\nMemoryMax=(\d+)%\nOOMPolicy=continue\nTasksMax=(\d+)$`).FindStringSubmatch(fileText(t, unitFile))
	if found == nil {
		t.Fatal("the unit lacks the lines MemoryHigh, MemoryMax, OOMPolicy=continue and TasksMax, one after the other")
	}
	var limits [3]int
	for i := range limits {
		limits[i], _ = strconv.Atoi(found[i+1])
	}
	if high, maximum := limits[0], limits[1]; high >= maximum || maximum > 90 {
		t.Errorf("MemoryHigh is %d%% and MemoryMax %d%%, want MemoryHigh below MemoryMax, and at most 90%%", high, maximum)
	}
	processes, err := strconv.Atoi(fmt.Sprint(settings.Defaults()["plugin_processes"]))
	if err != nil || limits[2] < 3*processes {
		t.Errorf("the unit allows %d tasks, want at least three times the %d processes of one plugin, %v", limits[2], processes, err)
	}
}

// TestSystemdUnitWaitsForTheDrain checks that systemd waits at least 10 s longer for a stop than
// drain_time, and that the unit runs existing commands.
func TestSystemdUnitWaitsForTheDrain(t *testing.T) {
	t.Parallel()
	unit := fileText(t, unitFile)
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(unit)
	if found == nil {
		t.Fatal("the unit has no TimeoutStopSec")
	}
	seconds, _ := strconv.Atoi(found[1])
	if spare := time.Duration(seconds)*time.Second - defaultDrainTime(t); spare < 10*time.Second {
		t.Errorf("TimeoutStopSec is %s longer than drain_time, want at least 10s", spare)
	}
	commands := 0
	for line := range strings.Lines(unit) {
		directive, isExec := strings.CutPrefix(strings.TrimSpace(line), "Exec")
		if _, subcommand, found := strings.Cut(directive, "=/opt/tenantry/current/tenantry "); isExec && found {
			commands++
			if cmd, _, err := command.Root().Find(strings.Fields(subcommand)); err != nil || cmd.CommandPath() != "tenantry "+subcommand {
				t.Errorf("the unit runs %q, which is not a command", subcommand)
			}
		}
	}
	if commands != 2 {
		t.Errorf("the unit runs %d commands, want migrate and serve", commands)
	}
}
