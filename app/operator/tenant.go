// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"
	_ "time/tzdata" // the time zones of hosts that have no time zone files

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

func tenantCommand() *cobra.Command {
	group := &cobra.Command{Use: "tenant", Short: "Tenants of accounts, including managed tenants"}
	for _, cmd := range []*cobra.Command{listTenantsCommand(), tenantDayCommand(), assignCommand(), withdrawCommand()} {
		settings.Config{}.AddFlags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

func listTenantsCommand() *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use:   "list [--account ACCOUNT]",
		Short: "List the stored tenants of accounts",
		Long: "Lists the stored tenants of one account, or of all accounts. The mail platform is not called.\n\n" +
			"Status is ready (mailboxes can be created), pending (the next step says what is missing), failed (the mail\n" +
			"server cannot be prepared) or revoked (the tenant's administrator revoked the consent). TIME ZONE is the time\n" +
			"zone at whose midnight a day of the send limits begins. COUNTED is the time at which the messages of the mailboxes\n" +
			"were last counted. BLOCKED is the number of mailboxes that are blocked because they exceeded their limit.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.UsageError(err)
			}
			accounts, err := tenantOwners(ctx, store, account)
			if err != nil {
				return err
			}
			rows := []tenantRow{}
			for _, owner := range accounts {
				accountRows, err := tenantRows(ctx, store, owner, c.RequireSMTPAuth)
				if err != nil {
					return err
				}
				rows = append(rows, accountRows...)
			}
			return cli.List(cmd, "tenants", rows)
		}),
	}
	cmd.Flags().StringVar(&account, "account", "", "only tenants of this account: its id or e-mail address")
	return cmd
}

// tenantRows returns a row for each tenant of an account. It skips tenants that are deleted while
// it reads.
func tenantRows(ctx context.Context, store *bunstore.Store, owner access.Account, requireSMTPAuth bool) (rows []tenantRow, err error) {
	stored, err := store.Tenants(ctx, owner.ID)
	if err != nil {
		return nil, err
	}
	standings, err := store.SendStandings(ctx, owner.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range stored {
		usage, err := store.Sending(ctx, owner.ID, t.GUID, time.Now())
		timeZone := ""
		if err == nil {
			timeZone, _, err = store.TimeZone(ctx, t.GUID)
		}
		if errors.Is(err, fault.TenantNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		row := newTenantRow(owner, t, usage, requireSMTPAuth)
		row.TimeZone = timeZone
		row.CountedAt, row.Blocked = optionalStamp(standings[t.GUID].CountedAt), standings[t.GUID].Blocked
		rows = append(rows, row)
	}
	return rows, nil
}

// tenantOwners returns the account that idOrEmail names. With an empty idOrEmail it returns all
// accounts that have tenants.
func tenantOwners(ctx context.Context, store *bunstore.Store, idOrEmail string) ([]access.Account, error) {
	if idOrEmail != "" {
		owner, err := store.FindAccount(ctx, idOrEmail)
		return []access.Account{owner}, err
	}
	accounts, err := store.Accounts(ctx)
	var owners []access.Account
	for _, acc := range accounts {
		if acc.TenantCount > 0 {
			owners = append(owners, acc)
		}
	}
	return owners, err
}

const tenantFlagHelp = "the mail platform's id of the tenant"

func tenantDayCommand() *cobra.Command {
	var guid, zone string
	cmd := &cobra.Command{
		Use:   "day --tenant GUID [--time-zone ZONE]",
		Short: "Show or set the time zone in which a tenant's days begin",
		Long: "The days of send limits begin at midnight in this time zone. The default is UTC. After a change of the time\n" +
			"zone the current day is counted again from its start; until then, blocked mailboxes stay blocked.\n" +
			"Without --time-zone the command shows the current time zone.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			id := tenant.ParseGUIDOrNone(guid)
			timeZone, owner, err := tenantTimeZone(ctx, store, id, zone)
			if err != nil {
				return err
			}
			return cli.Show(cmd, tenantDayRow{string(id), string(owner), timeZone})
		}),
	}
	cmd.Flags().StringVar(&guid, "tenant", "", tenantFlagHelp)
	cmd.Flags().StringVar(&zone, "time-zone", "", "the IANA name of a time zone, such as Europe/Berlin")
	cli.RequireFlags(cmd, "tenant")
	return cmd
}

// tenantTimeZone returns the time zone and the account of a tenant. When zone is not empty, it sets
// the time zone first. It returns a usage error when zone is not an IANA time zone.
func tenantTimeZone(ctx context.Context, store *bunstore.Store, id tenant.GUID, zone string) (string, access.AccountID, error) {
	if zone == "" {
		return store.TimeZone(ctx, id)
	}
	if _, err := sendlimit.TimeZone(zone); err != nil {
		return "", "", cli.UsageError(err)
	}
	owner, err := store.SetTimeZone(ctx, id, zone)
	return zone, owner, err
}

type tenantDayRow struct {
	TenantID  string `json:"tenant_id"`
	AccountID string `json:"account_id"`
	TimeZone  string `json:"time_zone"`
}

// Columns implements cli.Row.
func (r tenantDayRow) Columns() [][2]string {
	return [][2]string{{"TENANT", r.TenantID}, {"ACCOUNT", r.AccountID}, {"TIME ZONE", r.TimeZone}}
}

type tenantRow struct {
	ID            string       `json:"id"`
	TenantID      string       `json:"tenant_id"`
	AccountID     string       `json:"account_id"`
	AccountEmail  string       `json:"account_email"`
	TenantName    string       `json:"tenant_name"`
	TenantDomain  string       `json:"tenant_domain"`
	DefaultDomain string       `json:"default_domain"`
	Managed       bool         `json:"managed"`
	Status        string       `json:"status"`
	Readiness     readinessRow `json:"readiness"`
	ConsentedAt   string       `json:"consented_at"`
	LastSyncAt    *string      `json:"last_sync_at"`
	TimeZone      string       `json:"time_zone"`
	CountedAt     *string      `json:"counted_at"`
	Blocked       int          `json:"mailboxes_blocked"`
}

// readinessRow has the same JSON members as the readiness object of the API.
type readinessRow struct {
	Consent          string  `json:"consent"`
	Bootstrap        string  `json:"exchange_bootstrap"`
	SMTPAuth         string  `json:"smtp_auth"`
	Discovery        string  `json:"discovery"`
	DomainsVerified  int     `json:"domains_verified"`
	DomainsTotal     int     `json:"domains_total"`
	MailboxesTotal   int     `json:"mailboxes_total"`
	ReadyToProvision bool    `json:"ready_to_provision"`
	NextStep         *string `json:"next_step"`

	Headroom *headroomRow `json:"headroom"`
}

// headroomRow has the same JSON members as the headroom object of the API.
type headroomRow struct {
	Limit       int       `json:"external_recipient_limit"`
	Sent        int       `json:"sends_today"`
	SentAt      *string   `json:"sends_today_at"`
	Remaining   int       `json:"remaining"`
	Percent     float64   `json:"utilization_pct"`
	Licenses    int       `json:"email_licenses"`
	EstimatedAt time.Time `json:"estimated_at"`
}

func newReadinessRow(r tenant.Readiness) readinessRow {
	row := readinessRow{
		string(r.Consent), string(r.Bootstrap), string(r.SMTPAuth), string(r.Discovery),
		r.DomainsVerified, r.DomainsTotal, r.MailboxesTotal, r.ReadyToProvision, nil, nil,
	}
	if r.NextStep != "" {
		row.NextStep = &r.NextStep
	}
	if h := r.Headroom; h != nil {
		row.Headroom = &headroomRow{h.Limit, h.Sent, optionalStamp(h.CountedAt), h.Remaining, h.UsedPercent, h.Licenses, h.LicensesAt.UTC()}
	}
	return row
}

func newTenantRow(owner access.Account, t tenant.Tenant, usage tenant.Sending, requireSMTPAuth bool) tenantRow {
	ready := t.Readiness(requireSMTPAuth)
	ready.Headroom = usage.Headroom()
	return tenantRow{
		ID: t.ID, TenantID: string(t.GUID), AccountID: string(owner.ID), AccountEmail: owner.Email,
		TenantName: t.Name, TenantDomain: t.BuiltinDomain, DefaultDomain: t.PrimaryDomain(), Managed: t.Managed,
		Status: string(ready.Status()), Readiness: newReadinessRow(ready), ConsentedAt: cli.FormatTime(t.ConsentedAt), LastSyncAt: optionalStamp(t.LastSyncAt),
	}
}

// Columns implements cli.Row.
func (r tenantRow) Columns() [][2]string {
	managed := map[bool]string{true: "yes", false: "no"}[r.Managed]
	return [][2]string{
		{"ID", r.ID}, {"TENANT", r.TenantID}, {"ACCOUNT", r.AccountEmail}, {"NAME", r.TenantName}, {"DOMAIN", cmp.Or(r.DefaultDomain, "-")},
		{"MANAGED", managed}, {"STATUS", r.Status}, {"NEXT STEP", orDash(r.Readiness.NextStep)}, {"SYNCED", orDash(r.LastSyncAt)},
		{"TIME ZONE", r.TimeZone}, {"COUNTED", orDash(r.CountedAt)}, {"BLOCKED", strconv.Itoa(r.Blocked)},
	}
}
