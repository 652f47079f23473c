// SPDX-License-Identifier: Apache-2.0

package mailbox

import "strings"

// Seen is a stored mailbox with the state that the platform listed. One still
// reserved is not our making; one being created is, and waits for its password.
//
// We set the sign-in name of the mailboxes we make to their address. The
// platform's list mirrors that late, so it does not take back what we know.
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
