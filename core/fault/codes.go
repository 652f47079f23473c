// SPDX-License-Identifier: Apache-2.0

package fault

// The published codes. Each line declares an error with its kind and its page under /docs/errors.
// All returns them in the same order.
var (
	InvalidRequest        = Code{"invalid_request", Invalid, "Invalid request", "The request does not match the schema of this operation: malformed JSON, a missing or unknown member, a wrong type or an invalid query value. `errors` names each invalid part. Correct them and send the request again."}
	InvalidDomain         = Code{"invalid_domain", Invalid, "Invalid domain", "The domain is not a host name of two labels or more, or it is itself a public suffix."}
	BuiltinDomain         = Code{"builtin_domain_not_allowed", Invalid, "Built-in domain not allowed", "The mail platform assigns names under this domain to its tenants. Add a domain of your own."}
	DomainLimitReached    = Code{"domain_limit_reached", Invalid, "Domain limit reached", "A tenant can have at most 12 custom domains, including those that discovery found."}
	DomainNotVerified     = Code{"domain_not_verified", Invalid, "Domain not verified", "Mailboxes can be created only on a verified domain. Publish its verification record and verify it first."}
	VerificationFailed    = Code{"verification_failed", Invalid, "Verification failed", "The mail platform cannot find the verification record yet. `detail` repeats the record that it expects. Check the record. Propagation typically takes 5 to 30 minutes. Try again with a new Idempotency-Key."}
	DKIMNotReady          = Code{"dkim_not_ready", Invalid, "DKIM not ready", "The two DKIM CNAME records are not visible yet, or the mail platform has not created them. The dkim-status operation shows which of the two it is."}
	InvalidMailboxEmail   = Code{"invalid_mailbox_email", Invalid, "Invalid mailbox e-mail", "A mailbox address must be `local@domain`, with the domain of the request and a plain local part."}
	DuplicateMailboxEmail = Code{"duplicate_mailbox_email", Invalid, "Duplicate mailbox e-mail", "The same address occurs twice in one request. Addresses are compared without regard to case."}
	WeakPassword          = Code{"weak_password", Invalid, "Weak password", "The password must have 8 to 256 characters from at least three of four classes: lower-case letters, upper-case letters, digits (each as defined by Unicode) and all other characters."}
	MailboxLimitReached   = Code{"mailbox_limit_reached", Invalid, "Mailbox limit reached", "A domain can have at most 3 mailboxes, including those that discovery found."}
	InvalidSendLimit      = Code{"invalid_send_limit", Invalid, "Invalid send limit", "`daily_send_limit` must be an integer from 1 to 25."}
	ConfirmationRequired  = Code{"confirmation_required", Invalid, "Confirmation required", "This operation cannot be undone here. Repeat the address of the mailbox in the query parameter `confirm`."}
	NoUpdates             = Code{"no_updates", Invalid, "No updates", "The body contains no field that this operation can change."}
	KeyRequired           = Code{"idempotency_key_required", Invalid, "Idempotency-Key required", "Every write request must have an Idempotency-Key header, with a new value for each new operation."}
	InvalidKey            = Code{"invalid_idempotency_key", Invalid, "Invalid Idempotency-Key", "The Idempotency-Key header must occur once and have 1 to 255 visible ASCII characters."}
	ConnectLinkInvalid    = Code{"connect_link_invalid", Invalid, "Link not valid", "The connect link is forged, expired, already used or was opened in another browser. Ask for a new one with GET /v1/tenants/connect-url."}
	InvalidReturnURL      = Code{"invalid_return_url", Invalid, "Invalid return URL", "`return_url` must be an https URL whose host the operator has registered for the account with `tenantry account set --return-hosts`."}
	CredentialRejected    = Code{"provider_credential_rejected", Invalid, "Credential rejected", "The provider rejects the credential. Create a new credential at the provider, with the permissions that it needs, and send that one."}
	UnknownProvider       = Code{"unknown_provider", Invalid, "Unknown provider", "There is no sending platform with this name. `detail` names the platforms that this service has."}
	PlusVibeWorkspace     = Code{"plusvibe_workspace_required", Invalid, "Workspace required", "The credential has access to several workspaces, or not to the requested one. `workspaces` lists the workspaces that it has access to: send the request again with `workspace_id` and a new Idempotency-Key."}
	SalesBlinkWorkspace   = Code{"salesblink_workspace_required", Invalid, "Workspace required", "The credential has access to several workspaces, or not to the requested one. `workspaces` lists the workspaces that it has access to: send the request again with `workspace_id` and a new Idempotency-Key."}
	InvalidWebhookURL     = Code{"invalid_webhook_url", Invalid, "Invalid webhook URL", "Messages cannot be sent to this URL. It must be an https URL without user name and password, and its host must resolve to public addresses only. `detail` says what is wrong."}
	EmailBisonWorkspace   = Code{"emailbison_workspace_required", Invalid, "Workspace required", "The token works in the workspace that is currently selected at the platform, so it cannot be limited to one workspace. Create a token of the type api-user in the workspace to be used, and send that token."}

	InvalidAuthHeader = Code{"invalid_auth_header", Unauthenticated, "Authorization header missing or malformed", "Send exactly one header `Authorization: Bearer <API_KEY>`."}
	MissingAPIKey     = Code{"missing_api_key", Unauthenticated, "API key missing", "The Authorization header contains no API key after `Bearer`."}
	InvalidAPIKey     = Code{"invalid_api_key", Unauthenticated, "API key not valid", "The key is malformed, unknown, revoked or replaced by a rotation. `detail` says if the key has expired, or is not allowed from the address of the request."}

	NoAPIPlan              = Code{"no_api_plan", PaymentRequired, "No active API plan", "The account has no active plan. No data is lost. Every request is answered with 402 until the plan is active again."}
	TenantLimitReached     = Code{"tenant_limit_reached", PaymentRequired, "Tenant limit reached", "All tenant slots of the plan are in use. Delete a tenant or switch to a larger plan."}
	DNSAutomationNotInPlan = Code{"dns_automation_not_in_plan", PaymentRequired, "Automatic DNS not in the plan", "The account's plan does not include automatic DNS. Publish the records of GET /v1/domains/{domain_id}/dns/plan by hand, or switch to a plan that includes it."}

	InsufficientScope = Code{"insufficient_scope", Forbidden, "Insufficient scope", "The API key does not hold what the request needs. `required_scope` names the scope; `detail` says if a bound of the key stops the request instead: its tenants, addresses or expiry. Use a key that holds it. GET /v1/me shows what the key of a request holds."}
	AccessDenied      = Code{"access_denied", Forbidden, "Access denied", "The mail platform no longer lets this service manage the tenant, or the tenant's assignment was withdrawn. To reconnect a tenant of your own, give consent again."}
	ConsentDeclined   = Code{"consent_declined", Forbidden, "Consent declined", "The administrator declined, or the mail platform did not grant the consent. Nothing was connected."}
	NotAdministrator  = Code{"not_an_administrator", Forbidden, "Not an administrator of this tenant", "The person who signed in is a guest, or is not a global administrator of the tenant that gave consent."}

	AccountNotFound       = Code{"account_not_found", NotFound, "Account not found", "There is no account with this id or e-mail address. `tenantry account list` shows all accounts."}
	KeyNotFound           = Code{"key_not_found", NotFound, "API key not found", "The account has no API key with this id. GET /v1/keys lists its keys, and for operators `tenantry key list`."}
	DNSConnectionNotFound = Code{"dns_connection_not_found", NotFound, "DNS connection not found", "There is no DNS connection with this id. `tenantry dns-connection list` shows the ids."}
	RouteNotFound         = Code{"route_not_found", NotFound, "No such route", "The API has no operation at this path. /openapi.json lists all of them."}
	TenantNotFound        = Code{"tenant_not_found", NotFound, "Tenant not found", "The account has no tenant with this GUID: it was never connected, was deleted, or belongs to another account. GET /v1/tenants lists the account's tenants."}
	DomainNotFound        = Code{"domain_not_found", NotFound, "Domain not found", "The tenant does not have this domain, or the account has no domain with this id. GET /v1/tenants/{tenant_id}/domains lists the domains. A sync finds domains that were added at the mail platform."}
	MailboxNotFound       = Code{"mailbox_not_found", NotFound, "Mailbox not found", "The tenant has no mailbox with this id. GET /v1/tenants/{tenant_id}/mailboxes lists its mailboxes. The next sync removes mailboxes that no longer exist at the mail platform."}
	PolicyNotFound        = Code{"policy_not_found", NotFound, "Policy not found", "No send limit is enforced for this scope. POST /v1/tenants/{tenant_id}/mailbox-limits sets one. A policy is deleted together with its domain."}
	RunNotFound           = Code{"provisioning_run_not_found", NotFound, "Provisioning run not found", "The account has no provisioning run with this id. GET /v1/dns/provisioning-runs lists its runs. Runs of a deleted tenant no longer exist."}
	JobNotFound           = Code{"provisioning_job_not_found", NotFound, "Provisioning job not found", "The account has no provisioning job with this id. A run lists its jobs. Jobs of a deleted tenant no longer exist."}
	IntegrationNotFound   = Code{"integration_not_found", NotFound, "Integration not found", "The account has no integration with this id. GET /v1/integrations lists its integrations."}
	ConnectSessionUnknown = Code{"connect_session_not_found", NotFound, "Connect session not found", "The account has no connect session with this id. Sessions are kept for 30 days after their link has expired. GET /v1/tenants/connect-url starts a new one."}
	WebhookNotFound       = Code{"webhook_not_found", NotFound, "Webhook not found", "The account has no webhook with this id. GET /v1/webhooks lists its webhooks."}
	DeliveryNotFound      = Code{"webhook_delivery_not_found", NotFound, "Delivery not found", "The webhook has no delivery with this id. GET /v1/webhooks/{webhook_id}/deliveries lists its deliveries. They are deleted together with their events."}
	SessionNotFound       = Code{"oauth_session_not_found", NotFound, "OAuth session not found", "This mailbox has no OAuth session with this id at this integration. Start a new session with a new Idempotency-Key."}

	WrongMethod  = Code{"method_not_allowed", MethodNotAllowed, "Method not allowed", "The path does not support this method. The `Allow` header lists the methods that it supports."}
	WrongAccept  = Code{"not_acceptable", NotAcceptable, "Not acceptable", "All responses are JSON. Send `Accept: application/json` or omit the header."}
	BodyTooLarge = Code{"request_too_large", TooLarge, "Request too large", "A request body can have at most 64 KiB. Provision the mailboxes of one domain at a time."}
	WrongMedia   = Code{"unsupported_media_type", UnsupportedMedia, "Unsupported media type", "Send bodies as `Content-Type: application/json` in UTF-8, without a content encoding."}

	AccountClosed       = Code{"account_closed", Conflict, "Account closed", "The account was closed permanently. A returning customer needs a new account, which may have the same e-mail address."}
	KeyRevoked          = Code{"key_revoked", Conflict, "API key revoked", "The key was revoked or rotated, which cannot be undone. Create a new key instead."}
	DomainInUse         = Code{"domain_in_use", Conflict, "Domain in use", "Mailboxes or other objects of the tenant use the domain, or it is the tenant's default domain. Remove its mailboxes first. `detail` says what uses it."}
	DomainUnavailable   = Code{"domain_unavailable", Conflict, "Domain unavailable", "The domain already belongs to another tenant of the mail platform. Remove it from that tenant first."}
	ExchangeNotReady    = Code{"exchange_bootstrap_not_ready", Conflict, "Mail server not ready", "The mail server of this tenant is not prepared yet. Run a sync. The tenant's `readiness.next_step` shows what is missing."}
	SMTPAuthNotEnabled  = Code{"smtp_auth_not_enabled", Conflict, "SMTP AUTH not enabled", "Authenticated SMTP is disabled for the whole tenant. Run a sync, which enables it if the mail platform allows that."}
	KeyInProgress       = Code{"idempotency_request_in_progress", Conflict, "Request in progress", "The first request with this Idempotency-Key is still running. Wait `Retry-After` seconds, then send the same request again with the same Idempotency-Key: it gets the response to the first request."}
	KeyConflict         = Code{"idempotency_key_conflict", Conflict, "Idempotency-Key conflict", "The Idempotency-Key was used within the last 24 hours for another method, path, query string or body. The body must match in every byte, including white space. Send the first request again to get its response, or send this request with a new Idempotency-Key."}
	TenantHeld          = Code{"tenant_held_elsewhere", Conflict, "Tenant cannot be connected", "This tenant is already connected elsewhere. It must be released there before it can be connected here."}
	ProviderUnsupported = Code{"dns_provider_unsupported", Conflict, "DNS provider not supported", "The domain's DNS is served by a provider to which this service cannot write. Publish the records of GET /v1/domains/{domain_id}/dns/plan by hand."}
	ConnectionRequired  = Code{"dns_connection_required", Conflict, "DNS connection required", "The account has no connection to the domain's DNS provider with access to the zone. Add one, or publish the records of GET /v1/domains/{domain_id}/dns/plan by hand."}
	DNSConflict         = Code{"dns_conflict", Conflict, "DNS conflict", "An existing record conflicts with a record that the mail platform needs, and is not overwritten. `conflicts` lists each conflict. Resolve them, then provision again."}
	JobActive           = Code{"domain_provisioning_already_active", Conflict, "Provisioning already active", "The domain has a provisioning job that has not ended. GET /v1/dns/provisioning-runs?active_only=true shows its run. Retry a job that is waiting or action_required instead of starting a new one."}
	JobNotRetryable     = Code{"provisioning_job_not_retryable", Conflict, "Job not retryable", "Only a job that is waiting or action_required can be retried. A queued or running job is already in progress. After a completed or failed job, provision the domain again."}
	CapabilityMissing   = Code{"capability_not_supported", Conflict, "Not supported by this integration", "The sending platform, this credential or the operator's settings do not allow this operation. `capabilities` of the integration shows which operations it supports."}
	SessionConnected    = Code{"connect_session_connected", Conflict, "Connect session connected", "A tenant was connected through this session, so its link cannot be renewed. GET /v1/tenants/connect-url starts a new session."}
	SessionActive       = Code{"oauth_session_pending", Conflict, "OAuth session pending", "A session of this mailbox is pending at this integration. Finish the sign-in, or start a new session when it has expired."}
	WebhookLimitReached = Code{"webhook_limit_reached", Conflict, "Webhook limit reached", "An account can have at most 10 webhooks. Delete one, or let one endpoint receive more types of events."}
	ConnectedElsewhere  = Code{"mailbox_already_connected_elsewhere", Conflict, "Mailbox connected elsewhere", "The mailbox is connected, or is being connected, through another integration. Disconnect it there first. If the outcome of a disconnect is unknown, refresh that integration."}

	CursorExpired = Code{"cursor_expired", Gone, "Cursor expired", "What follows this cursor was deleted, because it is too old. Begin again without `after`. If you missed events, read the current state with the other operations."}

	RateLimitExceeded = Code{"rate_limit_exceeded", RateLimited, "Rate limit exceeded", "The account exceeded a rate limit. `X-RateLimit-Bucket` names the limit. Wait `Retry-After` seconds, then send the request again; send a write with the same Idempotency-Key. With `provider_concurrency`, 4 operations of the account are already running at providers: send the next one when one of them has finished."}

	InternalError       = Code{"internal_error", Internal, "Internal error", "The service failed unexpectedly. Send the request again with the same Idempotency-Key. If the error persists, send the request_id to support."}
	ProviderError       = Code{"provider_error", BadGateway, "Provider error", "The provider returned an internal error. Send the request again with the same Idempotency-Key."}
	ProviderUnavailable = Code{"provider_unavailable", Unavailable, "Provider unavailable", "The provider is unavailable or limits the rate of this service's requests. Wait `Retry-After` seconds, then send the request again with the same Idempotency-Key."}
	ServiceUnavailable  = Code{"service_unavailable", Unavailable, "Service unavailable", "The service is stopping, its database is unavailable, it is processing too many requests, or the mail platform is not configured. Wait `Retry-After` seconds and try again."}
	ProviderTimeout     = Code{"provider_timeout", Timeout, "Provider timeout", "The provider did not answer in time, or work at the provider is not finished. Send the same request again with the same Idempotency-Key: it checks what already exists and continues from there."}
)

// All returns all published codes in the order of their declaration.
func All() []Code {
	return []Code{
		InvalidRequest, InvalidDomain, BuiltinDomain, DomainLimitReached, DomainNotVerified, VerificationFailed,
		DKIMNotReady, InvalidMailboxEmail, DuplicateMailboxEmail, WeakPassword, MailboxLimitReached, InvalidSendLimit,
		ConfirmationRequired, NoUpdates, KeyRequired, InvalidKey, ConnectLinkInvalid, InvalidReturnURL,
		CredentialRejected, UnknownProvider, PlusVibeWorkspace, SalesBlinkWorkspace, InvalidWebhookURL,
		EmailBisonWorkspace, InvalidAuthHeader, MissingAPIKey, InvalidAPIKey, NoAPIPlan, TenantLimitReached,
		DNSAutomationNotInPlan, InsufficientScope, AccessDenied, ConsentDeclined, NotAdministrator, AccountNotFound,
		KeyNotFound, DNSConnectionNotFound, RouteNotFound, TenantNotFound, DomainNotFound, MailboxNotFound,
		PolicyNotFound, RunNotFound, JobNotFound, IntegrationNotFound, ConnectSessionUnknown, WebhookNotFound,
		DeliveryNotFound, SessionNotFound, WrongMethod, WrongAccept, BodyTooLarge, WrongMedia, AccountClosed,
		KeyRevoked, DomainInUse, DomainUnavailable, ExchangeNotReady, SMTPAuthNotEnabled, KeyInProgress, KeyConflict,
		TenantHeld, ProviderUnsupported, ConnectionRequired, DNSConflict, JobActive, JobNotRetryable,
		CapabilityMissing, SessionConnected, SessionActive, WebhookLimitReached, ConnectedElsewhere, CursorExpired,
		RateLimitExceeded, InternalError, ProviderError, ProviderUnavailable, ServiceUnavailable, ProviderTimeout,
	}
}

// ByName returns the published code with a name, false if there is none.
func ByName(name string) (Code, bool) {
	for _, c := range All() {
		if c.Name == name {
			return c, true
		}
	}
	return Code{}, false
}
