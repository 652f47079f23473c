// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/audit"
)

// RestoreCommand returns the command `tenantry restore`. The command refuses a damaged backup, a
// database that is not empty, and a keyset file that lacks a key of the backup. It checks all three
// before it changes any data.
func RestoreCommand() *cobra.Command {
	var passphraseFile string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty database, with its keyset",
		Long: "Reads the whole backup and checks its checksums, then writes it in one transaction. Stop the service first, and\n" +
			"start it afterwards.\n\n" +
			"The database can be SQLite or PostgreSQL, independently of the database of the backup. It must be empty, but it\n" +
			"can be migrated. An existing keyset file must have all keys of the backup, and stays as it is.",
		Args: cli.OneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.UsageError(err)
			}
			passphrase, err := cli.ReadSecret(cmd, passphraseFile, "passphrase")
			if err != nil {
				return err
			}
			source := backupSource{name: args[0]}
			if !passphrase.Empty() {
				if source.decrypter, err = secrets.NewDecrypter(passphrase); err != nil {
					return err
				}
			}
			info, err := restore(cmd.Context(), c, source)
			if err != nil && !errors.Is(err, errNotMigrated) {
				return addRestoreFix(err)
			}
			recordErr := wiring.RecordAction(cmd.Context(), c, audit.Restore, map[string]string{
				"file": source.name, "sha256": info.fileSHA256, "created_at": cli.FormatTime(info.header.CreatedAt), "rows": strconv.Itoa(info.manifest.rows()),
			})
			return errors.Join(err, recordErr, cli.Show(cmd, newBackupRow(source.name, "restored", !passphrase.Empty(), info)))
		},
	}
	cmd.Flags().StringVar(&passphraseFile, "credential-file", "", "read the passphrase of the backup from this file, or from standard input (-)")
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}

// addRestoreFix adds the fix to an error of restore, if a fix is known.
func addRestoreFix(err error) error {
	switch {
	case cli.HasFix(err):
		return err
	case errors.Is(err, errDamaged), errors.Is(err, errUnreadable):
		return cli.WithFix(err, "nothing was written; use a different copy of this backup, or an older backup")
	case errors.Is(err, maintenance.ErrNotEmpty):
		return cli.WithFix(err, "restore needs an empty database: create one, or correct the setting database_url")
	case errors.Is(err, secrets.ErrPassphrase):
		return cli.WithFix(err, "--credential-file FILE must name the file with the passphrase of the backup")
	default:
		return err
	}
}

// errNotMigrated is returned by restore if a migration failed after the rows were committed.
var errNotMigrated = errors.New("the backup is restored, but not migrated")

// restore checks the whole backup and then loads it. It writes the keyset file before it commits
// the rows. If it committed the rows first and then failed, the database would hold encrypted
// values without the keyset that decrypts them.
func restore(ctx context.Context, c settings.Config, source backupSource) (backupInfo, error) {
	info, err := source.read(discardSink{})
	if err != nil {
		return info, err
	}
	if err := checkKeysetFile(c.KeysetFile, info.keyset); err != nil {
		return info, err
	}
	if err := wiring.CreateDataFolder(c); err != nil {
		return info, err
	}
	db, err := database.Open(ctx, c.DatabaseURL, database.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return info, wiring.DatabaseError(err)
	}
	defer func() { _ = db.Close() }()
	if err := maintenance.CheckEmpty(ctx, db); err != nil {
		return info, err
	}
	if err := db.Migrate(ctx); err != nil {
		return info, fmt.Errorf("migrate: %w", err)
	}
	if err := loadBackup(ctx, c, db, source, info); err != nil {
		return info, err
	}
	// The backup can come from an older release, so later migrations run on the loaded rows.
	if _, err = wiring.MigrateQueue(ctx, c); err == nil {
		err = db.Migrate(ctx)
	}
	if err != nil {
		return info, cli.WithFix(fmt.Errorf("%w: %w", errNotMigrated, err), "run `tenantry migrate`")
	}
	return info, nil
}

// loadBackup loads the rows in one transaction and writes the keyset file. If the commit fails,
// loadBackup does not remove the keyset file, because the database may have committed the rows
// although its answer was lost. A second restore accepts the file, because the file contains the
// keyset of the backup.
func loadBackup(ctx context.Context, c settings.Config, db *database.DB, source backupSource, info backupInfo) error {
	return maintenance.Load(ctx, db, info.header.Migrations, func(ctx context.Context, loader *maintenance.Loading) error {
		loaded, err := source.read(&databaseSink{ctx: ctx, loader: loader, version: info.header.Version})
		if err != nil {
			return err
		}
		if loaded.manifest.SHA256 != info.manifest.SHA256 {
			return damagedError("it changed while it was read")
		}
		return writeKeyset(c.KeysetFile, info.keyset)
	})
}

// checkKeysetFile returns an error when the file at path cannot be read or lacks a key of the
// keyset ofBackup. It accepts a missing file, and a keyset that was rotated after the backup,
// because a rotation keeps the old keys.
func checkKeysetFile(path string, ofBackup []byte) error {
	existing, err := secrets.ReadKeyset(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cli.WithFix(err, "correct the file, or move it away: the restore then writes the keyset of the backup")
	}
	contains, err := secrets.ContainsKeyset(existing, ofBackup)
	if err == nil && !contains {
		err = cli.WithFix(fmt.Errorf("the keyset file %s exists and lacks keys of the keyset in the backup", path),
			"move the file away, or set keyset_file to a different file: the keyset in the file may be unable to decrypt values in the backup")
	}
	return err
}

// writeKeyset writes the keyset file. It keeps an existing file, and fails when this file lacks a
// key of keyset.
func writeKeyset(path string, keyset []byte) error {
	err := secrets.WriteNewKeyset(path, keyset)
	if errors.Is(err, fs.ErrExist) {
		return checkKeysetFile(path, keyset)
	}
	if err != nil {
		return cli.WithFix(fmt.Errorf("write keyset: %w", err), "let this user write to the folder "+filepath.Dir(path))
	}
	return nil
}

// discardSink discards all rows. With it, restore only checks a backup.
type discardSink struct{}

func (discardSink) beginTable(maintenance.Table) error { return nil }
func (discardSink) addRow([]byte) error                { return nil }
func (discardSink) finish() error                      { return nil }

// A batch of rows is inserted with one statement when it reaches one of these limits, or when its
// table ends.
const (
	batchRows  = 500
	batchBytes = 1 << 20
)

// databaseSink inserts the rows of a backup into a database.
type databaseSink struct {
	ctx     context.Context
	loader  *maintenance.Loading
	version string // the release of tenantry that wrote the backup
	table   maintenance.Table
	rows    [][]byte // the current batch
	bytes   int      // the size of the current batch
}

func (s *databaseSink) beginTable(t maintenance.Table) error {
	if err := s.flush(); err != nil {
		return err
	}
	s.table = t
	if err := s.loader.CheckTable(t); err != nil {
		return cli.WithFix(fmt.Errorf("the backup was made by tenantry %s and does not fit the tables of this version: %w", s.version, err), "restore the backup with that version, then upgrade")
	}
	return nil
}

func (s *databaseSink) addRow(row []byte) error {
	s.rows, s.bytes = append(s.rows, row), s.bytes+len(row)
	if len(s.rows) < batchRows && s.bytes < batchBytes {
		return nil
	}
	return s.flush()
}

func (s *databaseSink) finish() error { return s.flush() }

// flush inserts the current batch and begins a new one.
func (s *databaseSink) flush() error {
	err := s.loader.Insert(s.ctx, s.table, s.rows)
	s.rows, s.bytes = nil, 0
	return err
}
