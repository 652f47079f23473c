// SPDX-License-Identifier: Apache-2.0

package tenant

import "cmp"

// Readiness summarizes the progress of a tenant's setup.
type Readiness struct {
	Consent          Consent
	Bootstrap        Bootstrap
	SMTPAuth         SMTPAuth
	Discovery        Discovery
	DomainsVerified  int
	DomainsTotal     int
	MailboxesTotal   int
	ReadyToProvision bool
	// NextStep is the first step to do, or "" when none is left.
	NextStep string
	// Headroom estimates how close the tenant is to the platform's sending limit. It is nil unless
	// the caller set it. No other field depends on it.
	Headroom *Headroom
}

// The next steps, in their order.
const (
	NextReconnect       = "reconnect"
	NextGrantRole       = "grant_role"
	NextSync            = "sync"
	NextAddDomain       = "add_domain"
	NextPublishDNS      = "publish_dns"
	NextVerifyDomain    = "verify_domain"
	NextEnableDKIM      = "enable_dkim"
	NextCreateMailboxes = "create_mailboxes"
)

// Readiness returns the progress of the tenant's setup. requireSMTPAuth is false if the operator
// allows provisioning without SMTP AUTH.
func (t Tenant) Readiness(requireSMTPAuth bool) Readiness {
	return Readiness{
		Consent:         t.Consent,
		Bootstrap:       t.Bootstrap,
		SMTPAuth:        t.SMTPAuth,
		Discovery:       t.Discovery,
		DomainsVerified: t.DomainsVerified,
		DomainsTotal:    t.DomainCount,
		MailboxesTotal:  t.MailboxCount,
		ReadyToProvision: t.Consent == ConsentGranted && t.Bootstrap == BootstrapReady &&
			(t.SMTPAuth == SMTPAuthEnabled || !requireSMTPAuth) && t.DomainsVerified > 0,
		NextStep: t.nextStep(),
	}
}

func (t Tenant) nextStep() string {
	unverified := t.DomainCount - t.DomainsVerified
	switch {
	case t.Consent != ConsentGranted:
		return NextReconnect
	case t.lacksGrant():
		return NextGrantRole
	case t.syncHelps():
		return NextSync
	case t.DomainCount == 0:
		return NextAddDomain
	case unverified > t.DomainsAwaitingVerification:
		return NextPublishDNS
	case unverified > 0:
		return NextVerifyDomain
	case t.DomainsSigned < t.DomainsVerified:
		return NextEnableDKIM
	case t.MailboxCount == 0:
		return NextCreateMailboxes
	default:
		return ""
	}
}

// lacksGrant reports whether the bootstrap waits for an administrator, who must grant a role
// (StepGrantRole) or a permission at the mail server (StepReconnect).
func (t Tenant) lacksGrant() bool {
	return t.Bootstrap != BootstrapReady && (t.BootstrapStep == StepGrantRole || t.BootstrapStep == StepReconnect)
}

// syncHelps reports whether a sync may make progress. If only SMTP AUTH is missing and the platform
// has refused it, a sync does not help.
func (t Tenant) syncHelps() bool {
	return t.Discovery != DiscoveryCompleted || t.Bootstrap != BootstrapReady ||
		t.SMTPAuth == SMTPAuthUnknown || t.SMTPAuth == SMTPAuthDisabled
}

// PrimaryDomain returns the domain that stands for the tenant: its default custom domain, or the
// built-in domain if no custom domain is the default.
func (t Tenant) PrimaryDomain() string { return cmp.Or(t.DefaultDomain, t.BuiltinDomain) }

// Status is the state of a tenant's setup.
type Status string

// The statuses. A pending tenant is not ready for mailboxes yet. The mail server of a failed tenant
// cannot be prepared. The administrator of a revoked tenant has withdrawn the consent.
const (
	StatusPending Status = "pending"
	StatusReady   Status = "ready"
	StatusFailed  Status = "failed"
	StatusRevoked Status = "revoked"
)

// Status returns the status that corresponds to the readiness.
func (r Readiness) Status() Status {
	switch {
	case r.Consent != ConsentGranted:
		return StatusRevoked
	case r.Bootstrap == BootstrapFailed:
		return StatusFailed
	case r.ReadyToProvision:
		return StatusReady
	default:
		return StatusPending
	}
}
