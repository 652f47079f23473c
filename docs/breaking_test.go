// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGuardReportsBreakingChanges checks which changes of the API document the guard of `make
// lint-api` reports as breaking. Each case changes the document in a new repository. The guard
// compares the changed document with the only commit of that repository.
func TestGuardReportsBreakingChanges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, old, replacement, wantReport string }{
		{"no change", "", "", ""},
		{"a member of an answer removed", "        mailbox_count:\n", "        mailboxes_counted:\n", "removed the required property `tenants/items/mailbox_count`"},
		{"a new required member of a body", "account_password", "mailbox_password", "added the new required request property `mailbox_password`"},
		{"the status of a refusal removed", `        "402":`, `        "499":`, "removed the non-success response with the status `402`"},
		{"a successful answer removed", `        "200":`, `        "201":`, "removed the success response with the status `200`"},
		{"a list of values narrowed for requests", "          description: A verified domain of the tenant.\n", "          enum: [one.example]\n", "restricted to a list of enum values"},
		{"a value added to an answer", "            - create_mailboxes\n", "            - create_mailboxes\n            - dance\n", "added the new `dance` enum value"},
		{"a type changed", "        count:\n          description: The number of domains.\n          format: int64\n          type: integer\n", "        count:\n          type: string\n", "changed from `integer/int64` to `string`"},
		{"a path removed", "  /v1/tenants/connect-url:\n", "  /v1/tenants/connect-link:\n", "api path removed"},
		{"an operation renamed", "      operationId: list-tenants\n", "      operationId: tenants\n", "api operation id `list-tenants` removed"},
		{"a member of every refusal removed", "        request_id:\n          description: The value of", "        request:\n          description: The value of", "removed the required property `request_id`"},
		{"a code added to a refusal", "                          - no_api_plan\n", "                          - no_api_plan\n                          - another_code\n", ""},
		{"an extension added", "      operationId: list-tenants\n", "      operationId: list-tenants\n      x-note: no break\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			folder := newRepository(t)
			replaceInDocument(t, folder, tc.old, tc.replacement)
			output, err := runGuard(folder)
			if (err != nil) != (tc.wantReport != "") || !strings.Contains(output, tc.wantReport) {
				t.Errorf("the guard returned %v, want an error only if it must report a change, and the report %q:\n%s", err, tc.wantReport, output)
			}
		})
	}
}

// TestGuardAcceptsAListedBreak checks that the guard accepts a breaking change whose report is in
// accepted.txt, and still reports other changes.
func TestGuardAcceptsAListedBreak(t *testing.T) {
	t.Parallel()
	folder := newRepository(t)
	replaceInDocument(t, folder, `        "402":`, `        "499":`)
	report, err := runGuard(folder)
	if err == nil {
		t.Fatal("the guard accepts the breaking change, want a report")
	}
	accepted := filepath.Join(folder, ".ci", "oasdiff", "accepted.txt")
	if err := os.MkdirAll(filepath.Dir(accepted), 0o755); err != nil {
		t.Fatal(err)
	}
	// The first line has the number of changes, and the last line is a message of the guard itself.
	// The lines between them are the reports of changes.
	lines := strings.Split(strings.TrimSuffix(report, "\n"), "\n")
	if err := os.WriteFile(accepted, []byte("# The reason for the change.\n"+strings.Join(lines[1:len(lines)-1], "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := runGuard(folder); err != nil {
		t.Errorf("the guard reports the accepted change: %s", output)
	}
	replaceInDocument(t, folder, "  /v1/tenants/connect-url:\n", "  /v1/tenants/connect-link:\n")
	if output, err := runGuard(folder); err == nil || !strings.Contains(output, "connect-url") || strings.Contains(output, lines[1]) {
		t.Errorf("after the removal of connect-url: %v, want a report of this removal only:\n%s", err, output)
	}
}

// TestGuardComparesWithTheRightCommit checks with which commit the guard compares the document: on
// main, after a release, with a given base, and on a branch.
func TestGuardComparesWithTheRightCommit(t *testing.T) {
	t.Parallel()
	folder := newRepository(t)
	requireOutcome := func(situation string, wantFailure bool, base ...string) {
		t.Helper()
		if output, err := runGuard(folder, base...); (err != nil) != wantFailure {
			t.Errorf("%s: the guard returned %v, want a failure: %v\n%s", situation, err, wantFailure, output)
		}
	}
	replaceInDocument(t, folder, "  /v1/tenants/connect-url:\n", "  /v1/tenants/connect-link:\n")
	runGit(t, folder, "commit", "-qam", "a break")
	requireOutcome("a breaking commit on main, before the first release", true)
	runGit(t, folder, "commit", "-q", "--allow-empty", "-m", "something else")
	requireOutcome("a further commit on main", true)
	runGit(t, folder, "tag", "v1.0.0")
	requireOutcome("after a release with the breaking change", false)
	requireOutcome("with a base before the breaking change", true, "v1.0.0~2")
	requireOutcome("with a base that does not exist", true, "nowhere")
	runGit(t, folder, "tag", "-d", "v1.0.0")
	runGit(t, folder, "switch", "-qc", "branch")
	replaceInDocument(t, folder, "      operationId: list-tenants\n", "      operationId: list-tenants\n      x-note: no break\n")
	runGit(t, folder, "commit", "-qam", "no break")
	requireOutcome("on a branch that starts after the breaking change", false)
}

// comparedPaths are the paths that the documents of these tests have. A comparison of all paths of
// the API would take seconds.
var comparedPaths = []string{"/v1/tenants", "/v1/tenants/connect-url", "/v1/tenants/{tenant_id}", "/v1/tenants/{tenant_id}/domains", "/v1/tenants/{tenant_id}/mailboxes"}

// partOfDocument returns the API document with comparedPaths and the components that they use, and
// without webhooks.
func partOfDocument(t *testing.T) []byte {
	t.Helper()
	document, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// This loop splits the document into parts: a part for each path, for each component and for
	// each other section.
	var order []string
	parts, section, kind, part := map[string]string{}, "", "", ""
	for line := range strings.Lines(string(document)) {
		name := strings.TrimSuffix(strings.TrimSpace(line), ":")
		switch indent := len(line) - len(strings.TrimLeft(line, " ")); {
		case line == "\n" || indent > 4 || indent > 2 && section != "components" || indent > 0 && section != "components" && section != "paths":
		case indent == 4:
			part = "#/components/" + kind + "/" + name
		case indent == 2:
			kind, part = name, section+" "+name
		default:
			section, part = name, name
		}
		if parts[part] == "" {
			order = append(order, part)
		}
		parts[part] += line
	}
	kept := map[string]bool{}
	for _, part := range order {
		path, isPath := strings.CutPrefix(part, "paths ")
		kept[part] = !strings.HasPrefix(part, "#/components/") && part != "webhooks" && (!isPath || slices.Contains(comparedPaths, path)) ||
			strings.HasPrefix(part, "#/components/securitySchemes/")
	}
	for _, path := range comparedPaths {
		if !kept["paths "+path] {
			t.Fatalf("the document has no %s", path)
		}
	}
	for changed := true; changed; {
		changed = false
		for part := range kept {
			for _, used := range componentReference.FindAllString(parts[part], -1) {
				if kept[part] && !kept[used] {
					kept[used], changed = true, true
				}
			}
		}
	}
	var text strings.Builder
	for _, part := range order {
		if kept[part] {
			text.WriteString(parts[part])
		}
	}
	return []byte(text.String())
}

var componentReference = regexp.MustCompile(`#/components/\w+/[\w-]+`)

// newRepository creates a repository whose only commit has the document of partOfDocument. It
// returns the folder of the repository.
func newRepository(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "docs", "openapi.yaml"), partOfDocument(t), 0o600); err != nil {
		t.Fatal(err)
	}
	runGit(t, folder, "init", "-q", "-b", "main")
	runGit(t, folder, "add", ".")
	runGit(t, folder, "commit", "-qm", "the document")
	return folder
}

func runGit(t *testing.T, folder string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// replaceInDocument replaces every occurrence of old in the document of the repository. It fails
// the test if old does not occur.
func replaceInDocument(t *testing.T, folder, old, replacement string) {
	t.Helper()
	path := filepath.Join(folder, "docs", "openapi.yaml")
	document, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(document), old) {
		t.Fatalf("the document has no %q: %v", old, err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(document), old, replacement)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runGuard runs the guard in folder and returns the output of the guard. base is the revision to
// compare with, or nothing for the default. The error is not nil if the guard fails.
func runGuard(folder string, base ...string) (string, error) {
	script, err := filepath.Abs("../.ci/oasdiff/guard")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(script, base...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	return string(out), err
}
