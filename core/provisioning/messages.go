// SPDX-License-Identifier: Apache-2.0

package provisioning

import "github.com/tenantry/tenantry/core/dns"

// The actions that a job may require in addition to those of dns.Automation.
const (
	ZoneChanged         dns.ActionRequired = "dns_changed"
	DomainUnavailable   dns.ActionRequired = "domain_unavailable"
	PropagationTimeout  dns.ActionRequired = "propagation_timeout"
	VerificationTimeout dns.ActionRequired = "verification_timeout"
	DKIMTimeout         dns.ActionRequired = "dkim_timeout"
	TenantAccessLost    dns.ActionRequired = "tenant_access_lost"
)

// advice holds the message for each required action. If a plan has a more specific message for the
// domain, that one is shown instead.
var advice = map[dns.ActionRequired]string{
	dns.ConnectionRequired:  "The account has no connection to the domain's DNS provider that reaches the zone. Add one, or publish the records of the plan by hand; then retry the job.",
	dns.ConflictToResolve:   "A record that is there stands against what the mail platform needs, and is not overwritten. The plan names it: settle it, then retry the job.",
	dns.ProviderUnsupported: "The domain's DNS is served where this service cannot write. Publish the records of the plan by hand, then retry the job.",
	dns.CredentialRejected:  "The DNS provider does not take the credential of the account's connection any more. Replace the connection, then retry the job.",
	dns.ReadUnreliable:      "The domain's DNS could not be read reliably for an hour. Its name servers need attention; the plan says what is wrong with them. Then retry the job.",
	ZoneChanged:             "The zone was changed three times while its records were being written, so something else writes it too. Let that finish, then retry the job.",
	DomainUnavailable:       "The domain belongs to another tenant of the mail platform. Remove it there, then retry the job.",
	PropagationTimeout:      "The records were not visible on all name servers of the domain within 48 hours. Check that all of them serve the zone that is written; then retry the job.",
	VerificationTimeout:     "The mail platform did not verify the domain and take up its e-mail service within 48 hours. Check the domain at the mail platform and the tenant's readiness; then retry the job.",
	DKIMTimeout:             "DKIM signing was not in place within 48 hours. The domain's dkim-status and the tenant's readiness tell what is missing; then retry the job.",
	TenantAccessLost:        "The mail platform does not let this service manage the tenant any more. Give consent again, or run a sync; then retry the job.",
}

// waitMessages holds the message of a waiting job for each stage.
var waitMessages = map[Stage]string{
	StagePlan:               "Waiting for what a plan needs: a reliable read of the domain's DNS, and the mail platform's word on its records.",
	StageApply:              "Waiting for the DNS provider to take the records.",
	StagePropagation:        "The records are written. Waiting for all name servers of the domain to show them.",
	StageDomainVerification: "The records are visible. Waiting for the mail platform to verify the domain and take up its e-mail service.",
	StageDKIMPublication:    "Waiting for the DKIM records: the mail platform makes them, then they are written, then all name servers show them.",
	StageDKIMEnablement:     "The DKIM records are visible. Waiting for the mail platform to sign.",
	StageHealth:             "Waiting for the last check of the domain.",
}

const (
	suffixUnavailable      = " A provider is out of reach or wants us to wait; the job goes on as soon as it answers."
	suffixUnavailableAtEnd = " At the end a provider was out of reach."

	messageMoved   = "The zone was changed while its records were being written. It is planned anew."
	messageRefused = "A provider refuses a step for good: %s. Once that is mended, provision the domain again."
	messageGone    = "The domain is gone from the tenant, or the tenant from the account. Nothing more is done."
	messageFaults  = "A fault on our side kept the job from going on, 20 times in a row. Provision the domain again; tell support the job's id if it stays."
)
