// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/audit"
)

// runAuditVerify runs `audit verify` and returns its output and its error.
func runAuditVerify(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := auditVerifyCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestAuditVerifyFindsChangesOfAFile(t *testing.T) {
	var lines []string
	lastEntry := audit.Entry{Hash: audit.Anchor}
	for range 3 {
		entry, err := audit.Entry{ID: "id", Actor: audit.Actor{Type: audit.Key}, Action: "add-domain", Outcome: audit.Succeeded}.Link(lastEntry.Sequence, lastEntry.Hash)
		apptest.Must(t, err)
		line, err := entry.Line()
		apptest.Must(t, err)
		lines, lastEntry = append(lines, string(line)+"\n"), entry
	}
	export := strings.Join(lines, "")
	for _, tc := range []struct {
		name, content string
		flags         []string
		wantExit      int
		wantText      string
	}{
		{"an unchanged export", export, nil, 0, lastEntry.Hash},
		{"the last hash of the export", export, []string{"--last-hash", lastEntry.Hash}, 0, lastEntry.Hash},
		{"a missing last entry", lines[0] + lines[1], []string{"--last-hash", lastEntry.Hash}, cli.ExitRefused, "the last entry of "},
		{"a changed entry", strings.Replace(export, "add-domain", "get-domain", 1), nil, cli.ExitRefused, "line 1: hash is not the hash of the entry"},
		{"a missing entry", lines[0] + lines[2], nil, cli.ExitRefused, "line 2: the entry 3 follows the entry 1"},
		{"an empty file", "", nil, cli.ExitRefused, " has no entries"},
	} {
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		apptest.Must(t, os.WriteFile(file, []byte(tc.content), 0o600))
		out, err := runAuditVerify(t, append(tc.flags, file)...)
		if err != nil {
			out += err.Error()
		}
		if cli.ExitCode(err) != tc.wantExit || !strings.Contains(out, tc.wantText) {
			t.Errorf("%s: got the exit code %d, want %d with %q in\n%s", tc.name, cli.ExitCode(err), tc.wantExit, tc.wantText, out)
		}
	}
	if _, err := runAuditVerify(t, filepath.Join(t.TempDir(), "missing")); cli.ExitCode(err) != cli.ExitExternal {
		t.Errorf("a missing file: got %v, want an error with the exit code %d", err, cli.ExitExternal)
	}
}
