// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
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

func (r assignedRow) Columns() [][2]string {
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

	RulesRemoved bool     `json:"rules_removed"`
	RulesLeft    []string `json:"rules_left"`
}

func withdrawnOf(id tenant.GUID, w tenants.Withdrawn) withdrawnRow {
	return withdrawnRow{string(id), string(w.Account), "withdrawn", cli.Stamp(time.Now()), w.Removed, append([]string{}, w.Left...)}
}

func (r withdrawnRow) Columns() [][2]string {
	return [][2]string{
		{"TENANT", r.TenantID}, {"ACCOUNT", r.AccountID}, {"STATUS", r.Status}, {"WITHDRAWN", r.WithdrawnAt},
		{"RULES LEFT", cmp.Or(strings.Join(r.RulesLeft, " "), "-")},
	}
}

// heldRow is a tenant as it is stored.
type heldRow struct {
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

// readinessRow has the members that the API gives it.
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

// headroomRow, too.
type headroomRow struct {
	Limit       int       `json:"external_recipient_limit"`
	Sent        int       `json:"sends_today"`
	SentAt      *string   `json:"sends_today_at"`
	Remaining   int       `json:"remaining"`
	Percent     float64   `json:"utilization_pct"`
	Licenses    int       `json:"email_licenses"`
	EstimatedAt time.Time `json:"estimated_at"`
}

func readinessOf(r tenant.Readiness) readinessRow {
	row := readinessRow{
		string(r.Consent), string(r.Bootstrap), string(r.SMTPAuth), string(r.Discovery),
		r.DomainsVerified, r.DomainsTotal, r.MailboxesTotal, r.ReadyToProvision, nil, nil,
	}
	if r.NextStep != "" {
		row.NextStep = &r.NextStep
	}
	if h := r.Headroom; h != nil {
		row.Headroom = &headroomRow{h.Limit, h.Sent, since(h.SentAt), h.Remaining, h.Percent, h.Licenses, h.At.UTC()}
	}
	return row
}

func heldOf(owner access.Account, t tenant.Tenant, sends tenant.Sending, requireSMTPAuth bool) heldRow {
	ready := t.Readiness(requireSMTPAuth)
	ready.Headroom = sends.Headroom()
	return heldRow{
		ID: t.ID, TenantID: string(t.GUID), AccountID: string(owner.ID), AccountEmail: owner.Email,
		TenantName: t.Name, TenantDomain: t.BuiltinDomain, DefaultDomain: t.PrimaryDomain(), Managed: t.Managed,
		Status: string(ready.Status()), Readiness: readinessOf(ready), ConsentedAt: cli.Stamp(t.ConsentedAt), LastSyncAt: since(t.LastSyncAt),
	}
}

func (r heldRow) Columns() [][2]string {
	managed := map[bool]string{true: "yes", false: "no"}[r.Managed]
	return [][2]string{
		{"ID", r.ID}, {"TENANT", r.TenantID}, {"ACCOUNT", r.AccountEmail}, {"NAME", r.TenantName}, {"DOMAIN", cmp.Or(r.DefaultDomain, "-")},
		{"MANAGED", managed}, {"STATUS", r.Status}, {"NEXT STEP", dash(r.Readiness.NextStep)}, {"SYNCED", dash(r.LastSyncAt)},
		{"TIME ZONE", r.TimeZone}, {"COUNTED", dash(r.CountedAt)}, {"BLOCKED", strconv.Itoa(r.Blocked)},
	}
}
