// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// accountRow is an account as it was made.
type accountRow struct {
	AccountID   string `json:"account_id"`
	Email       string `json:"email"`
	Plan        string `json:"plan"`
	Active      bool   `json:"active"`
	TenantSlots int    `json:"tenant_slots"`
	CreatedAt   string `json:"created_at"`
}

func accountOf(a access.Account) accountRow {
	return accountRow{string(a.ID), a.Email, a.Plan.Name, a.Active, a.Plan.TenantSlots, cli.Stamp(a.CreatedAt)}
}

func (r accountRow) Columns() [][2]string {
	return [][2]string{
		{"ACCOUNT", r.AccountID}, {"EMAIL", r.Email}, {"PLAN", r.Plan}, {"ACTIVE", strconv.FormatBool(r.Active)},
		{"TENANT SLOTS", strconv.Itoa(r.TenantSlots)}, {"CREATED", r.CreatedAt},
	}
}

// standingRow is an account as it stands now.
type standingRow struct {
	accountRow

	Status      string  `json:"status"`
	SlotsFrom   string  `json:"tenant_slots_from"`
	TenantsHeld int     `json:"tenants_held"`
	ClosedAt    *string `json:"closed_at"`
}

func standingOf(a access.Account) standingRow {
	row := standingRow{accountRow: accountOf(a), Status: string(a.Status()), SlotsFrom: "plan", TenantsHeld: a.TenantsHeld, ClosedAt: since(a.ClosedAt)}
	if a.OwnSlots != 0 {
		row.SlotsFrom = "account"
	}
	return row
}

func (r standingRow) Columns() [][2]string {
	return [][2]string{
		{"ACCOUNT", r.AccountID}, {"EMAIL", r.Email}, {"PLAN", r.Plan}, {"STATUS", r.Status},
		{"TENANTS", fmt.Sprintf("%d of %d", r.TenantsHeld, r.TenantSlots)}, {"SLOTS FROM", r.SlotsFrom},
		{"CREATED", r.CreatedAt}, {"CLOSED", dash(r.ClosedAt)},
	}
}

type accountDetail struct {
	standingRow

	ActiveKeys int `json:"active_keys"`
}

func (r accountDetail) Columns() [][2]string {
	return append(r.standingRow.Columns(), [2]string{"ACTIVE KEYS", strconv.Itoa(r.ActiveKeys)})
}

type closingRow struct {
	AccountID       string `json:"account_id"`
	Email           string `json:"email"`
	Status          string `json:"status"`
	ClosedAt        string `json:"closed_at"`
	KeysRevoked     int    `json:"keys_revoked"`
	TenantsReleased int    `json:"tenants_released"`
	DNSConnections  int    `json:"dns_connections_removed"`
	Integrations    int    `json:"integrations_removed"`
	// RulesRemoved are the tenants that our rules were taken out of.
	RulesRemoved int       `json:"tenants_unruled"`
	RulesLeft    []leftRow `json:"rules_left"`
}

func closingOf(a access.Account, c ports.Closing, unruled []tenants.UnruledTenant) closingRow {
	left, removed := leftOf(unruled)
	return closingRow{
		string(a.ID), a.Email, string(access.StatusClosed), cli.Stamp(c.At), c.KeysRevoked, c.TenantsReleased, c.DNSConnectionsRemoved,
		c.IntegrationsRemoved, removed, left,
	}
}

func (r closingRow) Columns() [][2]string {
	return [][2]string{
		{"ACCOUNT", r.AccountID}, {"EMAIL", r.Email}, {"STATUS", r.Status}, {"CLOSED", r.ClosedAt},
		{"KEYS REVOKED", strconv.Itoa(r.KeysRevoked)}, {"TENANTS RELEASED", strconv.Itoa(r.TenantsReleased)},
		{"DNS CONNECTIONS REMOVED", strconv.Itoa(r.DNSConnections)}, {"INTEGRATIONS REMOVED", strconv.Itoa(r.Integrations)},
		{"RULES LEFT", cmp.Or(strings.Join(rulesLeft(r.RulesLeft), ", "), "-")},
	}
}

// since is a time that may not have come yet: null in JSON.
func since(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := cli.Stamp(t)
	return &text
}

// dash is what people read for null.
func dash(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}
