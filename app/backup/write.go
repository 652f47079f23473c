// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/secret"
)

type writeOptions struct {
	passphrase       secret.Text // encrypts the backup, unless empty
	force            bool        // if not set, an existing file is an error
	allowMissingKeys bool        // if not set, a keyset without a key that encrypted a value is an error
}

// writeBackup writes a backup of the database and the keyset into the file with this name. It
// writes a temporary file in the same folder and renames it at the end, so that a file with this
// name is never an incomplete backup. The options say when writeBackup fails.
func writeBackup(ctx context.Context, c settings.Config, name string, o writeOptions) (info backupInfo, err error) {
	if err := checkTarget(name, o.force); err != nil {
		return info, err
	}
	db, err := openExistingDatabase(ctx, c)
	if err != nil {
		return info, err
	}
	defer func() { _ = db.Close() }()
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-") // mode 0600
	if err != nil {
		return info, cli.WithFix(fmt.Errorf("write backup: %w", err), "check that the folder exists and that this user can write to it")
	}
	defer func() { _ = os.Remove(f.Name()) }() // after the rename there is nothing to remove
	info, err = writeContent(ctx, c, db, f, o)
	if err := errors.Join(err, f.Close()); err != nil {
		return info, err
	}
	if err := checkTarget(name, o.force); err != nil { // another process may have created name since the first check
		return info, err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return info, fmt.Errorf("write backup: %w", err)
	}
	return info, syncFolder(filepath.Dir(name))
}

// checkTarget returns an error when name is a folder, or when it exists and force is not set.
func checkTarget(name string, force bool) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return cli.WithFix(fmt.Errorf("%s is a folder", name), "pass the name of a file")
	case err == nil && !force:
		return cli.WithFix(fmt.Errorf("%s exists already", name), "use a different name, or replace the file with --force")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// syncFolder syncs a folder to disk, so that a rename in it survives a power failure.
func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// openExistingDatabase opens the database without migrating it, because a backup before an upgrade
// must not change the schema. It does not create a missing database.
func openExistingDatabase(ctx context.Context, c settings.Config) (*database.DB, error) {
	if err := wiring.RequireDatabase(c); err != nil {
		return nil, err
	}
	db, err := database.Open(ctx, c.DatabaseURL, database.Options{})
	if err != nil {
		return nil, wiring.DatabaseError(err)
	}
	return db, nil
}

// writeContent writes a snapshot of db into f, encrypted when there is a passphrase, and syncs f
// to disk.
func writeContent(ctx context.Context, c settings.Config, db *database.DB, f *os.File, o writeOptions) (info backupInfo, err error) {
	fileHash := sha256.New()
	to := io.MultiWriter(f, fileHash)
	var encrypted io.WriteCloser
	if !o.passphrase.Empty() {
		if encrypted, err = secrets.Encrypt(to, o.passphrase); err != nil {
			return info, err
		}
		to = encrypted
	}
	err = maintenance.TakeSnapshot(ctx, db, func(ctx context.Context, snapshot *maintenance.Snapshot) (err error) {
		info, err = writeSnapshot(ctx, c, snapshot, to, o.allowMissingKeys)
		return err
	})
	if err == nil && encrypted != nil {
		err = encrypted.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	info.fileSHA256 = hex.EncodeToString(fileHash.Sum(nil))
	return info, err
}

// writeSnapshot writes a snapshot and the keyset to the writer to. It reads the keyset after the
// snapshot began. A rotation only adds keys, so the keyset then has each key that a value in the
// snapshot needs. writeSnapshot still checks this, because keyset_file can name the wrong file, and
// keys can be lost.
func writeSnapshot(ctx context.Context, c settings.Config, snapshot *maintenance.Snapshot, to io.Writer, allowMissingKeys bool) (info backupInfo, err error) {
	info.keyset, err = secrets.ReadKeyset(c.KeysetFile)
	if err != nil {
		return info, wiring.KeysetError(c.KeysetFile, err)
	}
	prefixes, err := snapshot.SealedPrefixes(ctx)
	if err != nil {
		return info, err
	}
	if err := wiring.CheckSealedValues(c.KeysetFile, info.keyset, prefixes); err != nil && !allowMissingKeys {
		return info, cli.WithFix(err, wiring.FixMissingKeys+"; to write a backup without the keys: --allow-missing-keys")
	}
	scheme, _, _ := strings.Cut(c.DatabaseURL, ":")
	info.header = backupHeader{backupFormat, cli.Version, time.Now().UTC().Truncate(time.Second), databaseKind(scheme), snapshot.Migrations}
	w, err := newBackupWriter(to, info.header, info.keyset)
	if err != nil {
		return info, fmt.Errorf("write backup: %w", err)
	}
	for _, t := range snapshot.Tables {
		if err := w.beginTable(t); err != nil {
			return info, fmt.Errorf("write backup: %w", err)
		}
		if err := snapshot.Rows(ctx, t, w.writeRow); err != nil {
			return info, fmt.Errorf("write backup: %w", err)
		}
	}
	if info.manifest, err = w.finish(); err != nil {
		return info, fmt.Errorf("write backup: %w", err)
	}
	return info, nil
}

// databaseKind returns the kind of a database as the header of a backup names it: sqlite or
// postgres.
func databaseKind(scheme string) string {
	if scheme == "sqlite" {
		return scheme
	}
	return "postgres"
}
