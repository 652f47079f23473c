// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"time"

	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/core/mailbox"
)

type mailboxList struct {
	TenantID  string         `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	Mailboxes []mailboxEntry `json:"mailboxes"`
	Count     int            `json:"count" doc:"How many there are."`
}

type mailboxEntry struct {
	ID                string     `json:"id" format:"uuid" doc:"The mailbox's id; used in paths."`
	DisplayName       string     `json:"display_name" doc:"The name that recipients see."`
	PrimarySMTP       string     `json:"primary_smtp" doc:"The address."`
	UserPrincipalName string     `json:"user_principal_name" doc:"The sign-in name."`
	MailNickname      string     `json:"mail_nickname" doc:"The alias at the mail platform."`
	AccountEnabled    bool       `json:"account_enabled" doc:"Whether the account behind it is enabled."`
	DailySendLimit    *int       `json:"daily_send_limit" doc:"The stored limit, null for none."`
	SendsToday        int        `json:"sends_today" doc:"Sent today, 0 until the first count."`
	SendsTodayAt      *time.Time `json:"sends_today_at" doc:"When that was counted, null until then."`
	BlockedAt         *time.Time `json:"blocked_at" doc:"When enforcement blocked it, null when it did not."`
	CreatedAt         time.Time  `json:"created_at" doc:"When it was created."`
	DomainName        string     `json:"domain_name" doc:"The domain it is on."`
	TenantName        string     `json:"tenant_name" doc:"The tenant it is in."`
}

type provisioned struct {
	CreatedCount int               `json:"created_count" doc:"How many were created."`
	ExistsCount  int               `json:"exists_count" doc:"How many were there already."`
	FailedCount  int               `json:"failed_count" doc:"How many the mail platform refused."`
	Results      []provisionResult `json:"results" doc:"One for each mailbox of the request, in its order."`
}

type provisionResult struct {
	Status  string           `json:"status" enum:"created,exists,failed" doc:"What became of it."`
	Name    string           `json:"name" doc:"The name that was asked for."`
	Email   string           `json:"email" doc:"The address that was asked for."`
	Details provisionDetails `json:"details" doc:"The mailbox; what was asked for when it failed."`
	Error   *provisionError  `json:"error,omitempty" doc:"Why it failed."`
}

type provisionDetails struct {
	DisplayName       string `json:"display_name" doc:"The name that recipients see."`
	PrimarySMTP       string `json:"primary_smtp" doc:"The address."`
	UserPrincipalName string `json:"user_principal_name" doc:"The sign-in name."`
	Alias             string `json:"alias" doc:"The alias at the mail platform."`
}

type provisionError struct {
	Code    string `json:"code" doc:"One of the codes under /docs/errors."`
	Message string `json:"message" doc:"The same in words."`
}

type updatedMailbox struct {
	Status  string         `json:"status" enum:"updated" doc:"Always updated."`
	Mailbox changedMailbox `json:"mailbox" doc:"The mailbox as it is now."`
}

type changedMailbox struct {
	ID             string     `json:"id" format:"uuid" doc:"The mailbox's id."`
	DisplayName    string     `json:"display_name" doc:"The name that recipients see."`
	PrimarySMTP    string     `json:"primary_smtp" doc:"The address."`
	DailySendLimit *int       `json:"daily_send_limit" doc:"The stored limit, null for none."`
	SendsToday     int        `json:"sends_today" doc:"Sent today, 0 until the first count."`
	SendsTodayAt   *time.Time `json:"sends_today_at" doc:"When that was counted, null until then."`
	AccountEnabled bool       `json:"account_enabled" doc:"Whether the account behind it is enabled."`
}

type mailboxUsage struct {
	MailboxID      string     `json:"mailbox_id" format:"uuid" doc:"The mailbox's id."`
	PrimarySMTP    string     `json:"primary_smtp" doc:"The address."`
	DisplayName    string     `json:"display_name" doc:"The name that recipients see."`
	AccountEnabled bool       `json:"account_enabled" doc:"Whether the account behind it is enabled."`
	DailySendLimit *int       `json:"daily_send_limit" doc:"The effective limit, null for none."`
	SendsToday     int        `json:"sends_today" doc:"Sent today, 0 until the first count."`
	SendsTodayAt   *time.Time `json:"sends_today_at" doc:"When that was counted, null until then."`
	RemainingSends *int       `json:"remaining_sends" doc:"What is left today, null without a limit."`
	IsBlocked      bool       `json:"is_blocked" doc:"Whether enforcement blocks it."`
	BlockedAt      *time.Time `json:"blocked_at" doc:"Since when, null when it does not."`
	UtilizationPct *float64   `json:"utilization_pct" doc:"Sent of allowed, in percent with one decimal; null without a limit."`
}

func mailboxOf(m mailbox.Mailbox) mailboxEntry {
	return mailboxEntry{
		ID: m.ID, DisplayName: m.DisplayName, PrimarySMTP: m.Address, UserPrincipalName: m.PrincipalName, MailNickname: m.Alias,
		AccountEnabled: m.AccountEnabled, DailySendLimit: limitOrNil(m.DailySendLimit), SendsToday: m.SendsToday,
		SendsTodayAt: timeOrNil(m.SendsTodayAt), BlockedAt: timeOrNil(m.BlockedAt), CreatedAt: m.CreatedAt.UTC(),
		DomainName: m.DomainName, TenantName: m.TenantName,
	}
}

func provisionedOf(results []mailboxes.Result) provisioned {
	p := provisioned{Results: each(results, resultOf)}
	for _, r := range results {
		switch r.Status {
		case mailbox.ResultCreated:
			p.CreatedCount++
		case mailbox.ResultExists:
			p.ExistsCount++
		default:
			p.FailedCount++
		}
	}
	return p
}

func resultOf(r mailboxes.Result) provisionResult {
	out := provisionResult{Status: r.Status, Name: r.Spec.DisplayName, Email: r.Spec.Address}
	if r.Failure != nil {
		out.Error = &provisionError{Code: r.Failure.Code.Name, Message: r.Failure.Detail}
		out.Details = provisionDetails{DisplayName: r.Spec.DisplayName, PrimarySMTP: r.Spec.Address,
			UserPrincipalName: r.Spec.Address, Alias: mailbox.Alias(r.Spec.Address)}
		return out
	}
	out.Details = provisionDetails{DisplayName: r.Mailbox.DisplayName, PrimarySMTP: r.Mailbox.Address,
		UserPrincipalName: r.Mailbox.PrincipalName, Alias: r.Mailbox.Alias}
	return out
}

func updatedOf(m mailbox.Mailbox) updatedMailbox {
	return updatedMailbox{Status: "updated", Mailbox: changedMailbox{ID: m.ID, DisplayName: m.DisplayName, PrimarySMTP: m.Address,
		DailySendLimit: limitOrNil(m.DailySendLimit), SendsToday: m.SendsToday, SendsTodayAt: timeOrNil(m.SendsTodayAt),
		AccountEnabled: m.AccountEnabled}}
}

func usageOf(u mailbox.Usage) mailboxUsage {
	out := mailboxUsage{MailboxID: u.Mailbox.ID, PrimarySMTP: u.Mailbox.Address, DisplayName: u.Mailbox.DisplayName,
		AccountEnabled: u.Mailbox.AccountEnabled, DailySendLimit: limitOrNil(u.Limit), SendsToday: u.Mailbox.SendsToday,
		SendsTodayAt: timeOrNil(u.Mailbox.SendsTodayAt), IsBlocked: u.Blocked, BlockedAt: timeOrNil(u.Mailbox.BlockedAt)}
	if u.Limit > 0 {
		out.RemainingSends, out.UtilizationPct = &u.Remaining, &u.Percent
	}
	return out
}

// limitOrNil returns nil for 0, which means no limit.
func limitOrNil(perDay int) *int {
	if perDay == 0 {
		return nil
	}
	return &perDay
}
