// SPDX-License-Identifier: Apache-2.0

package simulator

func getOrganization(in *invocation, t *tenant, _ map[string]bool) outcome {
	return outcome{rows: []object{{
		"Name": t.initial(), "Identity": t.initial(), "DisplayName": t.Name, "Guid": guid("organization", t.ID),
		"IsDehydrated": t.Exchange.dehydrated(in.now), "ExchangeVersion": "0.20 (15.0.0.0)",
		"AdminDisplayName": "", "WhenChanged": t.Created,
	}}}
}

// enableCustomization hydrates the organization some time later. A second run
// is an error, also while the first is under way.
func enableCustomization(in *invocation, t *tenant, _ map[string]bool) outcome {
	if !t.Exchange.Dehydrated || t.Exchange.Hydration.begun() {
		return outcome{failed: errHydrated.of("")}
	}
	t.Exchange.Hydration = after(in.now, t.Behaviour.HydrateMS)
	return outcome{}
}

func getAcceptedDomain(in *invocation, t *tenant, _ map[string]bool) outcome {
	initial := t.builtIn()
	rows := []object{}
	for _, d := range append([]mailDomain{initial}, t.Domains...) {
		if !t.accepted(d.Name, in.now) || in.params.has("Identity") && in.params.text("Identity") != d.Name {
			continue
		}
		rows = append(rows, object{
			"DomainName": d.Name, "Name": d.Name, "Identity": d.Name, "DomainType": "Authoritative",
			"Default": d.Default, "InitialDomain": d.Name == initial.Name, "AuthenticationType": "Managed",
			"PendingRemoval": false, "PendingCompletion": false, "SendingFromDomainDisabled": false,
			"SmtpDaneStatus": "Disabled",
		})
	}
	if in.params.has("Identity") && len(rows) == 0 {
		return outcome{failed: errNoObject.of(in.params.text("Identity"))}
	}
	return outcome{rows: rows}
}

func getTransportConfig(_ *invocation, t *tenant, _ map[string]bool) outcome {
	return outcome{rows: []object{{"Name": "Transport Settings", "AdminDisplayName": "",
		"SmtpClientAuthenticationDisabled": t.Exchange.SMTPAuthDisabled}}}
}

func setTransportConfig(in *invocation, t *tenant, _ map[string]bool) outcome {
	off := in.params.yes("SmtpClientAuthenticationDisabled")
	switch {
	case !in.params.has("SmtpClientAuthenticationDisabled") || off == t.Exchange.SMTPAuthDisabled:
		return unchanged("Transport Settings")
	case !off && t.SMTPAuth == "refused":
		return outcome{failed: errSMTPRefused.of("")}
	}
	t.Exchange.SMTPAuthDisabled = off
	return outcome{}
}
