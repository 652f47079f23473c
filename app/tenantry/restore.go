// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/secret"
)

func restoreCommand() *cobra.Command {
	var credential string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup into an empty database, and its keyset into place",
		Long: "Reads a backup through first and checks its sums, then writes it in one transaction: all of it, or nothing.\n" +
			"The database may be of the other kind than the backup's. It must be empty but may be migrated; a keyset file\n" +
			"that exists must be that of the backup. Stop the service before, and start it afterwards.",
		Args: cli.OneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.Usage(err)
			}
			passphrase, err := cli.ReadSecret(cmd, credential, "passphrase")
			if err != nil {
				return err
			}
			from := backupSource{args[0], passphrase}
			b, err := restore(cmd.Context(), c, from)
			if err != nil {
				return restoreFailure(err)
			}
			if err := cli.Show(cmd, backupOf(from.name, "restored", !passphrase.Empty(), b)); err != nil {
				return err
			}
			return recordAct(cmd.Context(), c, audit.Restore, map[string]string{
				"file": from.name, "sha256": b.manifest.SHA256, "created_at": cli.Stamp(b.CreatedAt), "rows": strconv.Itoa(b.manifest.rows()),
			})
		},
	}
	cmd.Flags().StringVar(&credential, "credential-file", "", "the passphrase of the backup in this file, or on standard input (-)")
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}

func restoreFailure(err error) error {
	switch {
	case cli.HasFix(err):
		return err
	case errors.Is(err, errDamaged):
		return cli.WithFix(err, "nothing was written; take another copy of it, or an older backup")
	case errors.Is(err, bunstore.ErrOccupied):
		return cli.WithFix(err, "a backup is restored into an empty database: make one, or look at the setting database_url")
	case errors.Is(err, secrets.ErrPassphrase):
		return cli.WithFix(err, "--credential-file FILE takes the passphrase that the backup was made with")
	default:
		return err
	}
}

// backupSource is a backup file, which is read twice: the sums of what it
// holds stand at its end.
type backupSource struct {
	name       string
	passphrase secret.Text
}

func (s backupSource) read(into backupSink) (backup, error) {
	f, err := os.Open(s.name)
	if err != nil {
		return backup{}, cli.WithFix(fmt.Errorf("read backup: %w", err), "restore takes the name of a file that backup wrote")
	}
	defer func() { _ = f.Close() }()
	buffered := bufio.NewReaderSize(f, 1<<16)
	start, _ := buffered.Peek(64)
	var content io.Reader = buffered
	switch {
	case secrets.Encrypted(start) && s.passphrase.Empty():
		return backup{}, cli.WithFix(errors.New("the backup is encrypted"), "--credential-file FILE takes its passphrase, - from standard input")
	case secrets.Encrypted(start):
		if content, err = secrets.Decrypt(buffered, s.passphrase); err != nil {
			return backup{}, err
		}
	case !bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		return backup{}, cli.WithFix(fmt.Errorf("%s is no backup of tenantry", s.name), "restore takes the name of a file that `tenantry backup` wrote")
	case !s.passphrase.Empty():
		// Nobody but who knows the passphrase can have made an encrypted one.
		return backup{}, cli.WithFix(errors.New("a passphrase is given, but the backup is not encrypted"),
			"leave --credential-file out if this is the backup that you mean")
	}
	return readBackup(content, into)
}

// restore checks first and writes then. The keyset is in place just before the
// rows are there: a database without its keyset would make the service begin a
// new one, and what the old one sealed would be lost.
func restore(ctx context.Context, c settings.Config, from backupSource) (backup, error) {
	checked, err := from.read(nobody{})
	if err != nil {
		return checked, err
	}
	if err := sameKeyset(c.KeysetFile, checked.keyset); err != nil {
		return checked, err
	}
	if err := dataFolder(c); err != nil {
		return checked, err
	}
	store, err := bunstore.Open(ctx, c.DatabaseURL, bunstore.Options{Operator: c.Operator, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return checked, fmt.Errorf("database: %w", err)
	}
	defer func() { _ = store.Close() }()
	if err := store.Empty(ctx); err != nil {
		return checked, err
	}
	if err := store.Migrate(ctx); err != nil {
		return checked, fmt.Errorf("migrate: %w", err)
	}
	if err := load(ctx, c, store, from, checked); err != nil {
		return checked, err
	}
	// What the backup's version had not migrated yet.
	if _, err = migrateQueue(ctx, c); err == nil {
		err = store.Migrate(ctx)
	}
	if err != nil {
		return checked, cli.WithFix(fmt.Errorf("the backup is restored, but not migrated: %w", err), "run `tenantry migrate`")
	}
	return checked, nil
}

// load leaves the keyset where it is when the end goes wrong: it may be the
// answer to the commit that was lost, and a next try takes it as it is.
func load(ctx context.Context, c settings.Config, store *bunstore.Store, from backupSource, checked backup) error {
	return store.Load(ctx, checked.Migrations, func(ctx context.Context, l *bunstore.Loading) error {
		again, err := from.read(&filling{ctx: ctx, loading: l, from: checked.Version})
		if err != nil {
			return err
		}
		if again.manifest.SHA256 != checked.manifest.SHA256 {
			return damaged("it changed while it was read")
		}
		return placeKeyset(c.KeysetFile, checked.keyset)
	})
}

// sameKeyset refuses a keyset file that has other keys than the backup.
func sameKeyset(path string, want []byte) error {
	have, err := secrets.ReadKeyset(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(have, want) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("the keyset file %s exists, and is not the one in the backup", path)
	}
	return cli.WithFix(err, "move the file away, or let the setting keyset_file name another one: nothing in the backup is sealed with it")
}

func placeKeyset(path string, keyset []byte) error {
	err := secrets.PlaceKeyset(path, keyset)
	if errors.Is(err, fs.ErrExist) {
		return sameKeyset(path, keyset)
	}
	if err != nil {
		return cli.WithFix(fmt.Errorf("write keyset: %w", err), "may you write to the folder "+filepath.Dir(path)+"?")
	}
	return nil
}
