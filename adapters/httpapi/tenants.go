// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type tenantPath struct {
	TenantID string `path:"tenant_id"`
}

func registerTenantOperations(api huma.API, service *tenants.Service) {
	registerConnectOperations(api, service)
	registerListTenants(api, service)
	registerGetTenant(api, service)
	registerSyncTenant(api, service)
	registerDeleteTenant(api, service)
}

func registerListTenants(api huma.API, service *tenants.Service) {
	register(api, huma.Operation{
		OperationID: "list-tenants", Method: http.MethodGet, Path: "/v1/tenants", Tags: []string{tagTenants},
		Summary:     "List tenants",
		Description: "Lists the account's tenants, most recently connected first.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.TenantsRead, AnswerExample: exampleTenantList}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, _ *struct{}) (tenantList, error) {
		tenants, err := service.List(ctx, caller.Account.ID)
		if err != nil {
			return tenantList{}, err
		}
		list := convertAll(tenants, tenantSummaryOf)
		return tenantList{Tenants: list, Count: len(list)}, nil
	})
}

func registerGetTenant(api huma.API, service *tenants.Service) {
	register(api, huma.Operation{
		OperationID: "get-tenant", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}", Tags: []string{tagTenants},
		Summary:     "Get a tenant",
		Description: "Returns one tenant with the state of its setup. `readiness.next_step` says what to do next.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.TenantsRead, AnswerExample: exampleTenantDetail, Refuses: specificCodes(fault.TenantNotFound)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *tenantPath) (tenantDetail, error) {
		t, ready, err := service.Get(ctx, caller.Account, tenant.ParseGUIDOrNone(in.TenantID))
		if err != nil {
			return tenantDetail{}, err
		}
		return tenantDetailOf(t, ready), nil
	})
}

// syncTimeLimit is the time limit of sync-tenant. Only the operation export-audit-entries has a
// longer time limit.
const syncTimeLimit = 110 * time.Second

func registerSyncTenant(api huma.API, service *tenants.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "sync-tenant", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/sync", Tags: []string{tagTenants},
		Summary: "Synchronize a tenant",
		Description: "Prepares the tenant's mail server, enables organization-wide SMTP AUTH if the server is ready, and discovers " +
			"domains and mailboxes again. The response is sent when all of that is done, which may take up to 110 seconds. `status` is " +
			"`partial` if a part could not be done yet.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.TenantsWrite, Write: true, TimeLimit: syncTimeLimit, AnswerExample: exampleSynced,
			Refuses: codes(platformCodes, specificCodes(fault.TenantNotFound))}.Metadata(),
	}, syncedOf, func(ctx context.Context, caller access.Caller, in *tenantPath) (tenants.SyncResult, error) {
		return service.Sync(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID))
	})
}

func registerDeleteTenant(api huma.API, service *tenants.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "delete-tenant", Method: http.MethodDelete, Path: "/v1/tenants/{tenant_id}", Tags: []string{tagTenants},
		Summary: "Delete a tenant",
		Description: "Removes the tenant and all its domains, mailboxes and sync history from the service. At the mail platform " +
			"only the rules that block mailboxes are changed. They are removed first, if the platform allows it, " +
			"and `message` lists any that remain. This cannot be undone. If the operator assigned the tenant to the account, the deletion also ends this assignment.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.TenantsWrite, Write: true, AnswerExample: exampleDeletedTenant, Refuses: specificCodes(fault.TenantNotFound)}.Metadata(),
	}, deletedTenantOf, func(ctx context.Context, caller access.Caller, in *tenantPath, encoder ports.AnswerEncoder[tenants.DeleteResult]) (tenants.DeleteResult, error) {
		return service.Delete(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), encoder)
	})
}

type tenantList struct {
	Tenants []tenantSummary `json:"tenants"`
	Count   int             `json:"count" doc:"The number of tenants."`
}

type tenantSummary struct {
	ID                      string     `json:"id" format:"uuid" doc:"The service's own id of the tenant."`
	TenantID                string     `json:"tenant_id" format:"uuid" doc:"The mail platform's GUID; used in paths."`
	TenantName              string     `json:"tenant_name" doc:"Display name from the mail platform."`
	TenantDomain            string     `json:"tenant_domain" doc:"The platform's built-in domain of the tenant."`
	DefaultDomain           string     `json:"default_domain" doc:"The primary verified custom domain, otherwise the built-in one."`
	DomainCount             int        `json:"domain_count" doc:"Custom domains on the tenant."`
	MailboxCount            int        `json:"mailbox_count" doc:"Mailboxes across all domains."`
	Status                  *string    `json:"status" doc:"Always null for now."`
	DiscoveryCompleted      bool       `json:"discovery_completed" doc:"Whether a discovery has finished."`
	ExchangeBootstrapStatus string     `json:"exchange_bootstrap_status" enum:"ready,pending,failed" doc:"Whether mail-server automation is set up."`
	ConsentedAt             *time.Time `json:"consented_at" doc:"When consent was given, or when the tenant was assigned."`
	LastSyncAt              *time.Time `json:"last_sync_at" doc:"Last successful discovery, null before the first."`
}

type tenantDetail struct {
	ID                      string     `json:"id" format:"uuid" doc:"The service's own id of the tenant."`
	TenantID                string     `json:"tenant_id" format:"uuid" doc:"The mail platform's GUID; used in paths."`
	TenantName              string     `json:"tenant_name" doc:"Display name from the mail platform."`
	TenantDomain            string     `json:"tenant_domain" doc:"The platform's built-in domain of the tenant."`
	DefaultDomain           string     `json:"default_domain" doc:"The primary verified custom domain, otherwise the built-in one."`
	DomainCount             int        `json:"domain_count" doc:"Custom domains on the tenant."`
	MailboxCount            int        `json:"mailbox_count" doc:"Mailboxes across all domains."`
	Status                  *string    `json:"status" doc:"Always null for now."`
	DiscoveryCompleted      bool       `json:"discovery_completed" doc:"Whether a discovery has finished."`
	ExchangeBootstrapStatus string     `json:"exchange_bootstrap_status" enum:"ready,pending,failed" doc:"Whether mail-server automation is set up."`
	SMTPAuthOrgEnabled      bool       `json:"smtp_auth_org_enabled" doc:"Whether authenticated SMTP is on for the organization."`
	ConsentedAt             *time.Time `json:"consented_at" doc:"When consent was given, or when the tenant was assigned."`
	LastSyncAt              *time.Time `json:"last_sync_at" doc:"Last successful discovery, null before the first."`
	ConnectedBy             *string    `json:"connected_by" doc:"The address of the administrator who consented on the connect pages; null for a tenant that was only assigned."`
	Readiness               readiness  `json:"readiness" doc:"The state of the setup."`
}

type readiness struct {
	Consent           string  `json:"consent" enum:"granted,revoked" doc:"Whether the administrator's consent is still valid."`
	ExchangeBootstrap string  `json:"exchange_bootstrap" enum:"ready,pending,failed" doc:"Whether mail-server automation is set up."`
	SMTPAuth          string  `json:"smtp_auth" enum:"enabled,disabled,refused,unknown" doc:"Organization-wide SMTP AUTH."`
	Discovery         string  `json:"discovery" enum:"completed,pending,failed" doc:"The last discovery."`
	DomainsVerified   int     `json:"domains_verified" doc:"Verified custom domains."`
	DomainsTotal      int     `json:"domains_total" doc:"All custom domains."`
	MailboxesTotal    int     `json:"mailboxes_total" doc:"All mailboxes."`
	ReadyToProvision  bool    `json:"ready_to_provision" doc:"Whether mailboxes can be provisioned on a verified domain."`
	NextStep          *string `json:"next_step" enum:"reconnect,grant_role,sync,add_domain,publish_dns,verify_domain,enable_dkim,create_mailboxes" doc:"The next step, null if no step is left. reconnect: an administrator of the tenant gives consent again. grant_role: an administrator assigns the service its role at the mail server or gives consent again, as the message of a sync says; then run a sync. sync: run a sync. The other values name a step for a domain or for mailboxes."`

	Headroom nullable[headroom] `json:"headroom" doc:"How close the tenant is to the sending limit of its mail platform. Null until a sync has read its licences, and if the platform publishes no limit. This is an estimate; nothing else depends on it."`
}

type deletedTenant struct {
	Status     string `json:"status" enum:"deleted" doc:"Always deleted."`
	TenantID   string `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	TenantName string `json:"tenant_name" doc:"The name of the deleted tenant."`
	Message    string `json:"message" doc:"What was removed and what was not."`
}

type synced struct {
	Status    string     `json:"status" enum:"completed,partial" doc:"completed if every part was done, otherwise partial."`
	RunID     string     `json:"run_id" format:"uuid" doc:"The id of this sync."`
	TenantID  string     `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	Bootstrap bootstrap  `json:"bootstrap" doc:"Whether mail-server automation is set up."`
	SMTPAuth  smtpAuth   `json:"smtp_auth" doc:"Organization-wide SMTP AUTH."`
	Result    discovered `json:"result" doc:"What discovery found."`
}

type bootstrap struct {
	Status  string `json:"status" enum:"ready,pending,failed" doc:"The state of the setup."`
	Message string `json:"message" doc:"The state as a sentence."`
	Skipped bool   `json:"skipped" doc:"Always false: the setup is never skipped."`
}

type smtpAuth struct {
	Status  string `json:"status" enum:"enabled,disabled,failed,skipped" doc:"Its state after the sync."`
	Message string `json:"message" doc:"The state as a sentence."`
	Skipped bool   `json:"skipped" doc:"Whether it was skipped because the mail server is not ready."`
}

type discovered struct {
	Status           string  `json:"status" enum:"completed,failed" doc:"Whether discovery finished."`
	TenantName       string  `json:"tenant_name" doc:"Display name from the mail platform."`
	DefaultDomain    string  `json:"default_domain" doc:"The primary verified custom domain, otherwise the built-in one."`
	DomainCount      int     `json:"domain_count" doc:"Custom domains on the tenant."`
	UserMailboxCount int     `json:"user_mailbox_count" doc:"Licensed user mailboxes, which the service does not change."`
	MailboxError     *string `json:"mailbox_error" doc:"Why mailboxes could not be listed or user mailboxes could not be counted, or null."`
}

func tenantSummaryOf(t tenant.Tenant) tenantSummary {
	return tenantSummary{
		ID: t.ID, TenantID: string(t.GUID), TenantName: t.Name, TenantDomain: t.BuiltinDomain, DefaultDomain: t.PrimaryDomain(),
		DomainCount: t.DomainCount, MailboxCount: t.MailboxCount, DiscoveryCompleted: wasDiscovered(t),
		ExchangeBootstrapStatus: string(t.Bootstrap), ConsentedAt: timeOrNil(t.ConsentedAt), LastSyncAt: timeOrNil(t.LastSyncAt),
	}
}

func tenantDetailOf(t tenant.Tenant, r tenant.Readiness) tenantDetail {
	return tenantDetail{
		ID: t.ID, TenantID: string(t.GUID), TenantName: t.Name, TenantDomain: t.BuiltinDomain, DefaultDomain: t.PrimaryDomain(),
		DomainCount: t.DomainCount, MailboxCount: t.MailboxCount, DiscoveryCompleted: wasDiscovered(t),
		ExchangeBootstrapStatus: string(t.Bootstrap), SMTPAuthOrgEnabled: t.SMTPAuth == tenant.SMTPAuthEnabled,
		ConsentedAt: timeOrNil(t.ConsentedAt), LastSyncAt: timeOrNil(t.LastSyncAt), ConnectedBy: textOrNil(t.ConnectedBy),
		Readiness: readiness{
			Consent: string(r.Consent), ExchangeBootstrap: string(r.Bootstrap), SMTPAuth: string(r.SMTPAuth),
			Discovery: string(r.Discovery), DomainsVerified: r.DomainsVerified, DomainsTotal: r.DomainsTotal,
			MailboxesTotal: r.MailboxesTotal, ReadyToProvision: r.ReadyToProvision, NextStep: textOrNil(r.NextStep),
			Headroom: headroomOf(r.Headroom),
		},
	}
}

func syncedOf(s tenants.SyncResult) synced {
	status := "completed"
	if s.Partial {
		status = "partial"
	}
	return synced{
		Status: status, RunID: s.RunID, TenantID: string(s.Tenant.GUID),
		Bootstrap: bootstrap{Status: s.Bootstrap.Status, Message: s.Bootstrap.Message, Skipped: s.Bootstrap.Skipped},
		SMTPAuth:  smtpAuth{Status: s.SMTPAuth.Status, Message: s.SMTPAuth.Message, Skipped: s.SMTPAuth.Skipped},
		Result: discovered{
			Status: s.Discovery.Status, TenantName: s.Tenant.Name, DefaultDomain: s.Tenant.PrimaryDomain(),
			DomainCount: s.Tenant.DomainCount, UserMailboxCount: s.Tenant.UserMailboxes, MailboxError: textOrNil(s.MailboxError),
		},
	}
}

func deletedTenantOf(d tenants.DeleteResult) deletedTenant {
	message := "The tenant, its domains, its mailboxes and its sync history were removed from the service. "
	if d.Managed {
		message = "The assignment of the tenant was ended. "
	}
	switch {
	case len(d.RemainingRules) > 0:
		message += "Mail flow rules that blocked mailboxes may still exist in the tenant. They block the mailboxes that they list until they are removed there: " +
			strings.Join(d.RemainingRules, ", ") + ". Nothing else at the mail platform was changed."
	case d.RulesRemoved:
		message += "The mail flow rules that blocked mailboxes were removed from the tenant; nothing else at the mail platform was changed."
	default:
		message += "The tenant at the mail platform was not changed."
	}
	return deletedTenant{Status: "deleted", TenantID: string(d.GUID), TenantName: d.Name, Message: message}
}

// wasDiscovered reports whether a discovery has ever completed. The result stays true when a later
// discovery fails.
func wasDiscovered(t tenant.Tenant) bool {
	return t.Discovery == tenant.DiscoveryCompleted || !t.LastSyncAt.IsZero()
}

// timeOrNil returns nil for the zero time.
func timeOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

// textOrNil returns nil for the empty text.
func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

type headroom struct {
	ExternalRecipientLimit int        `json:"external_recipient_limit" doc:"The maximum number of recipients outside the tenant for all of its mail in 24 hours that the platform publishes for the tenant's licences. The platform may apply another limit."`
	SendsToday             int        `json:"sends_today" doc:"The number of messages that the tenant's mailboxes have sent on the current day in the tenant's time zone. Before the first count of the day it is 0. The mailboxes then still show the count of the previous day. This counts messages of shared mailboxes since midnight, not recipients; the platform counts external recipients of the last 24 hours."`
	SendsTodayAt           *time.Time `json:"sends_today_at" doc:"When the oldest of these counts was taken, null before the first count of the day."`
	Remaining              int        `json:"remaining" doc:"The remaining part of the limit, 0 if the limit is exceeded."`
	UtilizationPct         float64    `json:"utilization_pct" doc:"How much of the limit is used, in percent with one decimal."`
	EmailLicenses          int        `json:"email_licenses" doc:"The number of purchased e-mail licences, assigned or not. Trial licences do not count, and shared mailboxes need no licence."`
	EstimatedAt            time.Time  `json:"estimated_at" doc:"When the licences were read: the last sync that could read them."`
}

func headroomOf(h *tenant.Headroom) nullable[headroom] {
	if h == nil {
		return nullable[headroom]{}
	}
	return nullable[headroom]{&headroom{
		ExternalRecipientLimit: h.Limit, SendsToday: h.Sent, SendsTodayAt: timeOrNil(h.CountedAt), Remaining: h.Remaining, UtilizationPct: h.UsedPercent,
		EmailLicenses: h.Licenses, EstimatedAt: h.LicensesAt.UTC(),
	}}
}
