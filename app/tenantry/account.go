// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/core/access"
)

type accountRow struct {
	AccountID   string `json:"account_id"`
	Email       string `json:"email"`
	Plan        string `json:"plan"`
	Active      bool   `json:"active"`
	TenantSlots int    `json:"tenant_slots"`
	CreatedAt   string `json:"created_at"`
}

func accountOf(a access.Account) accountRow {
	return accountRow{string(a.ID), a.Email, a.Plan.Name, a.Active, a.Plan.TenantSlots, stamp(a.CreatedAt)}
}

func (r accountRow) columns() [][2]string {
	return [][2]string{
		{"ACCOUNT", r.AccountID}, {"EMAIL", r.Email}, {"PLAN", r.Plan}, {"ACTIVE", strconv.FormatBool(r.Active)},
		{"TENANT SLOTS", strconv.Itoa(r.TenantSlots)}, {"CREATED", r.CreatedAt},
	}
}

func accountCommand() *cobra.Command {
	group := &cobra.Command{Use: "account", Short: "Accounts of customers"}
	var email, plan string
	var slots int
	create := &cobra.Command{
		Use:   "create --email ADDRESS --plan PLAN",
		Short: "Make an account",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			if slots < 0 {
				return usageError{errors.New("--tenant-slots is not negative")}
			}
			if err := access.CheckEmail(email); err != nil {
				return err
			}
			account, err := store.CreateAccount(ctx, email, plan, slots, time.Now())
			if err != nil {
				return err
			}
			return show(cmd, accountOf(account))
		}),
	}
	create.Flags().StringVar(&email, "email", "", "address of the account's first member")
	create.Flags().StringVar(&plan, "plan", "complete", "api_starter, api_growth, api_scale, complete or legacy_trial")
	create.Flags().IntVar(&slots, "tenant-slots", 0, "tenants the account may hold, unless those of the plan")
	require(create, "email")
	accounts := &cobra.Command{
		Use:   "list",
		Short: "List all accounts, oldest first",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			accounts, err := store.Accounts(ctx)
			if err != nil {
				return err
			}
			rows := make([]accountRow, len(accounts))
			for i, account := range accounts {
				rows[i] = accountOf(account)
			}
			return list(cmd, "accounts", rows)
		}),
	}
	for _, cmd := range []*cobra.Command{create, accounts} {
		Config{}.flags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

// require makes a flag's absence a usage error.
func require(cmd *cobra.Command, names ...string) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range names {
			if !cmd.Flags().Changed(name) {
				return usageError{fmt.Errorf("--%s is missing", name)}
			}
		}
		return nil
	}
}

// withStore runs an operator's command on the database itself.
func withStore(act func(context.Context, *cobra.Command, *bunstore.Store) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(cmd.Flags(), nil)
		if err != nil {
			return usageError{err}
		}
		level, err := logLevel(c.LogLevel)
		if err != nil {
			return usageError{err}
		}
		store, err := openStore(cmd.Context(), c, telemetry.Logger(cmd.ErrOrStderr(), max(level, 4)))
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		return act(cmd.Context(), cmd, store)
	}
}
