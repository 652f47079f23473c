// SPDX-License-Identifier: Apache-2.0

package fault

// The published codes. Each line declares an error with its kind and its page under /docs/errors.
// All returns them in the same order.
var (
	InvalidRequest        = Code{"invalid_request", Invalid, "Invalid request", "The request is not what this operation takes: malformed JSON, a missing or unknown member, a wrong type or a bad query value. `errors` names each place; correct it and send the request again with a new Idempotency-Key."}
	InvalidDomain         = Code{"invalid_domain", Invalid, "Invalid domain", "The domain is not a host name of two labels or more, or it is itself a public suffix."}
	BuiltinDomain         = Code{"builtin_domain_not_allowed", Invalid, "Built-in domain not allowed", "Names under onmicrosoft.com belong to the mail platform. Add a domain of your own."}
	DomainLimitReached    = Code{"domain_limit_reached", Invalid, "Domain limit reached", "A tenant holds at most 12 custom domains, those found by discovery included."}
	DomainNotVerified     = Code{"domain_not_verified", Invalid, "Domain not verified", "Mailboxes can be created only on a verified domain. Publish its verification record and verify it first."}
	VerificationFailed    = Code{"verification_failed", Invalid, "Verification failed", "The mail platform does not see the verification record yet. Check the record; propagation typically takes 5 to 30 minutes. Try again with a new Idempotency-Key."}
	DKIMNotReady          = Code{"dkim_not_ready", Invalid, "DKIM not ready", "The two DKIM CNAME records are not visible yet, or the mail platform has not made them. dkim-status tells which."}
	InvalidMailboxEmail   = Code{"invalid_mailbox_email", Invalid, "Invalid mailbox e-mail", "A mailbox address is `local@domain` with the request's domain and a plain local part."}
	DuplicateMailboxEmail = Code{"duplicate_mailbox_email", Invalid, "Duplicate mailbox e-mail", "The same address occurs twice in one request; case does not tell addresses apart."}
	WeakPassword          = Code{"weak_password", Invalid, "Weak password", "The password needs 8 to 256 characters with three of the four classes: lower case, upper case, digit (each as Unicode has it) and everything else."}
	MailboxLimitReached   = Code{"mailbox_limit_reached", Invalid, "Mailbox limit reached", "A domain holds at most 3 mailboxes, those found by discovery included."}
	InvalidSendLimit      = Code{"invalid_send_limit", Invalid, "Invalid send limit", "daily_send_limit is an integer from 1 to 25."}
	NoUpdates             = Code{"no_updates", Invalid, "No updates", "The body holds no field that this operation can change."}
	KeyRequired           = Code{"idempotency_key_required", Invalid, "Idempotency-Key required", "Every write carries an Idempotency-Key header, new for each new operation."}
	InvalidKey            = Code{"invalid_idempotency_key", Invalid, "Invalid Idempotency-Key", "An Idempotency-Key is one header of 1 to 255 visible ASCII characters."}
	ConnectLinkInvalid    = Code{"connect_link_invalid", Invalid, "Link not valid", "The connect link is forged, expired, already used or was opened in another browser. Ask for a new one with GET /v1/tenants/connect-url."}
	CredentialRejected    = Code{"provider_credential_rejected", Invalid, "Credential rejected", "The provider does not take the credential. Make a new one there, with the permissions that it needs, and give that one."}
	UnknownProvider       = Code{"unknown_provider", Invalid, "Unknown provider", "There is no sending platform of this name. `provider` is one of instantly, plusvibe, smartlead, salesblink and those that the operator added."}
	PlusVibeWorkspace     = Code{"plusvibe_workspace_required", Invalid, "Workspace required", "The credential reaches several workspaces, or not the one asked for. `workspaces` lists them: send the request again with `workspace_id` and a new Idempotency-Key."}
	SalesBlinkWorkspace   = Code{"salesblink_workspace_required", Invalid, "Workspace required", "The credential reaches several workspaces, or not the one asked for. `workspaces` lists them: send the request again with `workspace_id` and a new Idempotency-Key."}
	EmailBisonWorkspace   = Code{"emailbison_workspace_required", Invalid, "Workspace required", "The token acts in whichever of its workspaces is selected at the platform, so it cannot be kept to one. Make a token of the type api-user in the workspace that is to be used, and give that one."}

	InvalidAuthHeader = Code{"invalid_auth_header", Unauthenticated, "Authorization header missing or malformed", "Send exactly one header `Authorization: Bearer <API_KEY>`."}
	MissingAPIKey     = Code{"missing_api_key", Unauthenticated, "API key missing", "The Authorization header says Bearer and nothing after it."}
	InvalidAPIKey     = Code{"invalid_api_key", Unauthenticated, "API key not valid", "The key is malformed, unknown, revoked or was rotated."}

	NoAPIPlan              = Code{"no_api_plan", PaymentRequired, "No active API plan", "The account has no active plan. Nothing is lost; every request answers 402 until the plan is active again."}
	TenantLimitReached     = Code{"tenant_limit_reached", PaymentRequired, "Tenant limit reached", "The plan's tenant slots are taken. Delete a tenant or take a larger plan."}
	DNSAutomationNotInPlan = Code{"dns_automation_not_in_plan", PaymentRequired, "Automatic DNS not in the plan", "The account's plan does not hold automatic DNS. Publish the records of GET /v1/domains/{domain_id}/dns/plan by hand, or take a plan that holds it."}

	AccessDenied     = Code{"access_denied", Forbidden, "Access denied", "The mail platform no longer lets us manage this tenant, or its assignment was withdrawn. A tenant of your own is reconnected by a new consent."}
	ConsentDeclined  = Code{"consent_declined", Forbidden, "Consent declined", "The administrator declined, or the mail platform did not grant the consent. Nothing was connected."}
	NotAdministrator = Code{"not_an_administrator", Forbidden, "Not an administrator of this tenant", "The person who signed in is a guest, or is not a global administrator of the tenant that gave consent."}

	AccountNotFound       = Code{"account_not_found", NotFound, "Account not found", "There is no account with this id or e-mail address. `tenantry account list` shows all accounts."}
	KeyNotFound           = Code{"key_not_found", NotFound, "API key not found", "There is no API key with this id. `tenantry key list` shows the ids."}
	DNSConnectionNotFound = Code{"dns_connection_not_found", NotFound, "DNS connection not found", "There is no DNS connection with this id. `tenantry dns-connection list` shows the ids."}
	RouteNotFound         = Code{"route_not_found", NotFound, "No such route", "The API has no operation at this path. /openapi.json lists all of them."}
	TenantNotFound        = Code{"tenant_not_found", NotFound, "Tenant not found", "The account holds no tenant with this GUID: it was never connected, was deleted, or belongs to another account. GET /v1/tenants lists what the account holds."}
	DomainNotFound        = Code{"domain_not_found", NotFound, "Domain not found", "The tenant holds no such domain, or the account holds no domain with this id. GET /v1/tenants/{tenant_id}/domains lists the domains; a sync finds those that were added at the mail platform."}
	MailboxNotFound       = Code{"mailbox_not_found", NotFound, "Mailbox not found", "The tenant holds no mailbox with this id. GET /v1/tenants/{tenant_id}/mailboxes lists them; what vanished at the mail platform is removed by the next sync."}
	PolicyNotFound        = Code{"policy_not_found", NotFound, "Policy not found", "No send limit is enforced for this scope. POST /v1/tenants/{tenant_id}/mailbox-limits sets one; a policy goes with its domain."}
	RunNotFound           = Code{"provisioning_run_not_found", NotFound, "Provisioning run not found", "The account has no provisioning run with this id. GET /v1/dns/provisioning-runs lists its runs; those of a deleted tenant are gone."}
	JobNotFound           = Code{"provisioning_job_not_found", NotFound, "Provisioning job not found", "The account has no provisioning job with this id. A run shows the jobs that it consists of; those of a deleted tenant are gone."}
	IntegrationNotFound   = Code{"integration_not_found", NotFound, "Integration not found", "The account has no integration with this id. GET /v1/integrations lists its integrations."}
	SessionNotFound       = Code{"oauth_session_not_found", NotFound, "OAuth session not found", "This mailbox has no OAuth session with this id at this integration. Begin a new one with a new Idempotency-Key."}

	WrongMethod  = Code{"method_not_allowed", MethodNotAllowed, "Method not allowed", "The path exists, but not with this method; `Allow` lists the ones it has."}
	WrongAccept  = Code{"not_acceptable", NotAcceptable, "Not acceptable", "Answers are JSON. Send `Accept: application/json` or leave the header out."}
	BodyTooLarge = Code{"request_too_large", TooLarge, "Request too large", "A request body holds at most 64 KiB. Provision the mailboxes of one domain at a time."}
	WrongMedia   = Code{"unsupported_media_type", UnsupportedMedia, "Unsupported media type", "Send bodies as `Content-Type: application/json` in UTF-8, without a content encoding."}

	AccountClosed       = Code{"account_closed", Conflict, "Account closed", "The account was closed for good. A customer who comes back gets a new account, with the same e-mail address if need be."}
	KeyRevoked          = Code{"key_revoked", Conflict, "API key revoked", "The key was revoked or rotated, which is final. Make a new one with `tenantry key create`."}
	DomainUnavailable   = Code{"domain_unavailable", Conflict, "Domain unavailable", "The domain already belongs to another tenant of the mail platform. It has to be removed there first."}
	ExchangeNotReady    = Code{"exchange_bootstrap_not_ready", Conflict, "Exchange not ready", "The mail server of this tenant is not prepared yet. Run a sync; the tenant's `readiness.next_step` says what is missing."}
	SMTPAuthNotEnabled  = Code{"smtp_auth_not_enabled", Conflict, "SMTP AUTH not enabled", "Authenticated SMTP is switched off for the whole tenant. Run a sync, which switches it on where the mail platform allows it."}
	KeyInProgress       = Code{"idempotency_request_in_progress", Conflict, "Request in progress", "The first request with this Idempotency-Key is still running. Wait `Retry-After` seconds, then send the same request again with the same Idempotency-Key: it gets the answer of the first one."}
	KeyConflict         = Code{"idempotency_key_conflict", Conflict, "Idempotency-Key conflict", "The Idempotency-Key was used within the last 24 hours for another method, path, query string or body. Every byte of the body counts, white space too. Send the first request again to get its answer, or this one with a new Idempotency-Key."}
	TenantHeld          = Code{"tenant_held_elsewhere", Conflict, "Tenant cannot be connected", "This tenant is connected already. It has to be released where it is connected before it can be connected here."}
	ProviderUnsupported = Code{"dns_provider_unsupported", Conflict, "DNS provider not supported", "The domain's DNS is served where this service cannot write. Publish the records of GET /v1/domains/{domain_id}/dns/plan by hand."}
	ConnectionRequired  = Code{"dns_connection_required", Conflict, "DNS connection required", "The account has no connection to the domain's DNS provider that reaches the zone. Add one, or publish the records of GET /v1/domains/{domain_id}/dns/plan by hand."}
	DNSConflict         = Code{"dns_conflict", Conflict, "DNS conflict", "A record that is there stands against what the mail platform needs, and is not overwritten. `conflicts` names each; settle them, then provision again."}
	JobActive           = Code{"domain_provisioning_already_active", Conflict, "Provisioning already active", "The domain has a provisioning job that has not ended. GET /v1/dns/provisioning-runs?active_only=true shows its run; a job that waits or needs an action is retried, not begun anew."}
	JobNotRetryable     = Code{"provisioning_job_not_retryable", Conflict, "Job not retryable", "Only a job that is waiting or action_required can be retried. A queued or running one is under way; after a completed or failed one provision the domain again."}
	CapabilityMissing   = Code{"capability_not_supported", Conflict, "Not supported by this integration", "The sending platform, this credential or the operator's settings do not allow it. `capabilities` of the integration tells what it can do."}
	SessionActive       = Code{"oauth_session_pending", Conflict, "OAuth session pending", "A session of this mailbox is pending at this integration. Finish the sign-in, or begin a new session when it has expired."}
	ConnectedElsewhere  = Code{"mailbox_already_connected_elsewhere", Conflict, "Mailbox connected elsewhere", "The mailbox is connected, or about to be, through another integration. Disconnect it there first; after a disconnect without an answer refresh that integration."}

	RateLimitExceeded = Code{"rate_limit_exceeded", RateLimited, "Rate limit exceeded", "The account asked for more than it may. `X-RateLimit-Bucket` names the limit; wait `Retry-After` seconds, then send the request again, a write with the same Idempotency-Key. With `provider_concurrency` 4 operations of the account are at work at providers: send the next when one of them has its answer."}

	InternalError       = Code{"internal_error", Internal, "Internal error", "Something went wrong on our side. Send the request again with the same Idempotency-Key; tell support the request_id if it stays."}
	ProviderError       = Code{"provider_error", BadGateway, "Provider error", "The provider answered with an error of its own. Send the request again with the same Idempotency-Key."}
	ProviderUnavailable = Code{"provider_unavailable", Unavailable, "Provider unavailable", "The provider is down or throttles us. Wait `Retry-After` seconds, then send the request again with the same Idempotency-Key."}
	ServiceUnavailable  = Code{"service_unavailable", Unavailable, "Service unavailable", "The service is stopping, its database is away, it has too many requests under way, or the mail platform is not configured. Wait `Retry-After` seconds and try again."}
	ProviderTimeout     = Code{"provider_timeout", Timeout, "Provider timeout", "The provider did not answer in time, or work at the provider is not finished. Send the same request again with the same Idempotency-Key: it looks at what exists and goes on from there."}
)

// All returns all published codes in the order of their declaration.
func All() []Code {
	return []Code{
		InvalidRequest, InvalidDomain, BuiltinDomain, DomainLimitReached, DomainNotVerified, VerificationFailed,
		DKIMNotReady, InvalidMailboxEmail, DuplicateMailboxEmail, WeakPassword, MailboxLimitReached,
		InvalidSendLimit, NoUpdates, KeyRequired, InvalidKey, ConnectLinkInvalid, CredentialRejected,
		UnknownProvider, PlusVibeWorkspace, SalesBlinkWorkspace, EmailBisonWorkspace,
		InvalidAuthHeader, MissingAPIKey, InvalidAPIKey,
		NoAPIPlan, TenantLimitReached, DNSAutomationNotInPlan,
		AccessDenied, ConsentDeclined, NotAdministrator,
		AccountNotFound, KeyNotFound, DNSConnectionNotFound, RouteNotFound, TenantNotFound, DomainNotFound, MailboxNotFound, PolicyNotFound,
		RunNotFound, JobNotFound, IntegrationNotFound, SessionNotFound,
		WrongMethod, WrongAccept, BodyTooLarge, WrongMedia,
		AccountClosed, KeyRevoked, DomainUnavailable, ExchangeNotReady, SMTPAuthNotEnabled,
		KeyInProgress, KeyConflict, TenantHeld,
		ProviderUnsupported, ConnectionRequired, DNSConflict, JobActive, JobNotRetryable,
		CapabilityMissing, SessionActive, ConnectedElsewhere,
		RateLimitExceeded,
		InternalError, ProviderError, ProviderUnavailable, ServiceUnavailable, ProviderTimeout,
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
