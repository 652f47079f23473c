// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/secret"
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

func (r backupRow) columns() [][2]string {
	return [][2]string{
		{"FILE", r.File}, {"STATUS", r.Status}, {"ENCRYPTED", strconv.FormatBool(r.Encrypted)}, {"VERSION", r.Version},
		{"DATABASE", r.Database}, {"TABLES", strconv.Itoa(r.Tables)}, {"ROWS", strconv.Itoa(r.Rows)},
		{"SHA-256", r.SHA256}, {"CREATED", r.CreatedAt},
	}
}

func backupOf(file, status string, encrypted bool, b backup) backupRow {
	return backupRow{
		file, status, encrypted, b.Version, b.Database, len(b.manifest.Tables), b.manifest.rows(), b.manifest.SHA256, stamp(b.CreatedAt),
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
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConfig(cmd.Flags(), nil)
			if err != nil {
				return usageError{err}
			}
			passphrase, err := readSecret(cmd, credential, "passphrase")
			if err != nil {
				return err
			}
			b, err := writeBackup(cmd.Context(), c, args[0], passphrase, force)
			if err != nil {
				return err
			}
			if credential == "" {
				warning(cmd, "keyset_in_clear", "the backup holds the keyset in clear, so whoever reads it reads the stored secrets; --credential-file FILE encrypts it")
			}
			if err := show(cmd, backupOf(args[0], "written", !passphrase.Empty(), b)); err != nil {
				return err
			}
			return recordAct(cmd.Context(), c, audit.Backup, map[string]string{
				"file": args[0], "encrypted": strconv.FormatBool(!passphrase.Empty()), "sha256": b.manifest.SHA256,
			})
		},
	}
	cmd.Flags().StringVar(&credential, "credential-file", "", "encrypt the backup with the passphrase in this file, or on standard input (-)")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	Config{}.flags(cmd.Flags())
	return cmd
}

// readSecret reads what is secret from a file or standard input, without the
// space around. No name is no secret.
func readSecret(cmd *cobra.Command, name, what string) (secret.Text, error) {
	if name == "" {
		return secret.Text{}, nil
	}
	var raw []byte
	var err error
	if name == "-" {
		raw, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), 1<<16))
	} else {
		raw, err = os.ReadFile(name)
	}
	if err != nil {
		return secret.Text{}, failure{fmt.Errorf("read %s: %w", what, err), "--credential-file names a file that holds the " + what + ", or is - for standard input"}
	}
	text := secret.New(strings.TrimSpace(string(raw)))
	if text.Empty() {
		return secret.Text{}, failure{fmt.Errorf("the %s is empty", what), "put it into the file that --credential-file names"}
	}
	return text, nil
}

// warning says on standard error what the operator should know and may ignore.
func warning(cmd *cobra.Command, code, message string) {
	if jsonWanted(cmd) {
		_ = json.NewEncoder(cmd.ErrOrStderr()).Encode(map[string]any{"warning": map[string]string{"code": code, "message": message}})
		return
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "tenantry: warning: %s\n", message)
}
