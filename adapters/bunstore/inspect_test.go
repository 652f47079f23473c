// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/integration"
)

func openInspection(t testing.TB, url string) *Inspection {
	t.Helper()
	i, err := Inspect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	return i
}

func TestInspectReportsMigrations(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		if address == Memory {
			return // only its own Store can open it
		}
		s, err := Open(t.Context(), address, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		i := openInspection(t, address)
		if m, err := i.Migrations(t.Context()); err != nil || len(m.Pending) == 0 || m.Applied != 0 || m.InUse {
			t.Fatalf("empty: %+v, %v", m, err)
		}
		if there, err := s.hasTable(t.Context(), s.db, "bun_migrations"); err != nil || there {
			t.Fatalf("looking made a table: %v, %v", there, err)
		}
		if err := i.Writable(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now()); err != nil {
			t.Fatal(err)
		}
		if m, err := i.Migrations(t.Context()); err != nil || len(m.Pending) != 0 || m.Applied == 0 || !m.InUse || m.Closed != 0 {
			t.Fatalf("migrated: %+v, %v", m, err)
		}
		exec(t, s, "INSERT INTO bun_migrations (name, group_id, migrated_at) VALUES ('29990101000000', 9, current_timestamp)")
		exec(t, s, "UPDATE schema_release SET min_release = 99")
		if m, err := i.Migrations(t.Context()); err != nil || len(m.Newer) != 1 || m.Closed != 99 {
			t.Fatalf("newer: %+v, %v", m, err)
		}
		if err := i.Writable(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		ahead, has, err := i.Ahead(t.Context())
		if err != nil || has != s.postgres() || ahead.Abs() > time.Since(asked) { // both use the machine's clock
			t.Fatalf("the server's clock is %s ahead (known: %v), %v", ahead, has, err)
		}
	})
}

func TestInspectDoesNotChangeDatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tenantry.db")
	if _, err := Inspect(t.Context(), "sqlite://"+path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
	s := migrated(t, "sqlite://"+path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i, err := Inspect(t.Context(), "sqlite://"+path)
	if err != nil || i.Journal != "wal" || i.Mode != 0o600 || i.Version == "" {
		t.Fatalf("got %+v, %v", i, err)
	}
	if err := errors.Join(i.Writable(t.Context()), i.Close()); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	files, _ := os.ReadDir(dir)
	if err != nil || string(before) != string(after) || len(files) != 1 {
		t.Fatalf("the database was changed: %v, %v", err, files)
	}
}

func TestInspectErrorsContainCauseAndNoPassword(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, says := range map[string]string{
		"sqlite://" + garbage:                  "not a database",
		"postgres://ann:hunter2@127.0.0.1:1/x": "does not answer at 127.0.0.1:1: connect: connection refused",
		"postgres://ann:hunter2@db.invalid/x":  "does not answer at db.invalid:5432: its name does not resolve",
		"mysql://ann:hunter2@127.0.0.1:1/x":    "sqlite:///path",
	} {
		_, err := Inspect(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestHoldsSealedFindsCredentials(t *testing.T) {
	for what, add := range map[string]func(ctx context.Context, s *Store, owner access.AccountID) error{
		"a DNS connection": func(ctx context.Context, s *Store, owner access.AccountID) error {
			c := dnsconnection.Connection{ID: newID(), AccountID: owner, Provider: "cloudflare", Status: dnsconnection.Connected, TestedAt: began, CreatedAt: began}
			return s.AddDNSConnection(ctx, c, []byte("sealed"))
		},
		"an integration": func(ctx context.Context, s *Store, owner access.AccountID) error {
			i := integration.Integration{ID: newID(), AccountID: owner, Provider: "instantly", Status: integration.Connected, CreatedAt: began, UpdatedAt: began}
			return s.AddIntegration(ctx, i, []byte("sealed"), nil)
		},
	} {
		eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
			s := migrated(t, url(t))
			ann, err := s.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
			must(t, err)
			if holds, err := s.HoldsSealed(t.Context()); err != nil || holds {
				t.Errorf("an account alone: %v, %v", holds, err)
			}
			must(t, add(t.Context(), s, ann.ID))
			if holds, err := s.HoldsSealed(t.Context()); err != nil || !holds {
				t.Errorf("with %s: %v, %v", what, holds, err)
			}
		})
	}
}
