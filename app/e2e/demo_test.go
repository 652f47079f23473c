// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDemo: the demo ends by itself, shows each step of the main job with
// request, answer and time, and leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary(t, release).binary, "demo")
	cmd.Dir, cmd.Env = folder, []string{"PATH=/usr/bin:/bin", "HOME=" + folder, "TMPDIR=" + folder}
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	if spent := time.Since(began); soak && spent > 2*time.Minute {
		t.Errorf("it took %v", spent)
	}
	shown := out.String()
	for _, want := range []string{
		"1. Connect", "2. Prepare", "3. Add the domain example-one.test", "4. Publish its DNS records", "5. Provision", "6. List what was made",
		"7. Store the API key", "8. Connect each mailbox", "9. Compare with", "has stored 3 of 3",
		"10. Limit", "11. A mailbox exceeds its limit", "ada@example-one.test: Mailbox blocked: sent 21, limit 20", "enabled true, blocks [ada@example-one.test]",
		"12. The next day", "ada@example-one.test: Mailbox unblocked: sent 0, limit 20", "enabled false, blocks []",
		"the run is completed", "verified true, DKIM healthy, 3 mailboxes",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("the demo does not show %q:\n%s", want, shown)
		}
	}
	if made := regexp.MustCompile(`(?m)^ +created +\S+@example-one\.test`).FindAllString(shown, -1); len(made) != 3 {
		t.Errorf("mailboxes shown: %q", made)
	}
	for _, request := range []string{"connect-url", "/sync", "/domains", "/dns/provision", `/provisioning-runs/\S+`, "/mailboxes",
		"/v1/integrations", "/oauth/microsoft/init", `/oauth/microsoft/status\?session_id=\S+`, "/mailboxes/refresh",
		"/mailbox-limits", `/v1/enforcement/events\?action=unblocked`} {
		if !regexp.MustCompile(`(?m)^ +(GET|POST) +\S*` + request + ` +20[02] +\S+s$`).MatchString(shown) {
			t.Errorf("no request to %s with its answer and time:\n%s", request, shown)
		}
	}
	if errs.Len() > 0 {
		t.Errorf("on standard error: %s", errs.String())
	}
	left, err := exec.CommandContext(t.Context(), "find", folder, "-mindepth", "1").Output()
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %s %v", left, err)
	}
}
