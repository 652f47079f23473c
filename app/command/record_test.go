// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/audit"
)

// fullDisk is a standard output on a disk without space.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestActionsAreRecordedAlthoughTheOutputFails checks that the audit log has each action that a
// command has done, even if the command could not print the result.
func TestActionsAreRecordedAlthoughTheOutputFails(t *testing.T) {
	folder, restored := t.TempDir(), t.TempDir()
	backup := filepath.Join(t.TempDir(), "backup")
	for _, step := range []struct {
		action  audit.Action
		dataDir string
		args    []string
	}{
		{audit.Migrate, folder, []string{"migrate"}},
		{audit.CreateKeyset, folder, []string{"keyset", "create"}},
		{audit.RotateKeyset, folder, []string{"keyset", "rotate"}},
		{audit.Backup, folder, []string{"backup", backup}},
		{audit.Restore, restored, []string{"restore", backup}},
	} {
		dataDir := []string{"--data-dir", step.dataDir}
		var stderr, audited bytes.Buffer
		if code := Run(t.Context(), append(step.args, dataDir...), fullDisk{}, &stderr); code != cli.ExitRefused || !strings.Contains(stderr.String(), syscall.ENOSPC.Error()) {
			t.Errorf("%v: exit code %d, want %d and the error of the output: %s", step.args, code, cli.ExitRefused, stderr.String())
		}
		if code := Run(t.Context(), append([]string{"audit", "list"}, dataDir...), &audited, &stderr); code != 0 || !strings.Contains(audited.String(), string(step.action)) {
			t.Errorf("%v: exit code %d, and the audit log lacks %s:\n%s%s", step.args, code, step.action, audited.String(), stderr.String())
		}
	}
}
