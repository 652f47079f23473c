// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// leaving is the use case by which tenants leave an account on the operator's
// behalf. The mail platform is got ready only where rules of ours have to be
// taken out, so that these commands need the database alone as far as they can.
func leaving(ctx context.Context, cmd *cobra.Command, store *bunstore.Store, owner access.AccountID, ids ...tenant.GUID) (*tenants.Service, func(), error) {
	for _, id := range ids {
		scopes, err := store.RuledScopes(ctx, owner, id)
		if err != nil {
			return nil, nil, err
		}
		if len(scopes) == 0 {
			continue
		}
		s, err := serviceOf(cmd)
		if err != nil {
			cli.Warn(cmd, "mail_platform", fmt.Sprintf("the mail platform cannot be asked: %v", err))
			break
		}
		return s.tenants, func() { _ = s.close(context.WithoutCancel(ctx)) }, nil
	}
	return &tenants.Service{Tenants: store, Assignments: store, Policies: store, Runs: store, Now: time.Now}, func() {}, nil
}

// tellOfRules warns of rules that were left in a tenant.
func tellOfRules(cmd *cobra.Command, id tenant.GUID, u tenants.Unruled) {
	if len(u.Left) == 0 {
		return
	}
	cli.Warn(cmd, "rules_left", fmt.Sprintf("these mail flow rules may still be in tenant %s and block whom they list, until its administrator removes them: %s (%v)",
		id, strings.Join(u.Left, ", "), u.Why))
}

// leftRow names the rules that may still be in a tenant.
type leftRow struct {
	TenantID string   `json:"tenant_id"`
	Rules    []string `json:"rules"`
}

// rulesLeft names the rules with their tenants.
func rulesLeft(all []leftRow) (names []string) {
	for _, in := range all {
		for _, rule := range in.Rules {
			names = append(names, rule+" in "+in.TenantID)
		}
	}
	return names
}

// leftOf lists tenants with rules, with how many had theirs taken out.
func leftOf(all []tenants.UnruledTenant) (left []leftRow, removed int) {
	left = []leftRow{}
	for _, u := range all {
		if u.Removed {
			removed++
		} else {
			left = append(left, leftRow{string(u.Tenant), u.Left})
		}
	}
	return left, removed
}
