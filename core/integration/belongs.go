// SPDX-License-Identifier: Apache-2.0

package integration

import "github.com/tenantry/tenantry/core/mailbox"

// Belongs reports whether who signed in with this address is the mailbox:
// Microsoft tells its address or its sign-in name.
func Belongs(address string, m mailbox.Mailbox) bool {
	return address != "" && (SameAddress(address, m.Address) || SameAddress(address, m.PrincipalName))
}

// Address is how the platform knows the mailbox: as it told it, or by the
// mailbox's own address.
func (e Eligible) Address() string {
	if e.Connection.AccountAddress != "" {
		return e.Connection.AccountAddress
	}
	return e.Mailbox.Address
}
