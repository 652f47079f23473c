// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"

	"github.com/tenantry/tenantry/core/mailbox"
)

// Account is a mail account at a sending platform. The zero Account means a missing account.
type Account struct {
	ID      string // id at the platform; the address if the platform has no ids
	Address string // as the platform returns it; compare with SameAddress
	Name    string // display name, may be empty
	State   AccountState
	Paused  bool // connected, but not sending
	// HasError is true when the platform reports a problem, even if the account stays connected.
	HasError bool
	// Reason is the class of the problem, such as connection_error. It never quotes a text of the
	// platform.
	Reason string
	// Stamp changes with each new sign-in. It may also change at other times. It is empty if the
	// platform has no stamps.
	Stamp string
}

// AccountState is the state of a mail account at a sending platform.
type AccountState string

// The states. Plugins translate the states of their platforms into these.
const (
	AccountConnected AccountState = "connected" // the account's grant works; pausing does not change the state
	AccountPending   AccountState = "pending"   // the platform is still setting up the account
	AccountFailed    AccountState = "failed"    // the account cannot sign in
	AccountOther     AccountState = "other"     // any other state
)

// Exists reports whether the account exists at the platform.
func (a Account) Exists() bool { return a.ID != "" }

// Mark returns the string that is compared to detect a new sign-in of the account. It is Stamp, or
// the state and the id if the platform has no stamps. It is empty if the account does not exist.
func (a Account) Mark() string {
	if a.Exists() && a.Stamp == "" {
		return string(a.State) + " " + a.ID
	}
	return a.Stamp
}

// Page is one page of a list of accounts.
type Page struct {
	Accounts []Account
	// Next is the cursor of the next page, empty on the last page.
	Next string
}

// SameAddress reports whether two mail addresses are equal. It ignores the case of ASCII letters,
// but not of other letters.
func SameAddress(a, b string) bool { return FoldAddress(a) == FoldAddress(b) }

// FoldAddress returns an address with ASCII letters in lower case, the form for comparisons.
func FoldAddress(address string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, address)
}

// IsMailboxAddress reports whether the account that signed in with this address belongs to the
// mailbox: the address must be the mailbox's address or its sign-in name.
func IsMailboxAddress(address string, m mailbox.Mailbox) bool {
	return address != "" && (SameAddress(address, m.Address) || SameAddress(address, m.PrincipalName))
}
