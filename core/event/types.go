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
	MailboxVanished   Type = "mailbox.vanished"   // comes with the removal of the row
	MailboxRemoved    Type = "mailbox.removed"
	MailboxWouldBlock Type = "mailbox.would_block" // shadow mode of a policy

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
	LimitStepped  Type = "limit.stepped" // a step of a ramp; its subject is the policy
)

var types = []Type{
	TenantConnected, TenantAccessLost, TenantAccessRestored, TenantReadinessChanged, TenantRemoved,
	DomainAdded, DomainVerified, DomainDKIMEnabled, DomainHealthChanged, DomainRemoved,
	DNSRunCompleted, DNSJobActionRequired, DNSJobFailed,
	MailboxCreated, MailboxUpdated, MailboxBlocked, MailboxUnblocked, MailboxRestricted, MailboxVanished, MailboxRemoved, MailboxWouldBlock,
	IntegrationConnected, IntegrationCredentialRejected, IntegrationRemoved,
	ConnectionConnected, ConnectionExpired, ConnectionDisconnected,
	KeyCreated, KeyRotated, KeyRevoked,
	WebhookDisabled,
	PolicySet, PolicyRemoved, LimitStepped,
}

// Types returns every Type that an event can have.
func Types() []Type { return slices.Clone(types) }
