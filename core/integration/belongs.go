// SPDX-License-Identifier: Apache-2.0

package integration

import "github.com/tenantry/tenantry/core/mailbox"

// Belongs reports whether the account that signed in with this address belongs to the mailbox.
// Microsoft returns the mailbox's address or its sign-in name.
func Belongs(address string, m mailbox.Mailbox) bool {
	return address != "" && (SameAddress(address, m.Address) || SameAddress(address, m.PrincipalName))
}

// Address returns the mailbox's address at the platform, or its own address if that is unknown.
func (e Eligible) Address() string {
	if e.Connection.AccountAddress != "" {
		return e.Connection.AccountAddress
	}
	return e.Mailbox.Address
}
