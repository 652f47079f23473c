// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// templateBugs are bugs in the code of the templates. A bug is the text planted, which replaces the
// text old of a file.
var templateBugs = []struct{ check, template, file, old, planted string }{
	{"mail/domains/unknown", "go-mail", "call.go", `"no_domain":     "domain_not_found",`, ``},
	{"mail/mailboxes/removed", "go-mail", "mailboxes.go", `return t.remove(ctx, "/accounts/"+url.PathEscape(objectID), "no_mailbox")`, `return nil`},
	{"sending/failures/cancelled", "go-sending", "call.go", `http.NewRequestWithContext(ctx,`, `http.NewRequestWithContext(context.WithoutCancel(ctx),`},
	{"sending/list/many", "go-sending", "platform.go", `if list.More {`, `if list.More && list.Page < 0 {`},
}

// TestSuiteFindsBugsOfTemplates builds a template with each planted bug and, against the built
// program, runs the check that must find the bug. The same check must pass for the template without
// the bug.
func TestSuiteFindsBugsOfTemplates(t *testing.T) {
	t.Run("without the bug", func(t *testing.T) {
		for _, bug := range templateBugs {
			t.Run(bug.check, func(t *testing.T) {
				t.Parallel() // the checks mostly wait
				requireStatus(t, testserver.Program(t, "testdata/"+bug.template), bug.check, Passed)
			})
		}
	})
	t.Run("with the bug", func(t *testing.T) {
		oldAbandonTimeout := abandonTimeout
		abandonTimeout = 2 * time.Second // the plugin that ignores a cancelled call makes its check wait
		t.Cleanup(func() { abandonTimeout = oldAbandonTimeout })
		for _, bug := range templateBugs {
			t.Run(bug.check, func(t *testing.T) {
				t.Parallel()
				kind, _, _ := strings.Cut(bug.check, "/")
				requireStatus(t, buildTemplate(t, kind, bug.template, bug.file, bug.old, bug.planted), bug.check, Failed)
			})
		}
	})
}

// requireStatus runs one check over a program and compares the status of its result with want.
func requireStatus(t *testing.T, path, check string, want Status) {
	t.Helper()
	report, err := Test(t.Context(), Options{Path: path, Only: []string{check}})
	if err != nil || len(report.Results) != 1 || report.Results[0].Status != want {
		t.Errorf("%s: the report is %+v, %v, want only the check %s with the status %s", path, report, err, check, want)
	}
}

// buildTemplate builds a template in which one text of a file is replaced, and returns the path of
// the program.
func buildTemplate(t *testing.T, kind, template, file, old, planted string) string {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("..", "template", template, file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil || strings.Count(string(text), old) != 1 {
		t.Fatalf("%s does not have %q once: %v", source, old, err)
	}
	dir := t.TempDir()
	changed, overlay, program := filepath.Join(dir, file), filepath.Join(dir, "overlay.json"), filepath.Join(dir, kind+"-example")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{changed: []byte(strings.Replace(string(text), old, planted, 1)), overlay: replaced} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, ".")
	build.Dir = filepath.Dir(source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}
