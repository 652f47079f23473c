// SPDX-License-Identifier: Apache-2.0

package event

import "slices"

// Type says what happened, such as domain.verified.
type Type string

// The types of events. Callers see them, so a type is never renamed.
const (
	TenantConnected        Type = "tenant.connected"
	TenantAccessLost       Type = "tenant.access_lost"
	TenantAccessRestored   Type = "tenant.access_restored"
	TenantReadinessChanged Type = "tenant.readiness_changed"
	TenantRemoved          Type = "tenant.removed"

	DomainAdded         Type = "domain.added"
	DomainVerified      Type = "domain.verified"
	DomainDKIMEnabled   Type = "domain.dkim_enabled"
	DomainHealthChanged Type = "domain.health_changed"
	DomainRemoved       Type = "domain.removed"

	DNSRunCompleted      Type = "dns_run.completed"
	DNSJobActionRequired Type = "dns_job.action_required"
	DNSJobFailed         Type = "dns_job.failed"

	MailboxCreated    Type = "mailbox.created"
	MailboxUpdated    Type = "mailbox.updated"
	MailboxBlocked    Type = "mailbox.blocked"
	MailboxUnblocked  Type = "mailbox.unblocked"
	MailboxRestricted Type = "mailbox.restricted" // by the mail platform
	MailboxVanished   Type = "mailbox.vanished"   // the mail platform no longer has the mailbox
	MailboxRemoved    Type = "mailbox.removed"
	MailboxWouldBlock Type = "mailbox.would_block" // a policy in shadow mode, which blocks no mailbox, would block this mailbox

	IntegrationConnected          Type = "integration.connected"
	IntegrationCredentialRejected Type = "integration.credential_rejected"
	IntegrationRemoved            Type = "integration.removed"

	ConnectionConnected    Type = "connection.connected"
	ConnectionExpired      Type = "connection.expired"
	ConnectionDisconnected Type = "connection.disconnected"

	KeyCreated Type = "key.created"
	KeyRotated Type = "key.rotated"
	KeyRevoked Type = "key.revoked"

	WebhookDisabled Type = "webhook.disabled"

	PolicySet     Type = "policy.set"
	PolicyRemoved Type = "policy.removed"
	LimitStepped  Type = "limit.stepped" // the ramp of a policy, which raises its limit step by step, reached the next limit
)

// Kind describes the events of a type.
type Kind struct {
	Type    Type
	Subject SubjectType
	// Data is a zero value of the type that Event.Data has.
	Data any
	// About says when an event of the type is written.
	About string
}

var kinds = []Kind{
	{TenantConnected, Tenant, TenantData{}, "An administrator connected the tenant, or it was assigned to the account."},
	{TenantAccessLost, Tenant, TenantData{}, "The administrator revoked the consent. Operations that call the mail platform are refused until it is given again."},
	{TenantAccessRestored, Tenant, TenantData{}, "The consent works again."},
	{TenantReadinessChanged, Tenant, ReadinessData{}, "A member of the tenant's `readiness` changed. The first event is relative to the readiness after `tenant.connected`."},
	{TenantRemoved, Tenant, TenantData{}, "The account no longer holds the tenant. The events of its domains and mailboxes come first."},
	{DomainAdded, Domain, DomainData{}, "The domain was added to the tenant, or a discovery found it."},
	{DomainVerified, Domain, DomainData{}, "The mail platform verified the domain."},
	{DomainDKIMEnabled, Domain, DomainData{}, "The mail platform signs the domain's mail."},
	{DomainHealthChanged, Domain, DomainData{}, "A check of the DNS found that a correct record became wrong or missing, or became correct again."},
	{DomainRemoved, Domain, DomainData{}, "The domain is no longer in the tenant, or the tenant was removed."},
	{DNSRunCompleted, DNSRun, RunData{}, "The last job of the provisioning run ended. `status` says whether all of them succeeded."},
	{DNSJobActionRequired, DNSJob, JobData{}, "The provisioning job stopped until a person acts."},
	{DNSJobFailed, DNSJob, JobData{}, "The provisioning job ended without success."},
	{MailboxCreated, Mailbox, MailboxData{}, "The mailbox exists, or a discovery found it. If its creation is not complete yet, `mailbox.updated` follows when its password and its sign-in are set."},
	{MailboxUpdated, Mailbox, MailboxData{}, "The name, the sign-in, the alias, the account or the mailbox's own limit changed, or its creation is complete."},
	{MailboxBlocked, Mailbox, BlockData{}, "The mailbox exceeded its limit and is blocked."},
	{MailboxUnblocked, Mailbox, BlockData{}, "The mailbox is no longer blocked."},
	{MailboxRestricted, Mailbox, MailboxData{}, "The mail platform restricted the mailbox. No event has this type yet."},
	{MailboxVanished, Mailbox, MailboxData{}, "The mail platform no longer has the mailbox, and its record is removed."},
	{MailboxRemoved, Mailbox, MailboxData{}, "The mailbox was removed, or its tenant was."},
	{MailboxWouldBlock, Mailbox, BlockData{}, "The mailbox exceeded the limit of a policy in shadow mode, which blocks no mailbox. No event has this type yet."},
	{IntegrationConnected, Integration, IntegrationData{}, "The integration was added, or its rejected credential works again."},
	{IntegrationCredentialRejected, Integration, IntegrationData{}, "The sending platform no longer accepts the credential."},
	{IntegrationRemoved, Integration, IntegrationData{}, "The integration was deleted. Its connections end with it."},
	{ConnectionConnected, Connection, ConnectionData{}, "The sending platform can send with the mailbox."},
	{ConnectionExpired, Connection, ConnectionData{}, "The status changed from `connected` to `failed`, `pending` or `other`. `failed` means that the sending platform can no longer sign in to the mailbox."},
	{ConnectionDisconnected, Connection, ConnectionData{}, "The mailbox is no longer at the sending platform, or the integration or the mailbox was removed."},
	{KeyCreated, Key, KeyData{}, "The API key was created."},
	{KeyRotated, Key, KeyData{}, "The API key has a new secret. The subject is the key that works now. `POST /api-key/rotate` makes a key with a new id, and revokes the old one just before."},
	{KeyRevoked, Key, KeyData{}, "The API key was revoked, or replaced by a key with a new id."},
	{WebhookDisabled, Webhook, WebhookData{}, "The webhook is disabled and gets no more events. `reason` says why."},
	{PolicySet, Policy, PolicyData{}, "The limit of the policy was set or changed."},
	{PolicyRemoved, Policy, PolicyData{}, "The policy ended, or its domain or tenant was removed."},
	{LimitStepped, Policy, PolicyData{}, "The ramp of the policy reached its next limit. No event has this type yet."},
}

// Kinds returns the description of every type of events.
func Kinds() []Kind { return slices.Clone(kinds) }

// Types returns all types of events.
func Types() []Type {
	types := make([]Type, 0, len(kinds))
	for _, k := range kinds {
		types = append(types, k.Type)
	}
	return types
}
