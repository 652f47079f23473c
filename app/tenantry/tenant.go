// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/core/tenant"
)

type assignedRow struct {
	ID           string `json:"id"`
	TenantID     string `json:"tenant_id"`
	AccountID    string `json:"account_id"`
	TenantName   string `json:"tenant_name"`
	TenantDomain string `json:"tenant_domain"`
	Managed      bool   `json:"managed"`
	AssignedAt   string `json:"assigned_at"`
}

func (r assignedRow) columns() [][2]string {
	return [][2]string{
		{"ID", r.ID}, {"TENANT", r.TenantID}, {"ACCOUNT", r.AccountID}, {"NAME", r.TenantName}, {"DOMAIN", r.TenantDomain},
		{"MANAGED", strconv.FormatBool(r.Managed)}, {"ASSIGNED", r.AssignedAt},
	}
}

type withdrawnRow struct {
	TenantID    string `json:"tenant_id"`
	AccountID   string `json:"account_id"`
	Status      string `json:"status"`
	WithdrawnAt string `json:"withdrawn_at"`
}

func (r withdrawnRow) columns() [][2]string {
	return [][2]string{{"TENANT", r.TenantID}, {"ACCOUNT", r.AccountID}, {"STATUS", r.Status}, {"WITHDRAWN", r.WithdrawnAt}}
}

func tenantCommand() *cobra.Command {
	group := &cobra.Command{Use: "tenant", Short: "Managed tenants and who they are assigned to"}
	var guid, account string
	assign := &cobra.Command{
		Use:   "assign --tenant GUID --account ACCOUNT",
		Short: "Assign a managed tenant to an account",
		RunE: withService(func(ctx context.Context, cmd *cobra.Command, s *service) error {
			owner, err := s.store.FindAccount(ctx, account)
			if err != nil {
				return err
			}
			t, err := s.tenants.Assign(ctx, owner, tenant.GUID(guid))
			if err != nil {
				return err
			}
			return show(cmd, assignedRow{t.ID, string(t.GUID), string(owner.ID), t.Name, t.BuiltinDomain, t.Managed, stamp(t.ConsentedAt)})
		}),
	}
	assign.Flags().StringVar(&account, "account", "", "the account's id or e-mail address")
	withdraw := &cobra.Command{
		Use:   "withdraw --tenant GUID",
		Short: "End the assignment of a managed tenant",
		RunE: withService(func(ctx context.Context, cmd *cobra.Command, s *service) error {
			owner, err := s.store.Withdraw(ctx, tenant.GUID(guid))
			if err != nil {
				return err
			}
			return show(cmd, withdrawnRow{guid, string(owner), "withdrawn", stamp(time.Now())})
		}),
	}
	require(assign, "tenant", "account")
	require(withdraw, "tenant")
	for _, cmd := range []*cobra.Command{assign, withdraw} {
		cmd.Flags().StringVar(&guid, "tenant", "", "the mail platform's id of the tenant")
		Config{}.flags(cmd.Flags())
		group.AddCommand(cmd)
	}
	return group
}

// withService runs an operator's command that needs the mail platform too.
func withService(act func(context.Context, *cobra.Command, *service) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(cmd.Flags(), nil)
		if err != nil {
			return usageError{err}
		}
		level, err := logLevel(c.LogLevel)
		if err != nil {
			return usageError{err}
		}
		s, err := assemble(cmd.Context(), c, telemetry.Logger(cmd.ErrOrStderr(), max(level, 4)), c.PublicURL, outside{})
		if err != nil {
			return err
		}
		defer func() { _ = s.close(context.WithoutCancel(cmd.Context())) }()
		return act(cmd.Context(), cmd, s)
	}
}
