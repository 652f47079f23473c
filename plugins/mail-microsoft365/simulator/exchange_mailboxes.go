// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// mailbox is one mailbox of any kind.
type mailbox struct {
	ObjectID       string    `json:"object_id"` // id of the user, "" for system mailboxes
	GUID           string    `json:"guid"`
	ExchangeGUID   string    `json:"exchange"`
	Name           string    `json:"name"`
	DisplayName    string    `json:"display_name"`
	Alias          string    `json:"alias"`
	Primary        string    `json:"primary"`
	OtherAddresses []string  `json:"others"`
	Kind           string    `json:"kind"`      // RecipientTypeDetails
	CopySentAs     bool      `json:"sent_copy"` // MessageCopyForSentAsEnabled
	Created        time.Time `json:"created"`
	CASLag         lag       `json:"usable"` // until Get-CASMailbox and Set-CASMailbox find the mailbox
	// SMTPAuthDisabled is nil if the organization's setting applies.
	SMTPAuthDisabled *bool `json:"smtp_auth_disabled"`
}

// mailbox returns the mailbox with this identity, or nil. An identity is an address, a name, an
// alias, a GUID or a sign-in name.
func (t *tenant) mailbox(identity string) *mailbox {
	for i := range t.Exchange.Mailboxes {
		box := &t.Exchange.Mailboxes[i]
		keys := append([]string{box.Primary, box.Name, box.Alias, box.GUID, box.ExchangeGUID, box.ObjectID}, box.OtherAddresses...)
		if u := t.user(box.ObjectID); u != nil {
			keys = append(keys, u.UPN)
		}
		if slices.ContainsFunc(keys, func(k string) bool { return k != "" && strings.EqualFold(k, identity) }) {
			return box
		}
	}
	return nil
}

// mailboxKinds are the values of RecipientTypeDetails that Get-Mailbox accepts.
var mailboxKinds = []string{"UserMailbox", "SharedMailbox", "RoomMailbox", "EquipmentMailbox", "DiscoveryMailbox",
	"LinkedMailbox", "SchedulingMailbox", "GroupMailbox", "TeamMailbox"}

var aliasPattern = regexp.MustCompile(`^[A-Za-z0-9!#%*+/=?^_~-]+(\.[A-Za-z0-9!#%*+/=?^_~-]+)*$`)

// mailboxRow returns a mailbox as Get-Mailbox shows it. The row has the properties that tenantry
// uses and a few others.
func (t *tenant) mailboxRow(box mailbox) object {
	addresses := []string{"SMTP:" + box.Primary}
	for _, other := range box.OtherAddresses {
		addresses = append(addresses, "smtp:"+other)
	}
	row := object{
		"ExternalDirectoryObjectId": box.ObjectID, "ExchangeGuid": box.ExchangeGUID, "Guid": box.GUID, "Id": box.Name,
		"Identity": box.Name, "Name": box.Name, "DisplayName": box.DisplayName, "Alias": box.Alias,
		"PrimarySmtpAddress": box.Primary, "WindowsEmailAddress": box.Primary, "UserPrincipalName": box.Primary,
		"RecipientTypeDetails": box.Kind, "RecipientType": "UserMailbox", "IsShared": box.Kind == "SharedMailbox",
		"AccountDisabled": true, "WhenMailboxCreated": box.Created, "EmailAddresses": addresses,
		"MessageCopyForSentAsEnabled": box.CopySentAs, "EmailAddressPolicyEnabled": false,
		"ProhibitSendQuota": "49.5 GB (53,150,220,288 bytes)", "RetainDeletedItemsFor": "14.00:00:00",
		"ForwardingSmtpAddress": nil, "CustomAttribute1": "", "RecipientLimits": 500,
	}
	if u := t.user(box.ObjectID); u != nil && box.ObjectID != "" {
		row["UserPrincipalName"], row["AccountDisabled"] = u.UPN, !u.Enabled
	}
	return row
}

func getMailbox(call *invocation, t *tenant, _ map[string]bool) outcome {
	kinds := call.params.textList("RecipientTypeDetails")
	// readParams also accepts the beginning of a kind, such as "Shared". Here such a value matches
	// no mailbox.
	hasWantedKind := func(box mailbox) bool {
		return kinds == nil || slices.ContainsFunc(kinds, func(k string) bool { return strings.EqualFold(k, box.Kind) })
	}
	if call.params.has("Identity") {
		box := t.mailbox(call.params.text("Identity"))
		if box == nil || !hasWantedKind(*box) {
			return outcome{failure: errNoObject.with(call.params.text("Identity"))}
		}
		return outcome{rows: []object{t.mailboxRow(*box)}}
	}
	rows := []object{}
	for _, box := range t.Exchange.Mailboxes {
		if hasWantedKind(box) {
			rows = append(rows, t.mailboxRow(box))
		}
	}
	return limitRows(rows, call.params)
}

// limitRows returns at most ResultSize rows, 1000 by default, and a warning if there are more.
func limitRows(rows []object, p params) outcome {
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

// newMailbox runs New-Mailbox: it adds a mailbox and its user. The mailbox also gets the address
// alias@<initial domain>, so the call fails if another mailbox has the same alias.
func newMailbox(call *invocation, t *tenant, _ map[string]bool) outcome {
	box, failure := call.mailboxFromParams(t)
	if failure != nil {
		return outcome{failure: failure}
	}
	if t.Behaviour.AliasTaken {
		t.Behaviour.AliasTaken = false
		t.Exchange.NonMailboxAddresses = append(t.Exchange.NonMailboxAddresses, box.Alias+"@"+t.initialDomain())
	}
	for _, a := range append([]string{box.Primary}, box.OtherAddresses...) {
		if t.isAddressTaken(a) {
			return outcome{failure: errAddressTaken.with(a)}
		}
	}
	if slices.ContainsFunc(t.Exchange.Mailboxes, func(o mailbox) bool { return strings.EqualFold(o.Name, box.Name) }) {
		return outcome{failure: errNameTaken.with(box.Name)}
	}
	u := user{ID: box.ObjectID, UPN: box.Primary, Mail: box.Primary, Nickname: box.Alias, DisplayName: box.DisplayName,
		Created: call.now, VisibilityLag: startLag(call.now, t.Behaviour.MailboxMS)}
	if t.Behaviour.UPNAlias {
		u.UPN = box.Alias + "@" + t.initialDomain()
	}
	t.Users = append(t.Users, u)
	t.Exchange.Mailboxes = append(t.Exchange.Mailboxes, box)
	return outcome{rows: []object{t.mailboxRow(box)}}
}

func (call *invocation) mailboxFromParams(t *tenant) (mailbox, *exception) {
	name, display := call.params.text("Name"), call.params.text("DisplayName")
	alias, primary := call.params.text("Alias"), call.params.text("PrimarySmtpAddress")
	if display == "" {
		display = name
	}
	if !call.params.has("Alias") {
		alias = aliasFromName(name)
	}
	if primary == "" {
		primary = alias + "@" + t.initialDomain()
	}
	_, domain, _ := strings.Cut(primary, "@")
	switch {
	case !call.params.isTrue("Shared"):
		return mailbox{}, errMissing.with("Password")
	case name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }):
		return mailbox{}, errInvalid.with("Property Name: it must have 1 to 64 ASCII characters.")
	case len(alias) > 64 || !aliasPattern.MatchString(alias):
		return mailbox{}, errInvalid.with("Property Alias: the value contains characters that are not allowed.")
	case !t.acceptsMail(domain, call.now):
		return mailbox{}, errNotMailDomain.with(domain)
	}
	id := guid("mailbox", t.ID, strings.ToLower(primary), call.now.String())
	box := mailbox{ObjectID: id, GUID: guid("guid", id), ExchangeGUID: guid("exchange", id), Name: name,
		DisplayName: display, Alias: alias, Primary: primary, Kind: "SharedMailbox", Created: call.now,
		CASLag: t.Behaviour.casLag(call.now)}
	if second := alias + "@" + t.initialDomain(); !strings.EqualFold(second, primary) {
		box.OtherAddresses = []string{second}
	}
	return box, nil
}

// aliasFromName returns the alias of a mailbox that is created without one: the part of the name
// before the at sign, without the characters that an alias must not have.
func aliasFromName(name string) string {
	local, _, _ := strings.Cut(name, "@")
	return strings.Trim(strings.Map(func(r rune) rune {
		if r == '.' || aliasPattern.MatchString(string(r)) {
			return r
		}
		return -1
	}, local), ".")
}

// isAddressTaken reports whether an object of the tenant has the address a as a proxy address or as
// its sign-in name.
func (t *tenant) isAddressTaken(a string) bool {
	isSame := func(b string) bool { return strings.EqualFold(a, b) }
	if slices.ContainsFunc(t.Exchange.NonMailboxAddresses, isSame) || t.user(a) != nil {
		return true
	}
	return slices.ContainsFunc(t.Exchange.Mailboxes, func(box mailbox) bool {
		return isSame(box.Primary) || slices.ContainsFunc(box.OtherAddresses, isSame)
	})
}

// setMailbox runs Set-Mailbox. If it changes nothing, it returns a warning.
func setMailbox(call *invocation, t *tenant, _ map[string]bool) outcome {
	box := t.mailbox(call.params.text("Identity"))
	if box == nil {
		return outcome{failure: errNoObject.with(call.params.text("Identity"))}
	}
	before := *box
	if call.params.has("DisplayName") {
		box.DisplayName = call.params.text("DisplayName")
		if u := t.user(box.ObjectID); u != nil {
			u.DisplayName = box.DisplayName
		}
	}
	if call.params.has("MessageCopyForSentAsEnabled") {
		box.CopySentAs = call.params.isTrue("MessageCopyForSentAsEnabled")
	}
	if before.DisplayName == box.DisplayName && before.CopySentAs == box.CopySentAs {
		return nothingModified(box.Name)
	}
	return outcome{}
}

// removeMailbox runs Remove-Mailbox. It deletes the mailbox and its user, but does not find a
// system mailbox.
func removeMailbox(call *invocation, t *tenant, _ map[string]bool) outcome {
	box := t.mailbox(call.params.text("Identity"))
	if box == nil || box.ObjectID == "" {
		return outcome{failure: errNoObject.with(call.params.text("Identity"))}
	}
	t.removeUser(box.ObjectID)
	return outcome{}
}

// usableMailbox returns the mailbox of the parameter Identity. It does not find a mailbox whose
// CASLag has not passed.
func (call *invocation) usableMailbox(t *tenant) (*mailbox, *exception) {
	box := t.mailbox(call.params.text("Identity"))
	if box == nil || !box.CASLag.hasPassed(call.now) {
		return nil, errNoObject.with(call.params.text("Identity"))
	}
	return box, nil
}

// casRow returns a mailbox as Get-CASMailbox shows it.
func casRow(box mailbox) object {
	var disabled any // null means that the organization's setting applies
	if box.SMTPAuthDisabled != nil {
		disabled = *box.SMTPAuthDisabled
	}
	return object{"Identity": box.Name, "Name": box.Name, "DisplayName": box.DisplayName, "PrimarySmtpAddress": box.Primary,
		"ExternalDirectoryObjectId": box.ObjectID, "Guid": box.GUID, "SmtpClientAuthenticationDisabled": disabled}
}

func getCASMailbox(call *invocation, t *tenant, _ map[string]bool) outcome {
	if call.params.has("Identity") {
		box, failure := call.usableMailbox(t)
		if failure != nil {
			return outcome{failure: failure}
		}
		return outcome{rows: []object{casRow(*box)}}
	}
	rows := []object{}
	for _, box := range t.Exchange.Mailboxes {
		if box.CASLag.hasPassed(call.now) {
			rows = append(rows, casRow(box))
		}
	}
	return limitRows(rows, call.params)
}

// setCASMailbox runs Set-CASMailbox. If it changes nothing, it returns a warning.
func setCASMailbox(call *invocation, t *tenant, _ map[string]bool) outcome {
	box, failure := call.usableMailbox(t)
	if failure != nil {
		return outcome{failure: failure}
	}
	if !call.params.has("SmtpClientAuthenticationDisabled") {
		return nothingModified(box.Name)
	}
	var want *bool
	if disabled, isSet := call.params["smtpclientauthenticationdisabled"].(bool); isSet {
		want = &disabled
	}
	isUnchanged := want == nil && box.SMTPAuthDisabled == nil ||
		want != nil && box.SMTPAuthDisabled != nil && *want == *box.SMTPAuthDisabled
	if isUnchanged {
		return nothingModified(box.Name)
	}
	box.SMTPAuthDisabled = want
	return outcome{}
}
