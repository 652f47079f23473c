// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/access"
)

func accountCommand() *cobra.Command {
	group := &cobra.Command{Use: "account", Short: "Accounts of customers"}
	for _, cmd := range []*cobra.Command{
		createAccountCommand(), listAccountsCommand(), showAccountCommand(), changePlanCommand(),
		setAccountCommand(), suspendCommand(), resumeCommand(), closeCommand(),
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
		Short: "Create an account",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(checkTenantSlots(slots), checkPlanName(plan)); err != nil {
				return err
			}
			if err := access.CheckEmail(email); err != nil {
				return cli.UsageError(err)
			}
			return withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
				account, err := store.CreateAccount(ctx, email, plan, slots, time.Now())
				if err != nil {
					return err
				}
				return cli.Show(cmd, newAccountRow(account))
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&email, "email", "", "address of the account's first member")
	cmd.Flags().StringVar(&plan, "plan", "complete", planNames())
	cmd.Flags().IntVar(&slots, "tenant-slots", 0, "maximum number of tenants, instead of the plan's number")
	cli.RequireFlags(cmd, "email")
	return cmd
}

func listAccountsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all accounts, including closed ones, oldest first",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			accounts, err := store.Accounts(ctx)
			if err != nil {
				return err
			}
			rows := make([]accountStatusRow, len(accounts))
			for i, account := range accounts {
				rows[i] = newAccountStatusRow(account)
			}
			return cli.List(cmd, "accounts", rows)
		}),
	}
}

func showAccountCommand() *cobra.Command {
	return withAccount(&cobra.Command{
		Use:   "show --account ACCOUNT",
		Short: "Show one account",
	}, func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, acc access.Account) error {
		keys, err := store.IssuedKeys(ctx, acc.ID)
		if err != nil {
			return err
		}
		accountSettings, err := store.Settings(ctx, acc.ID)
		if err != nil {
			return err
		}
		detail := accountDetailRow{accountStatusRow: newAccountStatusRow(acc), accountSettings: newAccountSettings(accountSettings)}
		for _, k := range keys {
			if k.Status() == access.StatusActive {
				detail.ActiveKeys++
			}
		}
		return cli.Show(cmd, detail)
	})
}

// accountFunc is the body of a command on one account.
type accountFunc func(context.Context, *cobra.Command, *bunstore.Store, access.Account) error

// withAccount adds the required flag --account to cmd and makes cmd call run with that account.
func withAccount(cmd *cobra.Command, run accountFunc) *cobra.Command {
	var idOrEmail string
	cmd.Flags().StringVar(&idOrEmail, "account", "", accountFlagHelp)
	cli.RequireFlags(cmd, "account")
	cmd.RunE = withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
		acc, err := store.FindAccount(ctx, idOrEmail)
		if err != nil {
			return err
		}
		return run(ctx, cmd, store, acc)
	})
	return cmd
}

const accountFlagHelp = "the account's id or e-mail address"

// planNames lists the plans and their tenant slots for the help of --plan.
func planNames() string {
	var names []string
	for _, plan := range access.Plans() {
		names = append(names, plan.Name+" ("+strconv.Itoa(plan.TenantSlots)+" tenants)")
	}
	lastIndex := len(names) - 1
	return strings.Join(names[:lastIndex], ", ") + " or " + names[lastIndex]
}

// maxTenantSlots is the largest value of --tenant-slots. It fits the integer column of both
// databases.
const maxTenantSlots = 1_000_000

func checkTenantSlots(slots int) error {
	if slots < 0 || slots > maxTenantSlots {
		return cli.UsageError(fmt.Errorf("--tenant-slots must be between 0 and %d", maxTenantSlots))
	}
	return nil
}

func checkPlanName(name string) error {
	if !slices.ContainsFunc(access.Plans(), func(p access.Plan) bool { return p.Name == name }) {
		return cli.UsageError(access.UnknownPlan())
	}
	return nil
}

func changePlanCommand() *cobra.Command {
	var plan string
	var slots int
	cmd := withAccount(&cobra.Command{
		Use:   "plan --account ACCOUNT [--plan PLAN] [--tenant-slots N]",
		Short: "Change an account's plan, or its number of tenants",
		Long: "Changes the plan of an account, or the number of tenants that it may hold. The change takes effect with\n" +
			"the next request.\n\n" +
			"Each plan has a number of tenants. Without --tenant-slots the account gets the number of the new plan, even if\n" +
			"the account had its own number before. To keep its own number, pass that number again. Without --plan the plan\n" +
			"stays, and --tenant-slots 0 sets the number of the plan.\n\n" +
			"An account that holds more tenants than it may hold keeps all of them. Meanwhile it cannot connect tenants,\n" +
			"or add domains, mailboxes or DNS records (402 tenant_limit_reached). A suspended account stays suspended.",
	}, func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, acc access.Account) error {
		if !cmd.Flags().Changed("plan") && !cmd.Flags().Changed("tenant-slots") {
			return cli.UsageError(errors.New("set --plan, --tenant-slots or both"))
		}
		if err := checkTenantSlots(slots); err != nil {
			return err
		}
		if err := checkPlanName(plan); cmd.Flags().Changed("plan") && err != nil {
			return err
		}
		changed, err := store.ChangePlan(ctx, acc.ID, plan, slots)
		if err != nil {
			return err
		}
		return cli.Show(cmd, newAccountStatusRow(changed))
	})
	cmd.Flags().StringVar(&plan, "plan", "", planNames())
	cmd.Flags().IntVar(&slots, "tenant-slots", 0, "maximum number of tenants; 0 means the plan's number")
	return cmd
}

func suspendCommand() *cobra.Command {
	return withAccount(&cobra.Command{
		Use:   "suspend --account ACCOUNT",
		Short: "Refuse all requests of an account, until it is resumed",
		Long: "Suspends an account: each of its requests is answered with 402 no_api_plan from now on. No data is\n" +
			"removed. Provisioning jobs, daily DNS checks, refreshes of integrations and deliveries of webhooks wait until\n" +
			"`account resume` ends the suspension. Send limits stay in force: mailboxes are still blocked, and unblocked at\n" +
			"the end of their day.",
	}, setActive(false))
}

func resumeCommand() *cobra.Command {
	return withAccount(&cobra.Command{
		Use:   "resume --account ACCOUNT",
		Short: "Resume a suspended account",
	}, setActive(true))
}

// setActive returns the body of a command that suspends or resumes an account.
func setActive(active bool) accountFunc {
	return func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, acc access.Account) error {
		changed, err := store.SetActive(ctx, acc.ID, active)
		if err != nil {
			return err
		}
		return cli.Show(cmd, newAccountStatusRow(changed))
	}
}

// accountRow shows an account, as `account create` prints it.
type accountRow struct {
	AccountID   string `json:"account_id"`
	Email       string `json:"email"`
	Plan        string `json:"plan"`
	Active      bool   `json:"active"`
	TenantSlots int    `json:"tenant_slots"`
	CreatedAt   string `json:"created_at"`
}

func newAccountRow(a access.Account) accountRow {
	return accountRow{string(a.ID), a.Email, a.Plan.Name, a.Active, a.Plan.TenantSlots, cli.FormatTime(a.CreatedAt)}
}

// Columns implements cli.Row.
func (r accountRow) Columns() [][2]string {
	return [][2]string{
		{"ACCOUNT", r.AccountID}, {"EMAIL", r.Email}, {"PLAN", r.Plan}, {"ACTIVE", strconv.FormatBool(r.Active)},
		{"TENANT SLOTS", strconv.Itoa(r.TenantSlots)}, {"CREATED", r.CreatedAt},
	}
}

// accountStatusRow shows a stored account with its status and its number of tenants.
type accountStatusRow struct {
	accountRow

	Status      string  `json:"status"`
	SlotsFrom   string  `json:"tenant_slots_from"`
	TenantsHeld int     `json:"tenants_held"`
	ClosedAt    *string `json:"closed_at"`
}

func newAccountStatusRow(a access.Account) accountStatusRow {
	row := accountStatusRow{accountRow: newAccountRow(a), Status: string(a.Status()), SlotsFrom: "plan", TenantsHeld: a.TenantCount, ClosedAt: optionalStamp(a.ClosedAt)}
	if a.OwnSlots != 0 {
		row.SlotsFrom = "account"
	}
	return row
}

// Columns implements cli.Row.
func (r accountStatusRow) Columns() [][2]string {
	return [][2]string{
		{"ACCOUNT", r.AccountID}, {"EMAIL", r.Email}, {"PLAN", r.Plan}, {"STATUS", r.Status},
		{"TENANTS", fmt.Sprintf("%d of %d", r.TenantsHeld, r.TenantSlots)}, {"SLOTS FROM", r.SlotsFrom},
		{"CREATED", r.CreatedAt}, {"CLOSED", orDash(r.ClosedAt)},
	}
}

// accountDetailRow is accountStatusRow with the number of active API keys and the settings of the
// connect pages.
type accountDetailRow struct {
	accountStatusRow
	accountSettings

	ActiveKeys int `json:"active_keys"`
}

// Columns implements cli.Row.
func (r accountDetailRow) Columns() [][2]string {
	return slices.Concat(r.accountStatusRow.Columns(), [][2]string{{"ACTIVE KEYS", strconv.Itoa(r.ActiveKeys)}}, r.accountSettings.Columns())
}
