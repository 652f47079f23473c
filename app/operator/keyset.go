// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/audit"
)

type keysetKeyRow struct {
	KeyID  string `json:"key_id"`
	Status string `json:"status"`
}

type keysetRow struct {
	File    string         `json:"keyset_file"`
	Primary string         `json:"primary_key_id"`
	Keys    []keysetKeyRow `json:"keys"`
}

func newKeysetRow(file string, keys []secrets.Key) keysetRow {
	row := keysetRow{File: file}
	for _, k := range keys {
		row.Keys = append(row.Keys, keysetKeyRow{k.ID, string(k.Status)})
		if k.Status == secrets.Primary {
			row.Primary = k.ID
		}
	}
	return row
}

// Columns implements cli.Row.
func (r keysetRow) Columns() [][2]string {
	columns := [][2]string{{"KEYSET", r.File}}
	for _, k := range r.Keys {
		columns = append(columns, [2]string{"KEY", k.KeyID + " " + k.Status})
	}
	return columns
}

type keysetOperation struct {
	action audit.Action // empty for an operation that changes nothing
	run    func(path string) ([]secrets.Key, error)
}

func keysetCommand() *cobra.Command {
	group := &cobra.Command{Use: "keyset", Short: "The keys that encrypt stored secrets"}
	create := &cobra.Command{
		Use:   "create",
		Short: "Create the keyset; an existing keyset is never overwritten",
		Long: "Creates a keyset with one key in the file of the setting `keyset_file`, readable by its owner only. The\n" +
			"service creates a missing keyset at its first start. Create it yourself to use the same keyset in several replicas.",
		RunE: withKeyset(func() keysetOperation { return keysetOperation{audit.CreateKeyset, secrets.CreateKeyset} }),
	}
	var stage bool
	rotate := &cobra.Command{
		Use:   "rotate [--stage]",
		Short: "Encrypt with a new key from now on; older keys can still decrypt",
		Long: "Adds a key to the keyset and encrypts with it from now on. If there is a staged key, no key is added and the\n" +
			"staged key is used. Older keys stay, to decrypt existing secrets. A running service loads the changed file\n" +
			"automatically, within seconds.\n\n" +
			"If replicas have separate copies of the file, rotate in two steps, so that no replica lacks a key that is in use:\n" +
			"  1. tenantry keyset rotate --stage    adds a key that is not used to encrypt yet; copy the file to every replica\n" +
			"  2. tenantry keyset rotate            encrypts with the staged key; copy the file to every replica again",
		RunE: withKeyset(func() keysetOperation {
			if stage {
				return keysetOperation{audit.RotateKeyset, secrets.Stage}
			}
			return keysetOperation{audit.RotateKeyset, secrets.Rotate}
		}),
	}
	rotate.Flags().BoolVar(&stage, "stage", false, "only add the key; the next rotation starts to encrypt with it")
	list := &cobra.Command{
		Use:   "list",
		Short: "List the ids and statuses of the keys, oldest first; never the keys themselves",
		RunE:  withKeyset(func() keysetOperation { return keysetOperation{run: secrets.Keys} }),
	}
	for _, cmd := range []*cobra.Command{create, rotate, list} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

// withKeyset returns a RunE that runs an operation and shows the keyset. If the operation changes
// the keyset, the RunE records the change in the audit log of the database, if there is a database.
// It calls chooseOperation after the flags are parsed.
func withKeyset(chooseOperation func() keysetOperation) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return cli.UsageError(err)
		}
		operation := chooseOperation()
		keys, err := operation.run(c.KeysetFile)
		if err != nil {
			return wiring.KeysetError(c.KeysetFile, err)
		}
		row := newKeysetRow(c.KeysetFile, keys)
		if operation.action != "" {
			err = wiring.RecordAction(cmd.Context(), c, operation.action, map[string]string{
				"primary_key_id": row.Primary, "newest_key_id": row.Keys[len(row.Keys)-1].KeyID,
			})
		}
		return errors.Join(err, cli.Show(cmd, row))
	}
}
