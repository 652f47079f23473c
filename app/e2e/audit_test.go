// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/cli"
)

// TestAuditList: who did what and when, newest first, and no secret in it.
func TestAuditList(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir(), "SUDO_USER=ann"}
	began := time.Now().UTC().Format(time.RFC3339)
	id := operate(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").json(t).text("account_id")
	key := operate(t, env, "key", "create", "--account", id, "--name", "two words", "--operator", "deploy bot", "-o", "json").json(t)
	operate(t, env, "account", "create", "--email", "ann@example.com").fails(t, cli.ExitRefused) // no act
	operate(t, env, "account", "list", "-o", "json").json(t)                                     // nor this

	raw := operate(t, env, "audit", "list", "-o", "json")
	listed := raw.json(t)
	has(t, "audit", listed, "events count")
	events := listed.objects("events")
	if listed.at("count") != 2.0 || len(events) != 2 {
		t.Fatalf("got %v", listed)
	}
	for _, e := range events {
		has(t, "event", e, "event_id operator action account_id details created_at")
		if at := e.text("created_at"); at < began || at > time.Now().UTC().Format(time.RFC3339) {
			t.Errorf("at %s", at)
		}
	}
	sees(t, events[0], object{"operator": "deploy bot", "action": "key.create", "account_id": id, "details.key_id": key["key_id"], "details.name": "two words"})
	sees(t, events[1], object{"action": "account.create", "account_id": id, "details.email": "ann@example.com", "details.plan": "complete"})
	host, err := os.Hostname()
	if err != nil || events[1].text("operator") != "ann@"+host {
		t.Errorf("the operator is %q (%v)", events[1].text("operator"), err)
	}
	table := operate(t, env, "audit", "list")
	if lines := strings.Split(strings.TrimSpace(table.output), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "WHEN") ||
		!strings.Contains(lines[1], "name=two words") {
		t.Errorf("the table:\n%s", table.output)
	}
	if regexp.MustCompile(`[0-9a-f]{40}`).MatchString(raw.output + table.output) {
		t.Errorf("a key is on record:\n%s", raw.output)
	}
	for _, tt := range []struct {
		count int
		args  []string
	}{
		{1, []string{"--limit", "1"}},
		{2, []string{"--account", "ann@example.com"}},
		{2, []string{"--since", began}},
		{2, []string{"--since", "24h"}},
		{0, []string{"--since", "2999-01-01"}},
	} {
		sees(t, operate(t, env, append([]string{"audit", "list", "-o", "json"}, tt.args...)...).json(t), object{"count": tt.count})
	}
}
