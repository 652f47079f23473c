// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"time"
)

// organization is the state of Exchange Online in a tenant.
type organization struct {
	Dehydrated   bool `json:"dehydrated"`
	HydrationLag lag  `json:"hydration"` // started by Enable-OrganizationCustomization
	// SMTPAuthDisabled is SmtpClientAuthenticationDisabled of the organization.
	SMTPAuthDisabled bool         `json:"smtp_auth_disabled"`
	Mailboxes        []mailbox    `json:"mailboxes"`
	DKIM             []dkimConfig `json:"signing"`
	// NonMailboxAddresses are the proxy addresses of objects that are not mailboxes.
	NonMailboxAddresses []string `json:"held"`

	Rules        []transportRule `json:"rules"`
	RuleLog      []ruleVersion   `json:"rule_log"` // the latest changes of each rule, oldest first
	MessageCount int             `json:"messages"` // how many messages were sent since the creation of the tenant
	SentBatches  []messageBatch  `json:"sent"`
	// TraceQueryTimes are the times of the trace queries that count towards the quota.
	TraceQueryTimes []time.Time `json:"traced"`
}

// isDehydrated reports whether the organization needs Enable-OrganizationCustomization, or that
// cmdlet has not taken effect yet.
func (o organization) isDehydrated(at time.Time) bool {
	return o.Dehydrated && !(o.HydrationLag.hasStarted() && o.HydrationLag.hasPassed(at))
}

// acceptsMail reports whether Exchange accepts mail for a domain at a time.
func (t *tenant) acceptsMail(name string, at time.Time) bool {
	if strings.EqualFold(name, t.initialDomain()) {
		return true
	}
	d := t.domain(name)
	return d != nil && d.Verified && d.isEmailEnabled() && d.AcceptanceLag.hasPassed(at)
}

func getOrganization(call *invocation, t *tenant, _ map[string]bool) outcome {
	return outcome{rows: []object{{
		"Name": t.initialDomain(), "Identity": t.initialDomain(), "DisplayName": t.Name, "Guid": guid("organization", t.ID),
		"IsDehydrated": t.Exchange.isDehydrated(call.now), "ExchangeVersion": "0.20 (15.0.0.0)",
		"AdminDisplayName": "", "WhenChanged": t.Created,
	}}}
}

// enableCustomization runs Enable-OrganizationCustomization, which takes effect after HydrateMS. It
// fails if the organization never needed the cmdlet. A second run fails even before the first run
// has taken effect.
func enableCustomization(call *invocation, t *tenant, _ map[string]bool) outcome {
	if !t.Exchange.Dehydrated || t.Exchange.HydrationLag.hasStarted() {
		return outcome{failure: errHydrated.with("")}
	}
	t.Exchange.HydrationLag = startLag(call.now, t.Behaviour.HydrateMS)
	return outcome{}
}

func getAcceptedDomain(call *invocation, t *tenant, _ map[string]bool) outcome {
	initial := t.initialMailDomain()
	rows := []object{}
	for _, d := range append([]mailDomain{initial}, t.Domains...) {
		if !t.acceptsMail(d.Name, call.now) || call.params.has("Identity") && !strings.EqualFold(call.params.text("Identity"), d.Name) {
			continue
		}
		rows = append(rows, object{
			"DomainName": d.Name, "Name": d.Name, "Identity": d.Name, "DomainType": "Authoritative",
			"Default": d.Default, "InitialDomain": d.Name == initial.Name, "AuthenticationType": "Managed",
			"PendingRemoval": false, "PendingCompletion": false, "SendingFromDomainDisabled": false,
			"SmtpDaneStatus": "Disabled",
		})
	}
	if call.params.has("Identity") && len(rows) == 0 {
		return outcome{failure: errNoObject.with(call.params.text("Identity"))}
	}
	return outcome{rows: rows}
}

func getTransportConfig(_ *invocation, t *tenant, _ map[string]bool) outcome {
	return outcome{rows: []object{{"Name": "Transport Settings", "AdminDisplayName": "",
		"SmtpClientAuthenticationDisabled": t.Exchange.SMTPAuthDisabled}}}
}

// setTransportConfig runs Set-TransportConfig. A tenant with smtp_auth "refused" cannot enable
// authenticated SMTP.
func setTransportConfig(call *invocation, t *tenant, _ map[string]bool) outcome {
	disabled := call.params.isTrue("SmtpClientAuthenticationDisabled")
	switch {
	case !call.params.has("SmtpClientAuthenticationDisabled") || disabled == t.Exchange.SMTPAuthDisabled:
		return nothingModified("Transport Settings")
	case !disabled && t.SMTPAuth == "refused":
		return outcome{failure: errSMTPRefused.with("")}
	}
	t.Exchange.SMTPAuthDisabled = disabled
	return outcome{}
}
