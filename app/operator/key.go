// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
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
	var flags boundsFlags
	cmd := withAccount(&cobra.Command{
		Use:   "create --account ACCOUNT",
		Short: "Create an API key, which is shown only once",
		Long: "Creates an API key of an account and shows it once. Without flags the key may do everything, for all tenants\n" +
			"of the account, from every address and without end. --scope, --tenant, --cidr and --expires limit it. The\n" +
			"bounds of a key never change; a rotation keeps them.",
	}, func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, owner access.Account) error {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return cli.UsageError(err)
		}
		if form := access.KeyForm(form); form != access.Live && form != access.Trial {
			return cli.UsageError(errors.New("--form must be live or trial"))
		}
		if err := checkName(name); err != nil {
			return err
		}
		now := time.Now()
		bounds, err := flags.bounds(cmd, now)
		if err != nil {
			return err
		}
		key, text, err := access.NewKey(rand.Reader, c.KeyPrefix, access.KeyForm(form), owner.ID, name, now)
		if err != nil {
			return err
		}
		key.Bounds = bounds
		if err := store.AddKey(ctx, key); err != nil {
			return err
		}
		return cli.Show(cmd, newCreatedKeyRow(key, text))
	})
	cmd.Flags().StringVar(&name, "name", "", "what the key is for")
	cmd.Flags().StringVar(&form, "form", "live", "live or trial")
	flags.addFlags(cmd)
	return cmd
}

func listKeysCommand() *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use:   "list [--account ACCOUNT]",
		Short: "List API keys, including revoked ones, oldest first",
		Long: "Lists the API keys of one account, or of all accounts, oldest first, including revoked and rotated keys. Keys\n" +
			"themselves are not stored and cannot be shown. The last four characters (key_hint) identify a key. The last\n" +
			"use is exact to a minute, and appears up to a minute after the request.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			owner, err := findOptionalAccount(ctx, store, account)
			if err != nil {
				return err
			}
			keys, err := store.IssuedKeys(ctx, owner)
			if err != nil {
				return err
			}
			rows := make([]storedKeyRow, len(keys))
			for i, key := range keys {
				rows[i] = newStoredKeyRow(key)
			}
			return cli.List(cmd, "keys", rows)
		}),
	}
	cmd.Flags().StringVar(&account, "account", "", "only keys of this account: its id or e-mail address")
	return cmd
}

func rotateKeyCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "rotate --key KEY",
		Short: "Replace an API key with a new one, which is shown only once",
		Long: "Replaces an API key. The old key is revoked at once. The new key has the same account, name and bounds and the\n" +
			"form live, and it is shown only once. To use both keys for a while, create a second key with `key create`, and\n" +
			"revoke the first key when nothing uses it.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.UsageError(err)
			}
			// ReplaceKey copies the account, the name and the bounds of the old key.
			newKey, text, err := access.NewKey(rand.Reader, c.KeyPrefix, access.Live, "", "", time.Now())
			if err != nil {
				return err
			}
			if newKey, err = store.ReplaceKey(ctx, id, newKey); err != nil {
				return err
			}
			return cli.Show(cmd, rotatedKeyRow{newCreatedKeyRow(newKey, text), "rotated", id, cli.FormatTime(newKey.CreatedAt)})
		}),
	}
	requireKeyFlag(cmd, &id)
	return cmd
}

func revokeKeyCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "revoke --key KEY",
		Short: "Revoke an API key permanently, at once",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			key, err := store.RevokeKey(ctx, id, time.Now())
			if err != nil {
				return err
			}
			return cli.Show(cmd, revokedKeyRow{key.ID, string(key.Status()), cli.FormatTime(key.RevokedAt)})
		}),
	}
	requireKeyFlag(cmd, &id)
	return cmd
}

func requireKeyFlag(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "key", "", "the key's id, as key list shows it; never the key itself")
	cli.RequireFlags(cmd, "key")
}

// createdKeyRow shows a new API key. APIKey is not stored and cannot be shown again.
type createdKeyRow struct {
	KeyID     string `json:"key_id"`
	AccountID string `json:"account_id"`
	APIKey    string `json:"api_key"`
	Hint      string `json:"key_hint"`
	Form      string `json:"form"`
	Name      string `json:"name"`
	CreatedAt string `json:"created_at"`
}

func newCreatedKeyRow(k access.Key, text secret.Text) createdKeyRow {
	return createdKeyRow{k.ID, string(k.Account), text.Reveal(), k.Hint, string(k.Form), k.Name, cli.FormatTime(k.CreatedAt)}
}

// Columns implements cli.Row.
func (r createdKeyRow) Columns() [][2]string {
	return [][2]string{
		{"KEY", r.KeyID}, {"ACCOUNT", r.AccountID}, {"API KEY (shown this once)", r.APIKey}, {"FORM", r.Form},
		{"NAME", r.Name}, {"CREATED", r.CreatedAt},
	}
}

// rotatedKeyRow shows the API key that replaces a rotated key.
type rotatedKeyRow struct {
	createdKeyRow

	Status    string `json:"status"`
	Replaced  string `json:"replaced_key_id"`
	RotatedAt string `json:"rotated_at"`
}

// Columns implements cli.Row.
func (r rotatedKeyRow) Columns() [][2]string {
	return append(r.createdKeyRow.Columns(), [2]string{"REPLACES", r.Replaced})
}

type revokedKeyRow struct {
	KeyID     string `json:"key_id"`
	Status    string `json:"status"`
	RevokedAt string `json:"revoked_at"`
}

// Columns implements cli.Row.
func (r revokedKeyRow) Columns() [][2]string {
	return [][2]string{{"KEY", r.KeyID}, {"STATUS", r.Status}, {"REVOKED", r.RevokedAt}}
}

type storedKeyRow struct {
	KeyID     string  `json:"key_id"`
	AccountID string  `json:"account_id"`
	Hint      string  `json:"key_hint"`
	Form      string  `json:"form"`
	Name      string  `json:"name"`
	Status    string  `json:"status"`
	CreatedAt string  `json:"created_at"`
	RevokedAt *string `json:"revoked_at"`
	LastUsed  *string `json:"last_used_at"`
	boundsRow
}

func newStoredKeyRow(k access.Key) storedKeyRow {
	return storedKeyRow{k.ID, string(k.Account), k.Hint, string(k.Form), k.Name, string(k.Status()), cli.FormatTime(k.CreatedAt), optionalStamp(k.RevokedAt), optionalStamp(k.LastUsedAt), newBoundsRow(k)}
}

// Columns implements cli.Row.
func (r storedKeyRow) Columns() [][2]string {
	return append([][2]string{
		{"KEY", r.KeyID}, {"ACCOUNT", r.AccountID}, {"HINT", "…" + r.Hint}, {"FORM", r.Form}, {"NAME", r.Name},
		{"STATUS", r.Status}, {"CREATED", r.CreatedAt}, {"LAST USED", orDash(r.LastUsed)}, {"REVOKED", orDash(r.RevokedAt)},
	}, r.columns()...)
}
