// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

// cmdlet is one command of Exchange's PowerShell module.
type cmdlet struct {
	name      string
	takes     map[string]kind
	mandatory []string
	// ask finds out what the world says, before the tenant is locked.
	ask func(*invocation) map[string]bool
	do  func(*invocation, *tenant, map[string]bool) outcome
}

// cmdlets are the ones that the role of this product may run, by lower-case
// name. Every other is refused.
var cmdlets = byName(
	cmdlet{name: "Get-OrganizationConfig", do: getOrganization},
	cmdlet{name: "Enable-OrganizationCustomization", takes: map[string]kind{"Confirm": flag}, do: enableCustomization},
	cmdlet{name: "Get-AcceptedDomain", takes: map[string]kind{"Identity": text, "ResultSize": limit}, do: getAcceptedDomain},
	cmdlet{name: "Get-TransportConfig", do: getTransportConfig},
	cmdlet{name: "Set-TransportConfig", do: setTransportConfig,
		takes: map[string]kind{"SmtpClientAuthenticationDisabled": boolean, "Confirm": flag}},
	cmdlet{name: "Get-Mailbox", do: getMailbox, takes: map[string]kind{"Identity": text, "ResultSize": limit,
		"RecipientTypeDetails": enum(mailboxKinds...)}},
	cmdlet{name: "New-Mailbox", do: newMailbox, mandatory: []string{"Name"}, takes: map[string]kind{"Shared": flag,
		"Name": text, "DisplayName": text, "Alias": text, "PrimarySmtpAddress": address, "Confirm": flag}},
	cmdlet{name: "Set-Mailbox", do: setMailbox, mandatory: []string{"Identity"}, takes: map[string]kind{
		"Identity": text, "DisplayName": text, "MessageCopyForSentAsEnabled": boolean, "Confirm": flag}},
	cmdlet{name: "Remove-Mailbox", do: removeMailbox, mandatory: []string{"Identity"},
		takes: map[string]kind{"Identity": text, "Confirm": flag}},
	cmdlet{name: "Get-CASMailbox", do: getCASMailbox, takes: map[string]kind{"Identity": text, "ResultSize": limit}},
	cmdlet{name: "Set-CASMailbox", do: setCASMailbox, mandatory: []string{"Identity"}, takes: map[string]kind{
		"Identity": text, "SmtpClientAuthenticationDisabled": nullable, "Confirm": flag}},
	cmdlet{name: "Get-DkimSigningConfig", do: getSigning, takes: map[string]kind{"Identity": text}},
	cmdlet{name: "New-DkimSigningConfig", do: newSigning, ask: askCNAMEs, mandatory: []string{"DomainName", "Enabled"},
		takes: map[string]kind{"DomainName": text, "KeySize": number, "Enabled": boolean, "Confirm": flag}},
	cmdlet{name: "Set-DkimSigningConfig", do: setSigning, ask: askCNAMEs, mandatory: []string{"Identity"},
		takes: map[string]kind{"Identity": text, "Enabled": boolean, "Confirm": flag}},
	cmdlet{name: "Get-TransportRule", do: getRules, takes: map[string]kind{"Identity": text, "ResultSize": limit}},
	cmdlet{name: "New-TransportRule", do: newRule, mandatory: []string{"Name"}, takes: ruleParameters(map[string]kind{"Enabled": boolean})},
	cmdlet{name: "Set-TransportRule", do: setRule, mandatory: []string{"Identity"}, takes: ruleParameters(map[string]kind{"Identity": text})},
	cmdlet{name: "Enable-TransportRule", do: switchRule(true), mandatory: []string{"Identity"}, takes: map[string]kind{"Identity": text, "Confirm": flag}},
	cmdlet{name: "Disable-TransportRule", do: switchRule(false), mandatory: []string{"Identity"}, takes: map[string]kind{"Identity": text, "Confirm": flag}},
	cmdlet{name: "Remove-TransportRule", do: removeRule, mandatory: []string{"Identity"}, takes: map[string]kind{"Identity": text, "Confirm": flag}},
	cmdlet{name: "Get-MessageTraceV2", do: getTrace, takes: map[string]kind{"StartDate": date, "EndDate": date, "SenderAddress": list,
		"RecipientAddress": list, "MessageTraceId": text, "ResultSize": traceSize, "StartingRecipientAddress": text}},
)

func byName(list ...cmdlet) map[string]cmdlet {
	all := map[string]cmdlet{}
	for _, c := range list {
		all[strings.ToLower(c.name)] = c
	}
	return all
}
