// SPDX-License-Identifier: Apache-2.0

package simulator

// setMailbox renames a mailbox; a change to the present value is a warning.
func setMailbox(in *invocation, t *tenant, _ map[string]bool) outcome {
	m := t.mailbox(in.params.text("Identity"))
	if m == nil {
		return outcome{failed: errNoObject.of(in.params.text("Identity"))}
	}
	was := *m
	if in.params.has("DisplayName") {
		m.DisplayName = in.params.text("DisplayName")
		if u := t.user(m.ObjectID); u != nil {
			u.DisplayName = m.DisplayName
		}
	}
	if in.params.has("MessageCopyForSentAsEnabled") {
		m.SentCopy = in.params.yes("MessageCopyForSentAsEnabled")
	}
	if was.DisplayName == m.DisplayName && was.SentCopy == m.SentCopy {
		return unchanged(m.Name)
	}
	return outcome{}
}

func removeMailbox(in *invocation, t *tenant, _ map[string]bool) outcome {
	m := t.mailbox(in.params.text("Identity"))
	if m == nil || m.ObjectID == "" {
		return outcome{failed: errNoObject.of(in.params.text("Identity"))}
	}
	t.removeAccount(m.ObjectID)
	return outcome{}
}

// usable finds a mailbox that every server shows by now.
func (in *invocation) usable(t *tenant) (*mailbox, *exception) {
	m := t.mailbox(in.params.text("Identity"))
	if m == nil || !m.Usable.over(in.now) {
		return nil, errNoObject.of(in.params.text("Identity"))
	}
	return m, nil
}

func casRow(m mailbox) object {
	var disabled any // null follows the organization
	if m.SMTPAuthDisabled != nil {
		disabled = *m.SMTPAuthDisabled
	}
	return object{"Identity": m.Name, "Name": m.Name, "DisplayName": m.DisplayName, "PrimarySmtpAddress": m.Primary,
		"ExternalDirectoryObjectId": m.ObjectID, "Guid": m.GUID, "SmtpClientAuthenticationDisabled": disabled}
}

func getCASMailbox(in *invocation, t *tenant, _ map[string]bool) outcome {
	if in.params.has("Identity") {
		m, failed := in.usable(t)
		if failed != nil {
			return outcome{failed: failed}
		}
		return outcome{rows: []object{casRow(*m)}}
	}
	rows := []object{}
	for _, m := range t.Exchange.Mailboxes {
		if m.Usable.over(in.now) {
			rows = append(rows, casRow(m))
		}
	}
	return limited(rows, in.params)
}

func setCASMailbox(in *invocation, t *tenant, _ map[string]bool) outcome {
	m, failed := in.usable(t)
	if failed != nil {
		return outcome{failed: failed}
	}
	if !in.params.has("SmtpClientAuthenticationDisabled") {
		return unchanged(m.Name)
	}
	var want *bool
	if off, given := in.params["smtpclientauthenticationdisabled"].(bool); given {
		want = &off
	}
	same := want == nil && m.SMTPAuthDisabled == nil ||
		want != nil && m.SMTPAuthDisabled != nil && *want == *m.SMTPAuthDisabled
	if same {
		return unchanged(m.Name)
	}
	m.SMTPAuthDisabled = want
	return outcome{}
}
