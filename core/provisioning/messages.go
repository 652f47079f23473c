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

// actionMessages holds the message for each required action. A more specific message takes
// precedence.
var actionMessages = map[dns.ActionRequired]string{
	dns.ConnectionRequired:  "The account has no connection to the domain's DNS provider with access to the zone. Add one, or publish the records of the plan by hand; then retry the job.",
	dns.ConflictToResolve:   "An existing record conflicts with a record that the mail platform needs, and is not overwritten. The plan lists the conflict. Resolve it, then retry the job.",
	dns.ProviderUnsupported: "The domain's DNS is served by a provider to which this service cannot write. Publish the records of the plan by hand, then retry the job.",
	dns.CredentialRejected:  "The DNS provider no longer accepts the credential of the account's connection. Replace the connection, then retry the job.",
	dns.ReadUnreliable:      "The domain's DNS could not be read reliably for an hour, or the plugin of a DNS provider did not run for an hour. The domain's DNS automation says what is wrong. Fix it, then retry the job.",
	ZoneChanged:             "The zone was changed three times while its records were being written, so something else is also changing it. Wait until that has finished, then retry the job.",
	DomainUnavailable:       "The domain belongs to another tenant of the mail platform. Remove it there, then retry the job.",
	PropagationTimeout:      "The records were not written and visible on all name servers of the domain within 48 hours. Check that the DNS provider accepts changes, and that all name servers serve the zone to which the records were written. Then retry the job.",
	VerificationTimeout:     "The mail platform did not verify the domain, enable its e-mail service and name its SPF record within 48 hours. Check the domain at the mail platform and the tenant's readiness; then retry the job.",
	DKIMTimeout:             "DKIM signing was not enabled within 48 hours. The domain's dkim-status and the tenant's readiness show what is missing. Fix it, then retry the job.",
	TenantAccessLost:        "The mail platform no longer lets this service manage the tenant. Give consent again, or run a sync; then retry the job.",
}

// waitMessages holds the message of a waiting job for each stage.
var waitMessages = map[Stage]string{
	StagePlan:               "Waiting for the input of the plan: a reliable read of the domain's DNS, and the records that the mail platform requires.",
	StageApply:              "Waiting for the DNS provider to accept the records.",
	StagePropagation:        "The records are written. Waiting until all name servers of the domain return them.",
	StageDomainVerification: "The records are visible. Waiting for the mail platform to verify the domain and enable its e-mail service.",
	StageDKIMPublication:    "Waiting for the DKIM records: the mail platform creates them, they are written, and all name servers must return them.",
	StageDKIMEnablement:     "The DKIM records are visible. Waiting for the mail platform to enable signing.",
	StageHealth:             "Waiting for the final check of the domain.",
}

const (
	suffixUnavailable      = " A provider is unavailable or limits the request rate. The job continues as soon as the provider responds."
	suffixMissing          = " The mail platform does not show the domain at the moment."
	suffixRefused          = " At the last attempt a provider refused the step: %s. The job tries again."
	suffixUnavailableAtEnd = " At the last attempt a provider was unavailable."

	messageIncomplete  = "The mail platform named no SPF record of the domain within 48 hours. Check the domain at the mail platform and run a sync, then retry the job."
	messageZoneChanged = "The zone was changed while its records were being written. A new plan is being made."
	messageOverlapped  = "The zone was changed by someone else while its records were being written. A value that was added at that moment may be lost. Check the records that the plan shows, then retry the job."
	messageRefused     = "A provider refuses a step: %s. After that is fixed, provision the domain again."
	messageGone        = "The domain was removed from the tenant, or the tenant from the account. The job has ended."
	messageUndone      = "An operator undid the DNS changes of this run. Provision the domain again to write the records again."
	messageFaults      = "The job failed 20 times in a row because of an internal error of this service. Provision the domain again. If the error persists, send the job's id to support."
)
