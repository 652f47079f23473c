// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeTour runs every sh block of the README's tour, and of what it goes
// on with in docs/limits.md, word for word, in one shell, beside a sandbox
// started as the README says.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	blocks := block.FindAllStringSubmatch(fileText(t, "../../README.md"), -1)
	more := block.FindAllStringSubmatch(fileText(t, "../../docs/limits.md"), -1)
	if len(blocks) < 5 || len(more) < 2 {
		t.Fatalf("the README has %d sh blocks, the page on limits %d", len(blocks), len(more))
	}
	folder := t.TempDir()
	_, ready := startDev(t, binary(t, release), filepath.Join(folder, "tenantry-dev"), nil)
	if err := os.CopyFS(filepath.Join(folder, "docs"), os.DirFS("../../docs")); err != nil {
		t.Fatal(err)
	}
	script := "set -eu\n"
	for _, block := range append(blocks, more...) {
		script += block[1]
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the tour stopped: %v\n%s", err, out)
	}
	for _, want := range []string{`"is_verified":true`, `"dkim_status":"healthy"`, `"created_count":2`, "ada@example-one.test",
		`"is_blocked":true`, "Mailbox blocked: sent 6, limit 5", `"is_blocked":false`, "Mailbox unblocked: sent 0, limit 5"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the tour's output lacks %s:\n%s", want, out)
		}
	}
	c := client{t, ready}
	if got := c.api("GET", "/v1/tenants/"+ready.Tenants[0].TenantID+"/mailboxes", nil); got.text("count") != "2" {
		t.Errorf("after the tour: %s", got.raw)
	}
}
