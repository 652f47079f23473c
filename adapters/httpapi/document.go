// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/openapi"
)

// The tags of the document, one per resource.
const (
	tagTenants   = "Tenants"
	tagDomains   = "Domains"
	tagDNS       = "DNS"
	tagMailboxes = "Mailboxes"
	tagLimits    = "Send limits"
	tagSending   = "Integrations"
	tagWebhooks  = "Webhooks"
	tagKeys      = "API keys"
)

// tags describes the tags, in the order of the document.
var tags = []*huma.Tag{
	{Name: tagTenants, Description: "Connect, list, synchronize and delete tenants of the mail platform."},
	{Name: tagDomains, Description: "Add and verify the custom domains of a tenant, and enable DKIM signing."},
	{Name: tagDNS, Description: "The DNS of a domain by the domain's own id."},
	{Name: tagMailboxes, Description: "Provision, change and read shared mailboxes."},
	{Name: tagLimits, Description: "Limit how many messages a mailbox sends in a day, and list when mailboxes were blocked and unblocked."},
	{Name: tagSending, Description: "Connect mailboxes to sending platforms."},
	{Name: tagWebhooks, Description: "Receive the account's events at an endpoint of your own."},
	{Name: tagKeys, Description: "Rotate the key that a caller uses."},
}

// parameterDocs describes each parameter, keyed by name. A key "operation-id.name" overrides the
// name for one operation. The formats are defined here and not in the input types: a malformed id
// in a path must be answered with 404, so huma must not validate it.
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
		Description: "The id of the session, from the response that started it.",
		Schema:      &huma.Schema{Type: huma.TypeString, Format: "uuid"},
		Example:     exampleSessionID,
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
	"after": {
		Description: "The `next_cursor` of the page before. Without it, the list begins with the newest entry.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     exampleDeliveryCursor,
	},
	"list-webhooks.after": {
		Description: "The `next_cursor` of the page before. Without it, the list begins with the newest entry.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     exampleWebhookCursor,
	},
	"list-webhooks.limit":           pageLimit,
	"list-webhook-deliveries.limit": pageLimit,
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
	"limit": {
		Description: "The maximum number of entries to list.",
		Schema:      &huma.Schema{Type: huma.TypeInteger, Default: defaultRunLimit, Minimum: ptr(1.0), Maximum: ptr(float64(maxRunLimit))},
		Example:     50,
	},
	"domain_scope": {
		Description:     "A domain of the tenant. If omitted, the whole tenant. Case and one final dot do not matter.",
		Schema:          &huma.Schema{Type: huma.TypeString},
		AllowEmptyValue: true, // an empty value is not a domain
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
		Schema:      &huma.Schema{Type: huma.TypeInteger, Default: defaultEventLimit, Minimum: ptr(1.0), Maximum: ptr(float64(maxEventLimit))},
		Example:     100,
	},
	"offset": {
		Description: "The number of newest events to skip.",
		Schema:      &huma.Schema{Type: huma.TypeInteger, Default: 0, Minimum: ptr(0.0), Maximum: ptr(float64(maxOffset))},
		Example:     100,
	},
	"user_email": {
		Description: "The e-mail address of a member of the key's own account. It never selects the account.",
		Schema:      &huma.Schema{Type: huma.TypeString},
		Example:     "ops@acme.example",
	},
}

// pageLimit describes the parameter limit of a list with a cursor.
var pageLimit = huma.Param{
	Description: "The maximum number of entries to list.",
	Schema:      &huma.Schema{Type: huma.TypeInteger, Default: defaultPageLimit, Minimum: ptr(1.0), Maximum: ptr(float64(maxPageLimit))},
	Example:     50,
}

// Document returns the OpenAPI document. It needs no services. The document is built once per
// process.
func Document() (openapi.Documents, error) { return document() }

var document = sync.OnceValues(func() (openapi.Documents, error) {
	api := newAPI(http.NewServeMux())
	operations(api, Options{})
	return openapi.Render(api.OpenAPI())
})
