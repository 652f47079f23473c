// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/access"
)

// storeAct is an operator's command that needs the database alone.
type storeAct func(context.Context, *cobra.Command, *bunstore.Store) error

func accountCommand() *cobra.Command {
	group := &cobra.Command{Use: "account", Short: "Accounts of customers"}
	for _, cmd := range []*cobra.Command{
		createAccountCommand(), listAccountsCommand(), showAccountCommand(), planCommand(),
		suspendCommand(), resumeCommand(), closeCommand(),
	} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

func createAccountCommand() *cobra.Command {
	var email, plan string
	var slots int
	cmd := &cobra.Command{
		Use:   "create --email ADDRESS [--plan PLAN] [--tenant-slots N]",
		Short: "Make an account",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			if err := checkSlots(slots); err != nil {
				return err
			}
			if err := access.CheckEmail(email); err != nil {
				return err
			}
			account, err := store.CreateAccount(ctx, email, plan, slots, time.Now())
			if err != nil {
				return err
			}
			return cli.Show(cmd, accountOf(account))
		}),
	}
	cmd.Flags().StringVar(&email, "email", "", "address of the account's first member")
	cmd.Flags().StringVar(&plan, "plan", "complete", planNames())
	cmd.Flags().IntVar(&slots, "tenant-slots", 0, "tenants the account may hold, instead of its plan's number")
	cli.Require(cmd, "email")
	return cmd
}

func listAccountsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all accounts, closed ones too, oldest first",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			accounts, err := store.Accounts(ctx)
			if err != nil {
				return err
			}
			rows := make([]standingRow, len(accounts))
			for i, account := range accounts {
				rows[i] = standingOf(account)
			}
			return cli.List(cmd, "accounts", rows)
		}),
	}
}

func showAccountCommand() *cobra.Command {
	return accountAct(&cobra.Command{
		Use:   "show --account ACCOUNT",
		Short: "Show one account",
	}, func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, acc access.Account) error {
		keys, err := store.IssuedKeys(ctx, acc.ID)
		if err != nil {
			return err
		}
		shown := accountDetail{standingRow: standingOf(acc)}
		for _, k := range keys {
			if k.Status() == access.StatusActive {
				shown.ActiveKeys++
			}
		}
		return cli.Show(cmd, shown)
	})
}

// accountAct completes a command on the account that --account names.
func accountAct(cmd *cobra.Command, act func(context.Context, *cobra.Command, *bunstore.Store, access.Account) error) *cobra.Command {
	var on string
	cmd.Flags().StringVar(&on, "account", "", accountHelp)
	cli.Require(cmd, "account")
	cmd.RunE = withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
		acc, err := store.FindAccount(ctx, on)
		if err != nil {
			return err
		}
		return act(ctx, cmd, store, acc)
	})
	return cmd
}

const accountHelp = "the account's id or e-mail address"

func planNames() string {
	var names []string
	for _, plan := range access.Plans() {
		names = append(names, plan.Name+" ("+strconv.Itoa(plan.TenantSlots)+" tenants)")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// mostSlots is far more than anybody holds, and fits any database.
const mostSlots = 1_000_000

func checkSlots(slots int) error {
	if slots < 0 || slots > mostSlots {
		return cli.Usage(fmt.Errorf("--tenant-slots is from 0 to %d", mostSlots))
	}
	return nil
}

// commandLog is the log of a command that ends at once. What goes wrong is
// its error; the log has more to say only for those who look for a fault.
func commandLog(cmd *cobra.Command, level slog.Level) *slog.Logger {
	if level > slog.LevelDebug {
		return slog.New(slog.DiscardHandler)
	}
	return telemetry.Logger(cmd.ErrOrStderr(), level)
}

// tellOfNewDatabase warns a person who looks for what is there before a
// database is made: in another folder than the service's nothing is there.
func tellOfNewDatabase(cmd *cobra.Command, c settings.Config) {
	path, embedded := strings.CutPrefix(c.DatabaseURL, "sqlite://")
	if !embedded || cmd.Name() == "create" || cli.JSONWanted(cmd) {
		return
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		cli.Warn(cmd, "new_database", "there was no database at "+path+", so this one is new and empty; are the settings those of the service?")
	}
}

// withStore runs an operator's command on the database itself.
func withStore(act storeAct) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, err := settings.Load(cmd.Flags(), nil)
		if err != nil {
			return cli.Usage(err)
		}
		tellOfNewDatabase(cmd, c)
		store, err := openStore(cmd.Context(), c, commandLog(cmd, c.Level()))
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		return act(cmd.Context(), cmd, store)
	}
}
