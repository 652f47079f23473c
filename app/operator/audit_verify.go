// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/audit"
)

// proofRow shows the result of `tenantry audit verify` for an unbroken chain.
type proofRow struct {
	Entries       int    `json:"entries"`
	FirstSequence int64  `json:"first_sequence"`
	LastSequence  int64  `json:"last_sequence"`
	Anchor        string `json:"anchor"`
	LastHash      string `json:"last_hash"`
}

// Columns implements cli.Row.
func (r proofRow) Columns() [][2]string {
	return [][2]string{
		{"ENTRIES", strconv.Itoa(r.Entries)}, {"FIRST", strconv.FormatInt(r.FirstSequence, 10)}, {"LAST", strconv.FormatInt(r.LastSequence, 10)},
		{"ANCHOR", r.Anchor}, {"LAST HASH", r.LastHash},
	}
}

// auditVerifyCommand returns the command that checks that an export of audit entries is an unbroken
// hash chain, as core/audit defines it. The command needs no database and no settings, so a
// customer can run it too.
func auditVerifyCommand() *cobra.Command {
	var lastHash string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Prove that an export of GET /v1/audit/export is an unbroken chain",
		Long: "Checks an export of GET /v1/audit/export offline: the hash of each entry, the order, and that no entry is missing\n" +
			"between the first and the last. The command needs no database and no settings.\n\n" +
			"The command exits with 0 if the file is one unbroken chain, with 1 if it is not or does not end with --last-hash,\n" +
			"and with 4 if the file cannot be read. The error names the first line that does not continue the chain.\n" +
			"A chain that does not begin with entry 1 is unbroken only if a later entry records that the entries before it\n" +
			"were deleted. ANCHOR is the hash of the entry before the first one.\n\n" +
			"The file alone cannot show whether entries are missing at its end. Compare LAST HASH with the newest entry of\n" +
			"GET /v1/audit, or pass that hash as --last-hash.",
		Args: cli.OneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			verified, err := verifyFile(args[0])
			if err != nil {
				return err
			}
			if lastHash != "" && verified.LastHash != lastHash {
				return cli.WithFix(fmt.Errorf("the last entry of %s has the hash %s", args[0], verified.LastHash),
					"entries at the end are missing, or the export is older than this hash: export again")
			}
			return cli.Show(cmd, proofRow{verified.Entries, verified.First, verified.Last, verified.Anchor, verified.LastHash})
		},
	}
	cmd.Flags().StringVar(&lastHash, "last-hash", "", "the hash that the last entry must have, from the newest entry of GET /v1/audit")
	return cmd
}

func verifyFile(name string) (audit.Proof, error) {
	file, err := os.Open(name)
	if err != nil {
		return audit.Proof{}, cli.ExternalError(err)
	}
	defer func() { _ = file.Close() }()
	verified, err := audit.Verify(file)
	var broken *audit.BrokenError
	switch {
	case errors.As(err, &broken):
		return verified, cli.WithFix(fmt.Errorf("%s is not an unbroken chain: %w", name, err),
			"export again; if a new export is broken too, somebody changed entries in the database")
	case err != nil:
		return verified, cli.ExternalError(err)
	case verified.Entries == 0:
		return verified, cli.WithFix(fmt.Errorf("%s has no entries", name), "export again")
	}
	return verified, nil
}
