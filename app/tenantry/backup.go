// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
)

// backupRow is what backup and restore show.
type backupRow struct {
	File      string `json:"file"`
	Status    string `json:"status"`
	Encrypted bool   `json:"encrypted"`
	Version   string `json:"version"`
	Database  string `json:"database"`
	Tables    int    `json:"tables"`
	Rows      int    `json:"rows"`
	SHA256    string `json:"sha256"` // of the content, not of the file
	CreatedAt string `json:"created_at"`
}

func (r backupRow) Columns() [][2]string {
	return [][2]string{
		{"FILE", r.File}, {"STATUS", r.Status}, {"ENCRYPTED", strconv.FormatBool(r.Encrypted)}, {"VERSION", r.Version},
		{"DATABASE", r.Database}, {"TABLES", strconv.Itoa(r.Tables)}, {"ROWS", strconv.Itoa(r.Rows)},
		{"SHA-256", r.SHA256}, {"CREATED", r.CreatedAt},
	}
}

func backupOf(file, status string, encrypted bool, b backup) backupRow {
	return backupRow{
		file, status, encrypted, b.Version, b.Database, len(b.manifest.Tables), b.manifest.rows(), b.manifest.SHA256, cli.Stamp(b.CreatedAt),
	}
}

func backupCommand() *cobra.Command {
	var credential string
	var force bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write database and keyset into one file, while the service runs",
		Long: "Writes all tables as they are at one moment, and the keyset, into one file. The service may run, and the\n" +
			"file can be restored on SQLite and on PostgreSQL, whichever it comes from.\n\n" +
			"With --credential-file the whole file is encrypted with a passphrase, in the age format. Keep the passphrase\n" +
			"elsewhere: without it nobody opens the backup. Without one the file is readable by its owner only, and holds\n" +
			"the keyset in clear.\n\n" +
			"Settings, the provider's certificate or secret, and plugins are not in it.",
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
			b, err := writeBackup(cmd.Context(), c, args[0], passphrase, force)
			if err != nil {
				return err
			}
			if credential == "" {
				cli.Warn(cmd, "keyset_in_clear", "the backup holds the keyset in clear, so whoever reads it reads the stored secrets; --credential-file FILE encrypts it")
			}
			if err := cli.Show(cmd, backupOf(args[0], "written", !passphrase.Empty(), b)); err != nil {
				return err
			}
			return recordAct(cmd.Context(), c, audit.Backup, map[string]string{
				"file": args[0], "encrypted": strconv.FormatBool(!passphrase.Empty()), "sha256": b.manifest.SHA256,
			})
		},
	}
	cmd.Flags().StringVar(&credential, "credential-file", "", "encrypt the backup with the passphrase in this file, or on standard input (-)")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}
