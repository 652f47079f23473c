// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

func tenantCommand() *cobra.Command {
	group := &cobra.Command{Use: "tenant", Short: "Tenants that accounts hold, and the managed ones among them"}
	for _, cmd := range []*cobra.Command{listTenantsCommand(), tenantDayCommand(), assignCommand(), withdrawCommand()} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

func listTenantsCommand() *cobra.Command {
	var on string
	cmd := &cobra.Command{
		Use:   "list [--account ACCOUNT]",
		Short: "List the tenants that accounts hold, as stored",
		Long: "Lists the tenants of one account, or of all. What it says is stored; the mail platform is not asked.\n\n" +
			"Status is ready (mailboxes can be created), pending (the next step says what is missing), failed (the mail\n" +
			"server cannot be prepared) or revoked (the tenant's administrator took the consent back). Days, by which limits\n" +
			"count, begin at midnight in the time zone. Counted is when the messages of its mailboxes were last counted,\n" +
			"blocked how many of these are blocked as they sent too much.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.Usage(err)
			}
			owners, err := owners(ctx, store, on)
			if err != nil {
				return err
			}
			rows := []heldRow{}
			for _, owner := range owners {
				held, err := heldBy(ctx, store, owner, c.RequireSMTPAuth)
				if err != nil {
					return err
				}
				rows = append(rows, held...)
			}
			return cli.List(cmd, "tenants", rows)
		}),
	}
	cmd.Flags().StringVar(&on, "account", "", "only tenants of this account: its id or e-mail address")
	return cmd
}

// heldBy are an account's tenants.
func heldBy(ctx context.Context, store *bunstore.Store, owner access.Account, requireSMTPAuth bool) (rows []heldRow, err error) {
	held, err := store.Tenants(ctx, owner.ID)
	if err != nil {
		return nil, err
	}
	standings, err := store.SendStandings(ctx, owner.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range held {
		sends, err := store.Sending(ctx, owner.ID, t.GUID, time.Now())
		place := ""
		if err == nil {
			place, _, err = store.Day(ctx, t.GUID)
		}
		if errors.Is(err, fault.TenantNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		row := heldOf(owner, t, sends, requireSMTPAuth)
		row.TimeZone = place
		row.CountedAt, row.Blocked = since(standings[t.GUID].CountedAt), standings[t.GUID].Blocked
		rows = append(rows, row)
	}
	return rows, nil
}

// owners are the accounts that hold tenants, or the one that is named.
func owners(ctx context.Context, store *bunstore.Store, on string) ([]access.Account, error) {
	if on != "" {
		owner, err := store.FindAccount(ctx, on)
		return []access.Account{owner}, err
	}
	all, err := store.Accounts(ctx)
	var holding []access.Account
	for _, acc := range all {
		if acc.TenantsHeld > 0 {
			holding = append(holding, acc)
		}
	}
	return holding, err
}

func assignCommand() *cobra.Command {
	var guid, account string
	cmd := &cobra.Command{
		Use:   "assign --tenant GUID --account ACCOUNT",
		Short: "Assign a managed tenant to an account",
		Long: "Makes the account the holder of a tenant that you manage. The tenant's administrator must have consented to\n" +
			"the application before. It takes one of the account's tenant slots.",
		RunE: withService(func(ctx context.Context, cmd *cobra.Command, s *service) error {
			owner, err := s.store.FindAccount(ctx, account)
			if err != nil {
				return err
			}
			t, err := s.tenants.Assign(ctx, owner, tenant.GUID(guid))
			if err != nil {
				return err
			}
			return cli.Show(cmd, assignedRow{t.ID, string(t.GUID), string(owner.ID), t.Name, t.BuiltinDomain, t.Managed, cli.Stamp(t.ConsentedAt)})
		}),
	}
	cmd.Flags().StringVar(&guid, "tenant", "", tenantHelp)
	cmd.Flags().StringVar(&account, "account", "", accountHelp)
	cli.Require(cmd, "tenant", "account")
	return cmd
}

func withdrawCommand() *cobra.Command {
	var guid string
	cmd := &cobra.Command{
		Use:   "withdraw --tenant GUID",
		Short: "End the assignment of a managed tenant",
		Long: "Takes a managed tenant from the account that it is assigned to, with what is stored of its domains and\n" +
			"mailboxes. Our mail flow rules, which block mailboxes, are taken out of the tenant first; nothing else is\n" +
			"changed there. Where the mail platform does not let them go, the tenant is withdrawn all the same, and a\n" +
			"warning names the rules that its administrator has to remove.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			id := tenant.LookupGUID(guid)
			owner, err := store.Assigned(ctx, id)
			if err != nil {
				return err
			}
			s, end, err := leaving(ctx, cmd, store, owner, id)
			if err != nil {
				return err
			}
			defer end()
			gone, err := s.Withdraw(ctx, id)
			if err != nil {
				return err
			}
			tellOfRules(cmd, id, gone.Unruled)
			return cli.Show(cmd, withdrawnOf(id, gone))
		}),
	}
	cmd.Flags().StringVar(&guid, "tenant", "", tenantHelp)
	cli.Require(cmd, "tenant")
	return cmd
}

const tenantHelp = "the mail platform's id of the tenant"

// withService runs an operator's command that needs the mail platform too.
func withService(act func(context.Context, *cobra.Command, *service) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		s, err := serviceOf(cmd)
		if err != nil {
			return err
		}
		defer func() { _ = s.close(context.WithoutCancel(cmd.Context())) }()
		return act(cmd.Context(), cmd, s)
	}
}

// serviceOf assembles the system with the settings of a command.
func serviceOf(cmd *cobra.Command) (*service, error) {
	c, err := settings.Load(cmd.Flags(), nil)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return assemble(cmd.Context(), c, commandLog(cmd, c.Level()), c.PublicURL, outside{})
}
