// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
)

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

// documentParameters replaces the parameters that huma derived from an input type by described
// ones. It also adds the header parameters.
func documentParameters(_ *huma.OpenAPI, op *huma.Operation) {
	for i, p := range op.Parameters {
		described, own := parameterDocs[op.OperationID+"."+p.Name]
		if !own {
			described = parameterDocs[p.Name]
		}
		described.Name, described.In, described.Required = p.Name, p.In, p.Required
		op.Parameters[i] = &described
	}
	if guard.TermsOf(op).Write {
		least, most := 1, 255
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header", Required: true,
			Description: "A string of your choice, new for each new operation. The same request with the same key within 24 hours " +
				"gets the same response, and nothing is done twice.",
			Schema:  &huma.Schema{Type: huma.TypeString, MinLength: &least, MaxLength: &most, Pattern: "^[!-~]+$"},
			Example: "3f1c9c1e-add-domain",
		})
	}
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: "X-Request-ID", In: "header",
		Description: "An id of your choice for this request. The response returns it if it has this format; otherwise it is replaced by a new one.",
		Schema:      &huma.Schema{Type: huma.TypeString, Pattern: guard.RequestIDPattern},
		Example:     exampleRequestID,
	})
}
