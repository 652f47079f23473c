// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/core/access"
)

type keyRow struct {
	KeyID     string `json:"key_id"`
	AccountID string `json:"account_id"`
	APIKey    string `json:"api_key"`
	Hint      string `json:"key_hint"`
	Form      string `json:"form"`
	Name      string `json:"name"`
	CreatedAt string `json:"created_at"`
}

func (r keyRow) columns() [][2]string {
	return [][2]string{
		{"KEY", r.KeyID}, {"ACCOUNT", r.AccountID}, {"API KEY (shown this once)", r.APIKey}, {"FORM", r.Form},
		{"NAME", r.Name}, {"CREATED", r.CreatedAt},
	}
}

func keyCommand() *cobra.Command {
	group := &cobra.Command{Use: "key", Short: "API keys of accounts"}
	var account, name, form string
	create := &cobra.Command{
		Use:   "create --account ACCOUNT",
		Short: "Make an API key; it is shown this once",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			c, err := loadConfig(cmd.Flags(), nil)
			if err != nil {
				return usageError{err}
			}
			owner, err := store.FindAccount(ctx, account)
			if err != nil {
				return err
			}
			key, text, err := access.NewKey(rand.Reader, c.KeyPrefix, access.Form(form), owner.ID, name, time.Now())
			if err != nil {
				return err
			}
			if err := store.AddKey(ctx, key); err != nil {
				return err
			}
			return show(cmd, keyRow{key.ID, string(key.Account), text.Reveal(), key.Hint, string(key.Form), key.Name, stamp(key.CreatedAt)})
		}),
	}
	create.Flags().StringVar(&account, "account", "", "the account's id or e-mail address")
	create.Flags().StringVar(&name, "name", "", "what the key is for")
	create.Flags().StringVar(&form, "form", "live", "live or trial")
	require(create, "account")
	Config{}.flags(create.Flags())
	group.AddCommand(create)
	return group
}
