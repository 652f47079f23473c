// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
)

type keysetKey struct {
	KeyID  string `json:"key_id"`
	Status string `json:"status"`
}

func (k keysetKey) Columns() [][2]string { return [][2]string{{"KEY", k.KeyID}, {"STATUS", k.Status}} }

// keysetRow is a keyset without the material of its keys.
type keysetRow struct {
	File    string      `json:"keyset_file"`
	Primary string      `json:"primary_key_id"`
	Keys    []keysetKey `json:"keys"`
}

func keysetOf(file string, keys []secrets.Key) keysetRow {
	row := keysetRow{File: file}
	for _, k := range keys {
		row.Keys = append(row.Keys, keysetKey{k.ID, string(k.Status)})
		if k.Status == secrets.Primary {
			row.Primary = k.ID
		}
	}
	return row
}

func (r keysetRow) Columns() [][2]string {
	columns := [][2]string{{"KEYSET", r.File}}
	for _, k := range r.Keys {
		columns = append(columns, [2]string{"KEY", k.KeyID + " " + k.Status})
	}
	return columns
}

// keysetAct is one of the commands on the keyset file.
type keysetAct struct {
	action audit.Action // none: it only looks
	run    func(path string) ([]secrets.Key, error)
}

func keysetCommand() *cobra.Command {
	group := &cobra.Command{Use: "keyset", Short: "The keys that seal stored secrets"}
	create := &cobra.Command{
		Use:   "create",
		Short: "Make the keyset; one that exists is never overwritten",
		Long: "Makes a keyset with one key in the file of the setting `keyset_file`, readable by its owner only. The\n" +
			"service makes it at its first start where it is missing; make it yourself to hand the same one to several replicas.",
		RunE: onKeyset(func() keysetAct { return keysetAct{audit.CreateKeyset, secrets.CreateKeyset} }),
	}
	var stage bool
	rotate := &cobra.Command{
		Use:   "rotate [--stage]",
		Short: "Seal with a new key from now on; what older keys sealed still opens",
		Long: "Adds a key to the keyset and seals with it from now on. Older keys stay: what they sealed still opens. A\n" +
			"service that runs takes up the changed file by itself, within seconds.\n\n" +
			"Replicas that get the file separately rotate in two steps, so that none meets a key it does not have:\n" +
			"  1. tenantry keyset rotate --stage    adds a key that nobody seals with yet; give the file to every replica\n" +
			"  2. tenantry keyset rotate            seals with the staged key; give the file to every replica again",
		RunE: onKeyset(func() keysetAct {
			if stage {
				return keysetAct{audit.RotateKeyset, secrets.Stage}
			}
			return keysetAct{audit.RotateKeyset, secrets.Rotate}
		}),
	}
	rotate.Flags().BoolVar(&stage, "stage", false, "only add the key; the next rotation seals with it")
	keys := &cobra.Command{
		Use:   "list",
		Short: "List the keys by id, oldest first; never their material",
		RunE:  onKeyset(func() keysetAct { return keysetAct{run: secrets.Keys} }),
	}
	for _, cmd := range []*cobra.Command{create, rotate, keys} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

func onKeyset(choose func() keysetAct) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return cli.Usage(err)
		}
		act := choose()
		keys, err := act.run(c.KeysetFile)
		if err != nil {
			return keysetFailure(c.KeysetFile, err)
		}
		row := keysetOf(c.KeysetFile, keys)
		if err := cli.Show(cmd, row); err != nil || act.action == "" {
			return err
		}
		return recordAct(cmd.Context(), c, act.action, map[string]string{
			"primary_key_id": row.Primary, "newest_key_id": row.Keys[len(row.Keys)-1].KeyID,
		})
	}
}

// keysetFailure says what to do about each way a keyset can fail.
func keysetFailure(file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return cli.WithFix(fmt.Errorf("%s exists already", file), "secrets are sealed with that keyset: `tenantry keyset rotate` adds a key to it")
	case errors.Is(err, fs.ErrNotExist):
		return cli.WithFix(fmt.Errorf("there is no keyset at %s", file), "is the setting keyset_file right? `tenantry keyset create` makes the first keyset")
	case errors.Is(err, secrets.ErrStaged):
		return cli.WithFix(err, "give the file to every replica, then seal with the staged key: `tenantry keyset rotate`")
	case errors.Is(err, fs.ErrPermission):
		return cli.WithFix(fmt.Errorf("the keyset may not be used here: %w", err), cli.FixUser)
	default:
		return cli.WithFix(err, "look at the file of the setting keyset_file")
	}
}
