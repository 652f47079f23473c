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

// verifyOutput runs `audit verify` and returns its output and its error.
func verifyOutput(t *testing.T, args ...string) (string, error) {
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

func TestAuditVerifyProvesAFile(t *testing.T) {
	var lines []string
	last := audit.Entry{Hash: audit.Anchor}
	for range 3 {
		next, err := audit.Entry{ID: "id", Actor: audit.Actor{Type: audit.Key}, Action: "add-domain", Outcome: audit.Succeeded}.Link(last.Sequence, last.Hash)
		apptest.Must(t, err)
		line, err := next.Line()
		apptest.Must(t, err)
		lines, last = append(lines, string(line)+"\n"), next
	}
	export := strings.Join(lines, "")
	for _, tt := range []struct {
		name, content string
		flags         []string
		wantExit      int
		wantText      string
	}{
		{"an unchanged export", export, nil, 0, last.Hash},
		{"the last hash of the export", export, []string{"--last-hash", last.Hash}, 0, last.Hash},
		{"a missing last entry", lines[0] + lines[1], []string{"--last-hash", last.Hash}, cli.ExitRefused, "the last entry of "},
		{"a changed entry", strings.Replace(export, "add-domain", "get-domain", 1), nil, cli.ExitRefused, "line 1: hash is not the hash of the entry"},
		{"a missing entry", lines[0] + lines[2], nil, cli.ExitRefused, "line 2: the entry 3 follows the entry 1"},
		{"an empty file", "", nil, cli.ExitRefused, " has no entries"},
	} {
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		apptest.Must(t, os.WriteFile(file, []byte(tt.content), 0o600))
		out, err := verifyOutput(t, append(tt.flags, file)...)
		if err != nil {
			out += err.Error()
		}
		if cli.ExitCode(err) != tt.wantExit || !strings.Contains(out, tt.wantText) {
			t.Errorf("%s: exit code %d, want %d\n%s", tt.name, cli.ExitCode(err), tt.wantExit, out)
		}
	}
	if _, err := verifyOutput(t, filepath.Join(t.TempDir(), "missing")); cli.ExitCode(err) != cli.ExitExternal {
		t.Errorf("a missing file: %v, want an error with the exit code 4", err)
	}
}
