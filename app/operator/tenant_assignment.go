// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

func assignCommand() *cobra.Command {
	var tenantID, account string
	cmd := &cobra.Command{
		Use:   "assign --tenant GUID --account ACCOUNT",
		Short: "Assign a managed tenant to an account",
		Long: "Assigns a tenant that you manage to the account. The tenant's administrator must consent to the\n" +
			"application first. The tenant uses one of the account's tenant slots.",
		RunE: withService(func(ctx context.Context, cmd *cobra.Command, s *wiring.Service) error {
			owner, err := s.Store.FindAccount(ctx, account)
			if err != nil {
				return err
			}
			t, err := s.Tenants.Assign(ctx, owner, tenant.GUID(tenantID))
			if errors.Is(err, fault.InvalidRequest) {
				return cli.UsageError(err)
			}
			if err != nil {
				return err
			}
			return cli.Show(cmd, assignedTenantRow{t.ID, string(t.GUID), string(owner.ID), t.Name, t.BuiltinDomain, t.Managed, cli.FormatTime(t.ConsentedAt)})
		}),
	}
	cmd.Flags().StringVar(&tenantID, "tenant", "", tenantFlagHelp)
	cmd.Flags().StringVar(&account, "account", "", accountFlagHelp)
	cli.RequireFlags(cmd, "tenant", "account")
	return cmd
}

func withdrawCommand() *cobra.Command {
	var tenantID string
	cmd := &cobra.Command{
		Use:   "withdraw --tenant GUID",
		Short: "End the assignment of a managed tenant",
		Long: "Removes a managed tenant from its account, with the stored data of its domains and mailboxes. First, tenantry's\n" +
			"mail flow rules, which block mailboxes, are removed from the tenant. Nothing else in the tenant is changed.\n" +
			"If rules cannot be removed, the tenant is withdrawn anyway, and a warning names the rules that the tenant's\n" +
			"administrator must remove.",
		RunE: withStore(func(ctx context.Context, cmd *cobra.Command, store *bunstore.Store) error {
			id := tenant.ParseGUIDOrNone(tenantID)
			owner, err := store.AccountOfManagedTenant(ctx, id)
			if err != nil {
				return err
			}
			service, closeService, err := withdrawalService(ctx, cmd, store, owner, id)
			if err != nil {
				return err
			}
			defer closeService()
			withdrawn, err := service.Withdraw(ctx, id)
			if err != nil {
				return err
			}
			warnOfRemainingRules(cmd, id, withdrawn.RuleRemoval)
			return cli.Show(cmd, newWithdrawnTenantRow(id, withdrawn))
		}),
	}
	cmd.Flags().StringVar(&tenantID, "tenant", "", tenantFlagHelp)
	cli.RequireFlags(cmd, "tenant")
	return cmd
}

type assignedTenantRow struct {
	ID           string `json:"id"`
	TenantID     string `json:"tenant_id"`
	AccountID    string `json:"account_id"`
	TenantName   string `json:"tenant_name"`
	TenantDomain string `json:"tenant_domain"`
	Managed      bool   `json:"managed"`
	AssignedAt   string `json:"assigned_at"`
}

// Columns implements cli.Row.
func (r assignedTenantRow) Columns() [][2]string {
	return [][2]string{
		{"ID", r.ID}, {"TENANT", r.TenantID}, {"ACCOUNT", r.AccountID}, {"NAME", r.TenantName}, {"DOMAIN", r.TenantDomain},
		{"MANAGED", strconv.FormatBool(r.Managed)}, {"ASSIGNED", r.AssignedAt},
	}
}

// withdrawnTenantRow shows a tenant that was just withdrawn, and the transport rules that may
// remain in it.
type withdrawnTenantRow struct {
	TenantID    string `json:"tenant_id"`
	AccountID   string `json:"account_id"`
	Status      string `json:"status"`
	WithdrawnAt string `json:"withdrawn_at"`

	RulesRemoved bool     `json:"rules_removed"`
	RulesLeft    []string `json:"rules_left"`
}

func newWithdrawnTenantRow(id tenant.GUID, withdrawn tenants.WithdrawResult) withdrawnTenantRow {
	return withdrawnTenantRow{string(id), string(withdrawn.Account), "withdrawn", cli.FormatTime(time.Now()), withdrawn.RulesRemoved, append([]string{}, withdrawn.RemainingRules...)}
}

// Columns implements cli.Row.
func (r withdrawnTenantRow) Columns() [][2]string {
	return [][2]string{
		{"TENANT", r.TenantID}, {"ACCOUNT", r.AccountID}, {"STATUS", r.Status}, {"WITHDRAWN", r.WithdrawnAt},
		{"RULES LEFT", cmp.Or(strings.Join(r.RulesLeft, " "), "-")},
	}
}

// withdrawalService returns a service that withdraws the tenants with these ids and removes their
// managed transport rules. The caller must call the returned function to close the service. If none
// of the tenants has managed rules, the service uses only the database. If the services cannot be
// assembled, withdrawalService warns and returns a service that cannot call the mail platform.
func withdrawalService(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, owner access.AccountID, ids ...tenant.GUID) (*tenants.Service, func(), error) {
	for _, id := range ids {
		scopes, err := store.ScopesWithRules(ctx, owner, id)
		if err != nil {
			return nil, nil, err
		}
		if len(scopes) == 0 {
			continue
		}
		service, err := assembleService(cmd)
		if err != nil {
			cli.Warn(cmd, "mail_platform", fmt.Sprintf("the mail platform cannot be called: %v", err))
			break
		}
		return service.Tenants, func() { _ = service.Close(context.WithoutCancel(ctx)) }, nil
	}
	return &tenants.Service{Tenants: store, Assignments: store, Policies: store, Claims: store, Now: time.Now}, func() {}, nil
}

// warnOfRemainingRules warns about the managed transport rules that may remain in a tenant.
func warnOfRemainingRules(cmd *cobra.Command, id tenant.GUID, removal tenants.RuleRemoval) {
	if len(removal.RemainingRules) == 0 {
		return
	}
	cli.Warn(cmd, "rules_left", fmt.Sprintf("these mail flow rules may still exist in tenant %s and block their mailboxes, until the tenant's administrator removes the rules: %s (%v)",
		id, strings.Join(removal.RemainingRules, ", "), removal.Err))
}

// remainingRulesRow lists the managed transport rules that may remain in a tenant.
type remainingRulesRow struct {
	TenantID string   `json:"tenant_id"`
	Rules    []string `json:"rules"`
}

// ruleNames returns each remaining rule as "RULE in TENANT".
func ruleNames(rows []remainingRulesRow) (names []string) {
	for _, row := range rows {
		for _, rule := range row.Rules {
			names = append(names, rule+" in "+row.TenantID)
		}
	}
	return names
}

// remainingRules returns the tenants in which managed rules may remain, and the number of tenants
// from which all managed rules were removed.
func remainingRules(removals []tenants.TenantRuleRemoval) (remaining []remainingRulesRow, removed int) {
	remaining = []remainingRulesRow{}
	for _, removal := range removals {
		if removal.RulesRemoved {
			removed++
		} else {
			remaining = append(remaining, remainingRulesRow{string(removal.Tenant), removal.RemainingRules})
		}
	}
	return remaining, removed
}
