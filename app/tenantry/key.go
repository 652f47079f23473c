// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/access"
)

func keyCommand() *cobra.Command {
	group := &cobra.Command{Use: "key", Short: "API keys of accounts"}
	for _, cmd := range []*cobra.Command{createKeyCommand(), listKeysCommand(), rotateKeyCommand(), revokeKeyCommand()} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

func createKeyCommand() *cobra.Command {
	var name, form string
	cmd := accountAct(&cobra.Command{
		Use:   "create --account ACCOUNT",
		Short: "Make an API key; it is shown this once",
	}, func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, owner access.Account) error {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return cli.Usage(err)
		}
		if form := access.Form(form); form != access.Live && form != access.Trial {
			return cli.Usage(errors.New("--form is live or trial"))
		}
		if utf8.RuneCountInString(name) > 100 || cli.Printable(name) != name {
			return cli.Usage(errors.New("--name is one line of at most 100 characters"))
		}
		key, text, err := access.NewKey(rand.Reader, c.KeyPrefix, access.Form(form), owner.ID, name, time.Now())
		if err != nil {
			return err
		}
		if err := store.AddKey(ctx, key); err != nil {
			return err
		}
		return cli.Show(cmd, keyOf(key, text))
	})
	cmd.Flags().StringVar(&name, "name", "", "what the key is for")
	cmd.Flags().StringVar(&form, "form", "live", "live or trial")
	return cmd
}

func listKeysCommand() *cobra.Command {
	var on string
	cmd := &cobra.Command{
		Use:   "list [--account ACCOUNT]",
		Short: "List API keys, revoked ones too, oldest first",
		Long: "Lists the API keys of one account, or of all, oldest first, with those that were revoked or rotated. A key\n" +
			"itself is not stored and cannot be shown; its last four characters (key_hint) tell keys apart.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			owner, err := optionalAccount(ctx, store, on)
			if err != nil {
				return err
			}
			keys, err := store.IssuedKeys(ctx, owner)
			if err != nil {
				return err
			}
			rows := make([]issuedRow, len(keys))
			for i, key := range keys {
				rows[i] = issuedOf(key)
			}
			return cli.List(cmd, "keys", rows)
		}),
	}
	cmd.Flags().StringVar(&on, "account", "", "only keys of this account: its id or e-mail address")
	return cmd
}

func rotateKeyCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "rotate --key KEY",
		Short: "Replace an API key by a new one, which is shown this once",
		Long: "Replaces an API key. The old one is dead at once; the new one has its account and name, is of the form live,\n" +
			"and is shown this once. To have both for a while, make a second one with `key create` and revoke the first\n" +
			"when nothing uses it any more.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.Usage(err)
			}
			// The account and the name are the old key's.
			fresh, text, err := access.NewKey(rand.Reader, c.KeyPrefix, access.Live, "", "", time.Now())
			if err != nil {
				return err
			}
			if fresh, err = store.ReplaceKey(ctx, id, fresh); err != nil {
				return err
			}
			return cli.Show(cmd, rotatedRow{keyOf(fresh, text), "rotated", id, cli.Stamp(fresh.CreatedAt)})
		}),
	}
	named(cmd, &id)
	return cmd
}

func revokeKeyCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "revoke --key KEY",
		Short: "End an API key for good, at once",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			key, err := store.RevokeKey(ctx, id, time.Now())
			if err != nil {
				return err
			}
			return cli.Show(cmd, revokedRow{key.ID, string(key.Status()), cli.Stamp(key.RevokedAt)})
		}),
	}
	named(cmd, &id)
	return cmd
}

// named gives a command the flag that names a key.
func named(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "key", "", "the key's id, as key list shows it; never the key itself")
	cli.Require(cmd, "key")
}
