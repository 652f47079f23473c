// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
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

func TestSinceTime(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		raw  string
		want time.Time
		ok   bool
	}{
		{"", time.Time{}, true},
		{"2026-11-20", now.Add(-32 * time.Hour), true},
		{"2026-11-21T08:00:00Z", now, true},
		{"2026-11-21T09:30:00+01:00", now.Add(30 * time.Minute), true},
		{"90m", now.Add(-90 * time.Minute), true},
		{"-1h", time.Time{}, false},
		{"yesterday", time.Time{}, false},
		{"2026-11-31", time.Time{}, false},
		{"20.11.2026", time.Time{}, false},
	} {
		if got, err := sinceTime(tt.raw, now); !got.Equal(tt.want) || (err == nil) != tt.ok {
			t.Errorf("%q: got %v, %v", tt.raw, got, err)
		}
	}
}

// TestActsOutsideTheDatabase: they are recorded where there is a database,
// and make none where there is not.
func TestActsOutsideTheDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenantry.db")
	c := settings.Config{DatabaseURL: "sqlite://" + path, Operator: "ann@host"}
	record := func() {
		t.Helper()
		if err := recordAct(t.Context(), c, audit.AddPlugin, map[string]string{"name": "microsoft365"}); err != nil {
			t.Fatal(err)
		}
	}
	record()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a database was made: %v", err)
	}
	store, err := bunstore.Open(t.Context(), c.DatabaseURL, bunstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	record()
	if kept, err := store.KeepsAudit(t.Context()); err != nil || kept {
		t.Fatalf("the database was migrated: %v, %v", kept, err)
	}
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	record()
	events, err := store.AuditEvents(t.Context(), ports.AuditQuery{Limit: 9})
	if err != nil || len(events) != 1 || events[0].Operator != "ann@host" || events[0].Action != audit.AddPlugin || events[0].Details["name"] != "microsoft365" {
		t.Fatalf("got %+v, %v", events, err)
	}
	c.DatabaseURL = "postgres://127.0.0.1:1/nothing?connect_timeout=1"
	if err := recordAct(t.Context(), c, audit.Backup, nil); err == nil || !strings.Contains(err.Error(), "backup is done") {
		t.Fatalf("a database that does not answer: %v", err)
	}
}
