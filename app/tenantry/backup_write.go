// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/secret"
)

// writeBackup writes beside the final name first: under that name there is
// never half a backup.
func writeBackup(ctx context.Context, c settings.Config, name string, passphrase secret.Text, force bool) (b backup, err error) {
	if err := mayWrite(name, force); err != nil {
		return b, err
	}
	store, err := existingStore(ctx, c)
	if err != nil {
		return b, err
	}
	defer func() { _ = store.Close() }()
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-") // mode 0600
	if err != nil {
		return b, cli.WithFix(fmt.Errorf("write backup: %w", err), "is the folder there, and may you write to it?")
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	b, err = fillBackup(ctx, c, store, f, passphrase)
	if err := errors.Join(err, f.Close()); err != nil {
		return b, err
	}
	if err := mayWrite(name, force); err != nil { // somebody else's, meanwhile
		return b, err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return b, fmt.Errorf("write backup: %w", err)
	}
	return b, syncFolder(filepath.Dir(name))
}

func mayWrite(name string, force bool) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return cli.WithFix(fmt.Errorf("%s is a folder", name), "name a file")
	case err == nil && !force:
		return cli.WithFix(fmt.Errorf("%s exists already", name), "take another name, or replace it with --force")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

func syncFolder(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// existingStore opens the database as it is: a backup before an upgrade must
// not be the upgrade.
func existingStore(ctx context.Context, c settings.Config) (*bunstore.Store, error) {
	if path, embedded := strings.CutPrefix(c.DatabaseURL, "sqlite://"); embedded {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, cli.WithFix(fmt.Errorf("there is no database at %s", path), "are the settings data_dir and database_url those of the service?")
		}
	}
	store, err := bunstore.Open(ctx, c.DatabaseURL, bunstore.Options{Operator: c.Operator})
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return store, nil
}

func fillBackup(ctx context.Context, c settings.Config, store *bunstore.Store, f *os.File, passphrase secret.Text) (b backup, err error) {
	var to io.Writer = f
	var closed io.WriteCloser
	if !passphrase.Empty() {
		if closed, err = secrets.Encrypt(f, passphrase); err != nil {
			return b, err
		}
		to = closed
	}
	err = store.Snapshot(ctx, func(ctx context.Context, shot *bunstore.Snapshot) (err error) {
		b, err = writeSnapshot(ctx, c, shot, to)
		return err
	})
	if err == nil && closed != nil {
		err = closed.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	return b, err
}

// writeSnapshot reads the keyset after the snapshot began: keys are only ever
// added, so it has all that the snapshot needs.
func writeSnapshot(ctx context.Context, c settings.Config, shot *bunstore.Snapshot, to io.Writer) (b backup, err error) {
	b.keyset, err = secrets.ReadKeyset(c.KeysetFile)
	if err != nil {
		return b, keysetFailure(c.KeysetFile, err)
	}
	kind, _, _ := strings.Cut(c.DatabaseURL, ":")
	b.backupHeader = backupHeader{backupFormat, version, time.Now().UTC().Truncate(time.Second), databaseKind(kind), shot.Migrations}
	w, err := newBackupWriter(to, b.backupHeader, b.keyset)
	if err != nil {
		return b, fmt.Errorf("write backup: %w", err)
	}
	for _, t := range shot.Tables {
		if err := w.begin(t); err != nil {
			return b, fmt.Errorf("write backup: %w", err)
		}
		if err := shot.Rows(ctx, t, w.row); err != nil {
			return b, fmt.Errorf("write backup: %w", err)
		}
	}
	if b.manifest, err = w.finish(); err != nil {
		return b, fmt.Errorf("write backup: %w", err)
	}
	return b, nil
}

func databaseKind(scheme string) string {
	if scheme == "sqlite" {
		return scheme
	}
	return "postgres"
}
