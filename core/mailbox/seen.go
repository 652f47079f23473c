// SPDX-License-Identifier: Apache-2.0

package mailbox

import "strings"

// Seen returns a stored mailbox updated with the platform's state. In stage Reserved the mailbox is
// foreign. In stage Creating tenantry created it, and its password is still missing.
//
// For mailboxes that tenantry creates, the sign-in name is set to the address. The platform's list
// shows that late, so an older name in the list is ignored.
func (m Mailbox) Seen(p Platform) Mailbox {
	switch m.Stage {
	case Reserved:
		m.Stage, m.Provisioned = Ready, false
	case Creating:
		m.Stage, m.Provisioned = Created, true
	}
	if !m.Provisioned || m.PrincipalName == "" || strings.EqualFold(p.PrincipalName, m.Address) {
		m.PrincipalName = p.PrincipalName
	}
	m.ObjectID, m.DisplayName, m.Alias, m.AccountEnabled = p.ObjectID, p.DisplayName, p.Alias, p.AccountEnabled
	return m
}
