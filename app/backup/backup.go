// SPDX-License-Identifier: Apache-2.0

// Package backup implements the commands `tenantry backup` and `tenantry restore`. `tenantry
// backup` writes the database and the keyset (the keys that encrypt stored secrets) into one file.
// `tenantry restore` loads such a file into an empty database, and writes the keyset file unless
// the keyset file exists.
//
// A backup of SQLite can be restored into PostgreSQL, and the reverse. The file does not contain
// the settings, the plugins, or the operator's certificates and secrets for providers.
//
//   - backup.go: Command, which returns `tenantry backup`, and the output of both commands.
//   - format.go: the format of the file, and the writer of its lines. manifestBuilder computes the
//     checksums while lines are written or read.
//   - write.go: writeBackup, which writes a snapshot of the database into a file.
//   - read.go: backupSource, which opens and decrypts a file, and readBackup, which checks the
//     content and passes its tables and rows to a rowSink.
//   - restore.go: RestoreCommand, and restore, which loads a file into a database.
//
// Start reading with the format in format.go, then writeBackup and restore.
package backup

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/audit"
)

// backupRow shows the backup that was written or restored.
type backupRow struct {
	File      string `json:"file"`
	Status    string `json:"status"`
	Encrypted bool   `json:"encrypted"`
	Version   string `json:"version"`
	Database  string `json:"database"`
	Tables    int    `json:"tables"`
	Rows      int    `json:"rows"`
	SHA256    string `json:"sha256"` // of the file
	CreatedAt string `json:"created_at"`
}

// Columns implements cli.Row.
func (r backupRow) Columns() [][2]string {
	return [][2]string{
		{"FILE", r.File}, {"STATUS", r.Status}, {"ENCRYPTED", strconv.FormatBool(r.Encrypted)}, {"VERSION", r.Version},
		{"DATABASE", r.Database}, {"TABLES", strconv.Itoa(r.Tables)}, {"ROWS", strconv.Itoa(r.Rows)},
		{"SHA-256", r.SHA256}, {"CREATED", r.CreatedAt},
	}
}

func newBackupRow(file, status string, encrypted bool, info backupInfo) backupRow {
	return backupRow{
		file, status, encrypted, info.header.Version, info.header.Database, len(info.manifest.Tables), info.manifest.rows(), info.fileSHA256, cli.FormatTime(info.header.CreatedAt),
	}
}

// Command returns the command `tenantry backup`. The command fails when the database or the keyset
// does not exist. Without --allow-missing-keys it fails when the keyset lacks a key that encrypted
// a value in the database. Without --force it fails when FILE exists.
func Command() *cobra.Command {
	var passphraseFile string
	var o writeOptions
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write database and keyset into one file, while the service runs",
		Long: "Writes the keyset, and a consistent snapshot of all tables except those of the job queue, into one file. The\n" +
			"service can run at the same time. A backup of SQLite can be restored into PostgreSQL, and the reverse.\n\n" +
			"The file is readable by its owner only. With --credential-file the whole file is encrypted with a passphrase, in\n" +
			"the age format. Keep the passphrase elsewhere: without it the backup cannot be decrypted. Without the flag the\n" +
			"file contains the keyset unencrypted.\n\n" +
			"The backup does not contain the settings, the plugins, or the operator's certificates and secrets for providers.",
		Args: cli.OneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.UsageError(err)
			}
			o.passphrase, err = cli.ReadSecret(cmd, passphraseFile, "passphrase")
			if err != nil {
				return err
			}
			info, err := writeBackup(cmd.Context(), c, args[0], o)
			if err != nil {
				return err
			}
			if passphraseFile == "" {
				cli.Warn(cmd, "keyset_in_clear", "the backup contains the unencrypted keyset, so anyone who can read the backup can read the stored secrets; --credential-file FILE encrypts the backup")
			}
			err = wiring.RecordAction(cmd.Context(), c, audit.Backup, map[string]string{
				"file": args[0], "encrypted": strconv.FormatBool(!o.passphrase.Empty()), "sha256": info.fileSHA256,
			})
			return errors.Join(err, cli.Show(cmd, newBackupRow(args[0], "written", !o.passphrase.Empty(), info)))
		},
	}
	cmd.Flags().StringVar(&passphraseFile, "credential-file", "", "encrypt the backup with the passphrase in this file, or from standard input (-)")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace an existing file")
	cmd.Flags().BoolVar(&o.allowMissingKeys, "allow-missing-keys", false, "write the backup although the keyset lacks keys that encrypted values in the database")
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}
