// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/openapi"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/core/tenant"
)

// The tags of the document.
const (
	tagTenants      = "Tenants"
	tagDomains      = "Domains"
	tagDNS          = "DNS"
	tagMailboxes    = "Mailboxes"
	tagLimits       = "Send limits"
	tagIntegrations = "Integrations"
	tagEvents       = "Events"
	tagWebhooks     = "Webhooks"
	tagKeys         = "API keys"
	tagAudit        = "Audit"
)

// tags describes the tags, in the order in which the document lists them.
var tags = []*huma.Tag{
	{Name: tagTenants, Description: "Connect, list, synchronize and delete tenants of the mail platform."},
	{Name: tagDomains, Description: "Add and verify the custom domains of a tenant, and enable DKIM signing."},
	{Name: tagDNS, Description: "Read, plan and provision the DNS of a domain."},
	{Name: tagMailboxes, Description: "Provision, change and read shared mailboxes."},
	{Name: tagLimits, Description: "Limit how many messages a mailbox sends in a day, and list when mailboxes were blocked and unblocked."},
	{Name: tagIntegrations, Description: "Connect mailboxes to sending platforms."},
	{Name: tagEvents, Description: "Follow what changes in the account."},
	{Name: tagWebhooks, Description: "Receive the account's events at an endpoint of your own."},
	{Name: tagKeys, Description: "Describe the caller, and list, create, rotate and revoke API keys."},
	{Name: tagAudit, Description: "Read and export who did what in the account. The entries form a chain of hashes, so changed entries can be detected."},
}

// parameterDocs describes each parameter, keyed by name. A key "operation-id.name" describes the
// parameter of one operation, and takes precedence over the key "name". The formats are defined
// here and not in the input types, so that huma does not check the values. A malformed id in a path
// must get a 404 answer.
var parameterDocs = map[string]huma.Param{
	"tenant_id": {
		Description: "The mail platform's GUID of the tenant, in upper or lower case. A malformed GUID is handled like an unknown one.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleTenantID,
	},
	"domain_name": {
		Description: "The custom domain. Case and one final dot do not matter; U-labels are converted to A-labels.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     exampleDomain,
	},
	"domain_id": {
		Description: "The id of the domain, from the domain list.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleDomainID,
	},
	"mailbox_id": {
		Description: "The id of the mailbox, from the mailbox list.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleMailboxID,
	},
	"run_id": {
		Description: "The id of the run, from the provisioning response or the list of runs.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleProvisioningID,
	},
	"job_id": {
		Description: "The id of the job, from its run.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleJobID,
	},
	"integration_id": {
		Description: "The id of the integration, from the list of integrations.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleIntegrationID,
	},
	"session_id": {
		Description: "The id of the sign-in session, from the response that started it.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleSessionID,
	},
	"connect_session_id": {
		Description: "The id of the connect session, from the response with its link.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleConnectSessionID,
	},
	"return_url": {
		Description: "Where the last page of the connect flow leads: an https URL whose host is registered for the account.",
		Schema:      &huma.Schema{Type: huma.TypeString}, AllowEmptyValue: true, // an empty value has an error code of its own
		Example: "https://app.acme.example/connected",
	},
	"state": {
		Description: "A text of your own, which is added to `return_url` unchanged.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: pointerTo(maxStateLength)},
		Example:     "customer-4711",
	},
	"ttl_minutes": {
		Description: fmt.Sprintf("The lifetime of the link in minutes, at most %d days.", tenant.MaxLinkLifetime/(24*time.Hour)),
		Schema:      &huma.Schema{Type: huma.TypeInteger, Default: defaultLinkMinutes, Minimum: pointerTo(1.0), Maximum: pointerTo(float64(maxLinkMinutes))},
		Example:     1440,
	},
	"from_platform": {
		Description: "Whether to remove the domain at the mail platform too.",
		Schema:      &huma.Schema{Type: huma.TypeBoolean, Default: false},
		Example:     true,
	},
	"confirm": {
		Description: "The address of the mailbox, to confirm that it is the one to remove. Case does not matter.",
		Schema:      &huma.Schema{Type: huma.TypeString}, AllowEmptyValue: true,
		Example: exampleAddress,
	},
	"webhook_id": {
		Description: "The id of the webhook, from the list of webhooks.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleWebhookID,
	},
	"delivery_id": {
		Description: "The id of the delivery, from the list of deliveries.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleDeliveryID,
	},
	"list-webhook-deliveries.after": pageCursor(exampleDeliveryCursor),
	"list-webhooks.after":           pageCursor(exampleWebhookCursor),
	"limit":                         pageLimit,
	"status": {
		Description: "Only deliveries with this status.",
		Schema:      &huma.Schema{Type: huma.TypeString, Enum: []any{"pending", "delivered", "failed"}},
		Example:     "failed",
	},
	"active_only": {
		Description: "Whether to omit runs in which every job has ended.",
		Schema:      &huma.Schema{Type: huma.TypeBoolean, Default: false},
		Example:     true,
	},
	"list-provisioning-runs.limit": {
		Description: "The maximum number of entries to list.",
		Schema:      &huma.Schema{Type: huma.TypeInteger, Default: defaultRunLimit, Minimum: pointerTo(1.0), Maximum: pointerTo(float64(maxRunLimit))},
		Example:     50,
	},
	"domain_scope": {
		Description:     "A domain of the tenant. If omitted, the whole tenant. Case and one final dot do not matter.",
		Schema:          &huma.Schema{Type: huma.TypeString},
		AllowEmptyValue: true, // an empty value is an invalid domain, not a missing parameter
		Example:         exampleDomain,
	},
	"list-enforcement-events.tenant_id": {
		Description: "Only events of this tenant, by its GUID.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleTenantID,
	},
	"action": {
		Description: "Only events with this action.",
		Schema:      &huma.Schema{Type: huma.TypeString, Enum: []any{"blocked", "unblocked"}},
		Example:     "blocked",
	},
	"list-enforcement-events.limit": {
		Description: "The maximum number of entries to list.",
		Schema:      &huma.Schema{Type: huma.TypeInteger, Default: defaultEventLimit, Minimum: pointerTo(1.0), Maximum: pointerTo(float64(maxEventLimit))},
		Example:     100,
	},
	"types": {
		Description: "Only events of these types, separated by commas.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     "domain.verified,mailbox.blocked",
	},
	"list-events.tenant_id": {
		Description: "Only events of this tenant, by its GUID. Events of a removed tenant stay.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleTenantID,
	},
	"after": {
		Description: "The `next_cursor` of an earlier response, or `now` for the end. If omitted, the list begins at the oldest event that is kept.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     endOfEvents,
	},
	"wait_seconds": {
		Description: "How long to wait for an event if there is none yet. At most 5 requests of an account wait at once.",
		Schema:      &huma.Schema{Type: huma.TypeInteger, Default: 0, Minimum: pointerTo(0.0), Maximum: pointerTo(float64(maxWaitSeconds))},
		Example:     30,
	},
	"offset": {
		Description: "The number of newest events to skip.",
		Schema:      &huma.Schema{Type: huma.TypeInteger, Default: 0, Minimum: pointerTo(0.0), Maximum: pointerTo(float64(maxOffset))},
		Example:     100,
	},
	"key_id": {
		Description: "The id of the API key, from the list of keys. It is never the key itself.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleKeyID,
	},
	"list-keys.after": pageCursor(page.Cursor(exampleKeyID).Encode(keyListName)),
	"list-audit-entries.tenant_id": {
		Description: "Only entries that concern this tenant, by its GUID.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleTenantID,
	},
	"list-audit-entries.action": {
		Description: "Only entries with this action.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     "add-domain",
	},
	"actor": {
		Description: "Only entries of this actor: its id, its name, or its type.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     exampleKeyID,
	},
	"from": {
		Description: "Only entries that were written at this time or later (RFC 3339).",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "date-time"},
		Example:     "2026-11-21T00:00:00Z",
	},
	"to": {
		Description: "Only entries that were written before this time (RFC 3339).",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "date-time"},
		Example:     "2026-11-22T00:00:00Z",
	},
	"list-audit-entries.after": pageCursor(sequenceCursor(auditListName, 4711)),
	"user_email": {
		Description: "The e-mail address of a member of the key's own account. Only the key determines the account.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     "ops@acme.example",
	},
}

// pageLimit describes the parameter `limit` of a list with cursors.
var pageLimit = huma.Param{
	Description: "The maximum number of entries to list.",
	Schema:      &huma.Schema{Type: huma.TypeInteger, Default: page.DefaultLimit, Minimum: pointerTo(1.0), Maximum: pointerTo(float64(page.MaxLimit))},
	Example:     page.MaxLimit,
}

// pageCursor describes the parameter `after` of a list that begins with the newest entry.
func pageCursor(example string) huma.Param {
	return huma.Param{
		Description: "The `next_cursor` of the previous page. If omitted, the list begins with the newest entry.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     example,
	}
}

// Document returns the OpenAPI document. It builds the document once per process. It needs no
// services.
func Document() (openapi.Documents, error) { return document() }

var document = sync.OnceValues(func() (openapi.Documents, error) {
	api := newAPI(http.NewServeMux())
	registerOperations(api, Options{})
	return openapi.Render(api.OpenAPI())
})
