// SPDX-License-Identifier: Apache-2.0

package integration

import "time"

// AccountState is the state of a mail account at a sending platform.
type AccountState string

// The states, to which adapters map the states of each platform.
const (
	AccountConnected AccountState = "connected" // its grant works; pausing does not change the state
	AccountPending   AccountState = "pending"   // the platform is still setting it up
	AccountFailed    AccountState = "failed"    // it cannot sign in
	AccountOther     AccountState = "other"     // a state that tenantry does not know
)

// Account is a mail account at a sending platform. The zero Account stands for a missing account.
type Account struct {
	ID      string // id at the platform; its address if the platform has no ids
	Address string // as the platform returns it; compare with SameAddress
	Name    string // display name, may be empty
	State   AccountState
	Paused  bool // connected, but not sending
	// HasError is true when the platform reports a problem, even if the account stays connected.
	HasError bool
	// Reason is a class of problems, such as connection_error. It never quotes the platform.
	Reason string
	// Stamp changes with each new sign-in. It may also change at other times.
	Stamp string
}

// There reports whether the account exists at the platform.
func (a Account) There() bool { return a.ID != "" }

// Page is one page of a list of accounts.
type Page struct {
	Accounts []Account
	// Next is the cursor of the next page, empty on the last page.
	Next string
}

// SignIn is a session at the platform in which a person signs a mailbox in.
type SignIn struct {
	// ID is the session's id at the platform. It is empty for a platform without sessions; the
	// account then shows the result.
	ID string
	// URL is the page on which a person signs in. Anyone with the URL can use it. It is returned
	// once and never logged or stored.
	URL       string
	ExpiresAt time.Time
}

// SignInState is the state of a session at the platform.
type SignInState string

// The states of a session at the platform.
const (
	SignInPending   SignInState = "pending"
	SignInSucceeded SignInState = "succeeded"
	SignInFailed    SignInState = "failed"
	SignInExpired   SignInState = "expired"
)

// Progress is the state of a session as reported by the platform.
type Progress struct {
	State SignInState
	// Address and Name identify the person who signed in, empty before that.
	Address string
	Name    string
	// Reason is a class of failures, such as access_denied.
	Reason string
}
