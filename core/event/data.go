// SPDX-License-Identifier: Apache-2.0

package event

// The API shows the data of an event as a value of one of the Data types below. The value has ids
// and the state of the object after the change, or before its removal. It never contains a secret
// or the body of a message. Callers depend on the names of the members, so a member is never
// renamed. The doc tags are texts of the OpenAPI document.

// TenantData is the data of events of a tenant.
type TenantData struct {
	TenantID     string `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	TenantName   string `json:"tenant_name" doc:"Display name from the mail platform."`
	TenantDomain string `json:"tenant_domain" doc:"The platform's built-in domain of the tenant."`
	Consent      string `json:"consent" enum:"granted,revoked" doc:"Whether the administrator's consent is valid."`
}

// ReadinessData is the data of tenant.readiness_changed.
type ReadinessData struct {
	TenantID          string  `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	Status            string  `json:"status" enum:"pending,ready,failed,revoked" doc:"The state of the tenant's setup."`
	Consent           string  `json:"consent" enum:"granted,revoked" doc:"Whether the administrator's consent is valid."`
	ExchangeBootstrap string  `json:"exchange_bootstrap" enum:"ready,pending,failed" doc:"Whether mail-server automation is set up."`
	SMTPAuth          string  `json:"smtp_auth" enum:"enabled,disabled,refused,unknown" doc:"Organization-wide SMTP AUTH."`
	Discovery         string  `json:"discovery" enum:"completed,pending,failed" doc:"The last discovery."`
	DomainsVerified   int     `json:"domains_verified" doc:"Verified custom domains."`
	DomainsTotal      int     `json:"domains_total" doc:"All custom domains."`
	MailboxesTotal    int     `json:"mailboxes_total" doc:"All mailboxes."`
	ReadyToProvision  bool    `json:"ready_to_provision" doc:"Whether mailboxes can be provisioned on a verified domain."`
	NextStep          *string `json:"next_step" doc:"The next step of the setup, null if no step is left."`
}

// DomainData is the data of events of a domain.
type DomainData struct {
	TenantID    string   `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DomainID    string   `json:"domain_id" format:"uuid" doc:"The domain's id."`
	Domain      string   `json:"domain" doc:"The domain, in A-labels."`
	IsVerified  bool     `json:"is_verified" doc:"Whether the mail platform has verified it."`
	DKIMEnabled bool     `json:"dkim_enabled" doc:"Whether the mail platform signs the domain's mail."`
	Drifted     []string `json:"drifted" doc:"The records that were correct and no longer are: spf_gone, dkim_broken, mx_moved. Empty if there are none."`
}

// RunData is the data of dns_run.completed.
type RunData struct {
	RunID        string `json:"run_id" format:"uuid" doc:"The run's id."`
	Status       string `json:"status" enum:"completed,failed" doc:"failed if at least one of its jobs failed."`
	TotalDomains int    `json:"total_domains" doc:"The number of domains that were requested."`
}

// JobData is the data of events of a provisioning job.
type JobData struct {
	TenantID           string  `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DomainID           string  `json:"domain_id" format:"uuid" doc:"The domain's id."`
	Domain             string  `json:"domain" doc:"The domain, in A-labels."`
	RunID              string  `json:"run_id" format:"uuid" doc:"The run that the job belongs to."`
	JobID              string  `json:"job_id" format:"uuid" doc:"The job's id."`
	Stage              string  `json:"stage" doc:"The stage in which the job stopped."`
	Status             string  `json:"status" enum:"action_required,failed" doc:"The job's status."`
	ActionRequiredCode *string `json:"action_required_code" doc:"What a person has to do, null if nothing."`
}

// MailboxData is the data of events of a mailbox.
type MailboxData struct {
	TenantID       string `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	MailboxID      string `json:"mailbox_id" format:"uuid" doc:"The mailbox's id."`
	Email          string `json:"email" doc:"The mailbox's address."`
	DisplayName    string `json:"display_name" doc:"The name that recipients see."`
	AccountEnabled bool   `json:"account_enabled" doc:"Whether the mailbox's user account at the mail platform is enabled."`
	DailySendLimit *int   `json:"daily_send_limit" doc:"The mailbox's own limit, null if it has none."`
}

// BlockData is the data of mailbox.blocked, mailbox.unblocked and mailbox.would_block.
type BlockData struct {
	TenantID   string `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	MailboxID  string `json:"mailbox_id" format:"uuid" doc:"The mailbox's id."`
	Email      string `json:"email" doc:"The mailbox's address."`
	SentCount  int    `json:"sent_count" doc:"How many messages were counted."`
	LimitValue int    `json:"limit_value" doc:"The limit that applied."`
}

// IntegrationData is the data of events of an integration.
type IntegrationData struct {
	IntegrationID string `json:"integration_id" format:"uuid" doc:"The integration's id."`
	Provider      string `json:"provider" doc:"The sending platform."`
	Name          string `json:"name" doc:"The label that you chose."`
	Status        string `json:"status" enum:"connected,failed" doc:"failed: the platform no longer accepts the credential."`
}

// ConnectionData is the data of events of a connection.
type ConnectionData struct {
	TenantID      string  `json:"tenant_id" format:"uuid" doc:"The GUID of the mailbox's tenant."`
	ConnectionID  string  `json:"connection_id" format:"uuid" doc:"The connection's id."`
	IntegrationID string  `json:"integration_id" format:"uuid" doc:"The integration."`
	MailboxID     string  `json:"mailbox_id" format:"uuid" doc:"The mailbox."`
	Status        string  `json:"status" enum:"pending,connected,failed,disconnected,disconnecting,other" doc:"The connection's status."`
	Reason        *string `json:"reason" doc:"The class of the failure, null if none is known."`
}

// KeyData is the data of events of an API key.
type KeyData struct {
	KeyID   string `json:"key_id" format:"uuid" doc:"The key's id."`
	Name    string `json:"name" doc:"The key's name."`
	KeyHint string `json:"key_hint" doc:"The last four characters of the key."`
}

// WebhookData is the data of webhook.disabled.
type WebhookData struct {
	WebhookID string `json:"webhook_id" format:"uuid" doc:"The webhook's id."`
	Status    string `json:"status" enum:"disabled" doc:"Always disabled."`
	Reason    string `json:"reason" enum:"requested,gone,failing" doc:"requested: by the account. gone: the endpoint answered 410. failing: no delivery succeeded for five days."`
}

// PolicyData is the data of events of a send limit policy.
type PolicyData struct {
	TenantID       string  `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	PolicyID       string  `json:"policy_id" format:"uuid" doc:"The policy's id."`
	DomainScope    *string `json:"domain_scope" doc:"The domain, null for the whole tenant."`
	ScopeLabel     string  `json:"scope_label" doc:"The domain, or the word tenant if the policy is for the whole tenant."`
	DailySendLimit int     `json:"daily_send_limit" doc:"The maximum number of messages per day."`
}

func orNil[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
