// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every table of the schema goes from one database to the other and back, so
// that a table that a later migration adds is in the backup.
func TestDumpsCarryEveryTableBothWays(t *testing.T) {
	first, lite, second := migrated(t, newSchema(t)), migrated(t, newFile(t)), migrated(t, newSchema(t))
	fillAll(t, first)
	want := dump(t, first)
	all := tables(t, first)
	if len(want.tables) != len(all) || len(all) < 10 {
		t.Fatalf("%d of %d tables: %v", len(want.tables), len(all), all)
	}
	for _, table := range want.tables {
		if len(want.rows[table.Name]) == 0 {
			t.Errorf("nothing of %s", table.Name)
		}
	}
	if err := want.load(t.Context(), lite); err != nil {
		t.Fatal(err)
	}
	between := dump(t, lite)
	if err := between.load(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for name, rows := range dump(t, second).content() {
		if rows != want.content()[name] {
			t.Errorf("%s was\n%s\nand is\n%s", name, want.content()[name], rows)
		}
	}
	if !maps.Equal(want.content(), between.content()) {
		t.Error("SQLite says something else")
	}
}

// The order of times decides on SQLite by their text, so restored ones must
// read as written ones.
func TestRestoredTimesReadAsWrittenOnes(t *testing.T) {
	from, to := migrated(t, Memory), migrated(t, Memory)
	if _, err := from.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := dump(t, from).load(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	var texts [2]string
	for i, s := range []*Store{from, to} {
		if err := s.db.NewRaw("SELECT CAST(created_at AS text) FROM accounts").Scan(t.Context(), &texts[i]); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("%q became %q", texts[0], texts[1])
	}
}

func TestASnapshotIsOfOneMomentAndStopsNobody(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		one := url(t)
		if one == Memory {
			return // it has one connection
		}
		s := migrated(t, one)
		err := s.Snapshot(t.Context(), func(ctx context.Context, n *Snapshot) error {
			if _, err := s.CreateAccount(ctx, "late@example.test", "complete", 0, time.Now()); err != nil {
				return err
			}
			for _, table := range n.Tables {
				if err := n.Rows(ctx, table, func([]byte) error {
					if table.Name == "accounts" || table.Name == "members" {
						return errors.New("the snapshot has what came later in " + table.Name)
					}
					return nil
				}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestLoadRefusesAndLeavesNothing(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		from := migrated(t, Memory)
		if _, err := from.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now()); err != nil {
			t.Fatal(err)
		}
		good := dump(t, from)
		s := migrated(t, url(t))
		before := dump(t, s).content()
		broken := good
		broken.rows = maps.Clone(good.rows)
		broken.rows["members"] = [][]byte{[]byte(`["not a row"]`)}
		if err := broken.load(t.Context(), s); err == nil {
			t.Fatal("a broken row was loaded")
		}
		if !maps.Equal(before, dump(t, s).content()) {
			t.Fatal("something is left of it")
		}
		if err := s.Empty(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := good.load(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := good.load(t.Context(), s); !errors.Is(err, ErrOccupied) {
			t.Fatalf("loaded twice: %v", err)
		}
	})
}

// A backup of an older release lacks the last migrations: they run again on
// its rows.
func TestMigrationsThatABackupLacksRunAgain(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		old, s := dump(t, migrated(t, Memory)), migrated(t, url(t))
		last := len(old.migrations) - 1
		missing := old.migrations[last]
		old.migrations = old.migrations[:last]
		if err := old.load(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		pending, err := s.Pending(t.Context())
		if err != nil || len(pending) != 1 || !strings.HasPrefix(pending[0], missing) {
			t.Fatalf("pending: %v, %v", pending, err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestUnknownMigrationsAreNamed(t *testing.T) {
	known := dump(t, migrated(t, Memory)).migrations
	got, err := UnknownMigrations(append(known, "29990101000000"))
	if err != nil || !slices.Equal(got, []string{"29990101000000"}) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestRowsThatDoNotFitAreRefused(t *testing.T) {
	table := Table{"t", []Column{{"a", Text}, {"b", Int}, {"c", Bool}, {"d", Time}, {"e", Bytes}}}
	if _, err := parseRow(table, []byte(`["x",1,true,"2026-01-01T00:00:00Z","AA=="]`)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		``, `{}`, `[]`, `["x",1,true,"2026-01-01T00:00:00Z"]`, `["x",1,true,"2026-01-01T00:00:00Z","AA=="] []`,
		`[1,1,true,"2026-01-01T00:00:00Z","AA=="]`, `["x",1.5,true,"2026-01-01T00:00:00Z","AA=="]`,
		`["x","1",true,"2026-01-01T00:00:00Z","AA=="]`, `["x",1,0,"2026-01-01T00:00:00Z","AA=="]`,
		`["x",1,true,"yesterday","AA=="]`, `["x",1,true,"2026-01-01T00:00:00Z","%"]`, `["x",1,true,[],"AA=="]`,
		`["a\u0000b",1,true,"2026-01-01T00:00:00Z","AA=="]`,
	} {
		if _, err := parseRow(table, []byte(row)); err == nil {
			t.Errorf("%s is taken", row)
		}
	}
}
