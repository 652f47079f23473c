// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// mailboxKinds are the values of RecipientTypeDetails that mailboxes have.
var mailboxKinds = []string{"UserMailbox", "SharedMailbox", "RoomMailbox", "EquipmentMailbox", "DiscoveryMailbox",
	"LinkedMailbox", "SchedulingMailbox", "GroupMailbox", "TeamMailbox"}

var aliasForm = regexp.MustCompile(`^[A-Za-z0-9!#%*+/=?^_~-]+(\.[A-Za-z0-9!#%*+/=?^_~-]+)*$`)

// mailboxRow is a mailbox with the properties that matter out of the 336.
func (t *tenant) mailboxRow(m mailbox) object {
	addresses := []string{"SMTP:" + m.Primary}
	for _, other := range m.Others {
		addresses = append(addresses, "smtp:"+other)
	}
	row := object{
		"ExternalDirectoryObjectId": m.ObjectID, "ExchangeGuid": m.Exchange, "Guid": m.GUID, "Id": m.Name,
		"Identity": m.Name, "Name": m.Name, "DisplayName": m.DisplayName, "Alias": m.Alias,
		"PrimarySmtpAddress": m.Primary, "WindowsEmailAddress": m.Primary, "UserPrincipalName": m.Primary,
		"RecipientTypeDetails": m.Kind, "RecipientType": "UserMailbox", "IsShared": m.Kind == "SharedMailbox",
		"AccountDisabled": true, "WhenMailboxCreated": m.Created, "EmailAddresses": addresses,
		"MessageCopyForSentAsEnabled": m.SentCopy, "EmailAddressPolicyEnabled": false,
		"ProhibitSendQuota": "49.5 GB (53,150,220,288 bytes)", "RetainDeletedItemsFor": "14.00:00:00",
		"ForwardingSmtpAddress": nil, "CustomAttribute1": "", "RecipientLimits": 500,
	}
	if u := t.user(m.ObjectID); u != nil && m.ObjectID != "" {
		row["UserPrincipalName"], row["AccountDisabled"] = u.UPN, !u.Enabled
	}
	return row
}

func getMailbox(in *invocation, t *tenant, _ map[string]bool) outcome {
	kinds := in.params.texts("RecipientTypeDetails")
	rows := []object{}
	for _, m := range t.Exchange.Mailboxes {
		// A value that only begins a member was accepted, and finds nothing.
		if kinds == nil || slices.ContainsFunc(kinds, func(k string) bool { return strings.EqualFold(k, m.Kind) }) {
			rows = append(rows, t.mailboxRow(m))
		}
	}
	if in.params.has("Identity") {
		m := t.mailbox(in.params.text("Identity"))
		if m == nil || kinds != nil && !slices.ContainsFunc(kinds, func(k string) bool { return strings.EqualFold(k, m.Kind) }) {
			return outcome{failed: errNoObject.of(in.params.text("Identity"))}
		}
		return outcome{rows: []object{t.mailboxRow(*m)}}
	}
	return limited(rows, in.params)
}

// limited cuts the rows to ResultSize, 1000 when it is absent, with a warning.
func limited(rows []object, p params) outcome {
	size := 1000
	if n, ok := p["resultsize"].(float64); ok {
		size = int(n)
	}
	if p.text("ResultSize") == "Unlimited" || len(rows) <= size {
		return outcome{rows: rows}
	}
	return outcome{rows: rows[:size], warnings: []string{"There are more results available than are currently " +
		"displayed. To view them, increase the value for the ResultSize parameter."}}
}

// newMailbox makes a mailbox and the account behind it. Every mailbox also
// gets alias@<initial domain>, so equal aliases collide.
func newMailbox(in *invocation, t *tenant, _ map[string]bool) outcome {
	m, failed := in.mailboxAsked(t)
	if failed != nil {
		return outcome{failed: failed}
	}
	if t.Behaviour.AliasTaken {
		t.Behaviour.AliasTaken = false
		t.Exchange.Held = append(t.Exchange.Held, m.Alias+"@"+t.initial())
	}
	for _, a := range append([]string{m.Primary}, m.Others...) {
		if t.addressTaken(a) {
			return outcome{failed: errProxy.of(a)}
		}
	}
	if slices.ContainsFunc(t.Exchange.Mailboxes, func(o mailbox) bool { return strings.EqualFold(o.Name, m.Name) }) {
		return outcome{failed: errNameTaken.of(m.Name)}
	}
	u := user{ID: m.ObjectID, UPN: m.Primary, Mail: m.Primary, Nickname: m.Alias, DisplayName: m.DisplayName,
		Created: in.now, Visible: after(in.now, t.Behaviour.MailboxMS)}
	if t.Behaviour.UPNAlias {
		u.UPN = m.Alias + "@" + t.initial()
	}
	t.Users = append(t.Users, u)
	t.Exchange.Mailboxes = append(t.Exchange.Mailboxes, m)
	return outcome{rows: []object{t.mailboxRow(m)}}
}

// mailboxAsked is the mailbox that the parameters describe.
func (in *invocation) mailboxAsked(t *tenant) (mailbox, *exception) {
	name, display := in.params.text("Name"), in.params.text("DisplayName")
	alias, primary := in.params.text("Alias"), in.params.text("PrimarySmtpAddress")
	if display == "" {
		display = name
	}
	if !in.params.has("Alias") {
		alias = derivedAlias(name)
	}
	if primary == "" {
		primary = alias + "@" + t.initial()
	}
	_, domain, _ := strings.Cut(primary, "@")
	switch {
	case !in.params.yes("Shared"):
		return mailbox{}, errMissing.of("Password")
	case name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }):
		return mailbox{}, errInvalid.of("Property Name: it has 1 to 64 characters, of which not all letters are allowed.")
	case len(alias) > 64 || !aliasForm.MatchString(alias):
		return mailbox{}, errInvalid.of("Property Alias: the value contains characters that are not allowed.")
	case !t.accepted(domain, in.now):
		return mailbox{}, errNotMailDomain.of(domain)
	}
	id := guid("mailbox", t.ID, strings.ToLower(primary), in.now.String())
	m := mailbox{ObjectID: id, GUID: guid("guid", id), Exchange: guid("exchange", id), Name: name,
		DisplayName: display, Alias: alias, Primary: primary, Kind: "SharedMailbox", Created: in.now,
		Usable: t.Behaviour.usable(in.now)}
	if second := alias + "@" + t.initial(); !strings.EqualFold(second, primary) {
		m.Others = []string{second}
	}
	return m, nil
}

// derivedAlias is what becomes of a name without an alias: the part before the
// at sign, without characters that an alias may not have.
func derivedAlias(name string) string {
	local, _, _ := strings.Cut(name, "@")
	return strings.Trim(strings.Map(func(r rune) rune {
		if r == '.' || aliasForm.MatchString(string(r)) {
			return r
		}
		return -1
	}, local), ".")
}

// addressTaken reports whether any object has a proxy address or signs in by
// it.
func (t *tenant) addressTaken(a string) bool {
	same := func(b string) bool { return strings.EqualFold(a, b) }
	if slices.ContainsFunc(t.Exchange.Held, same) || t.user(a) != nil {
		return true
	}
	return slices.ContainsFunc(t.Exchange.Mailboxes, func(m mailbox) bool {
		return same(m.Primary) || slices.ContainsFunc(m.Others, same)
	})
}
