// SPDX-License-Identifier: Apache-2.0

package integration

import "time"

// AccountState is what a sending platform says of one of its mail accounts.
type AccountState string

// The states, in which each platform's own ones are told.
const (
	AccountConnected AccountState = "connected" // its grant works; pausing changes nothing
	AccountPending   AccountState = "pending"   // the platform is still setting it up
	AccountFailed    AccountState = "failed"    // it cannot sign in
	AccountOther     AccountState = "other"     // a state that we do not know
)

// Account is a mail account as a sending platform holds it. The zero Account
// is one that is not there.
type Account struct {
	ID      string // the platform's own; its address where it has no other
	Address string // as the platform has it; compare by SameAddress
	Name    string // of the person, may be empty
	State   AccountState
	Paused  bool // connected, but not sending
	// HasError says that the platform has a problem with it, also one that
	// leaves it connected.
	HasError bool
	// Reason classifies the problem, as in connection_error; never the
	// platform's words.
	Reason string
	// Stamp changes whenever the account is signed in anew. It may change
	// at other times too.
	Stamp string
}

// There reports whether the account is at the platform.
func (a Account) There() bool { return a.ID != "" }

// Page is one page of a listing of accounts.
type Page struct {
	Accounts []Account
	// Next continues the listing, empty at its end.
	Next string
}

// SignIn is a session in which somebody signs a mailbox in at the platform.
type SignIn struct {
	// ID is the platform's own. It is empty where the platform has no
	// sessions; then the account is looked up to see how it went.
	ID string
	// URL is where a person signs in. It works for whoever has it: it is
	// given out once and never logged or stored.
	URL       string
	ExpiresAt time.Time
}

// SignInState is how a session at the platform stands.
type SignInState string

// The states.
const (
	SignInPending   SignInState = "pending"
	SignInSucceeded SignInState = "succeeded"
	SignInFailed    SignInState = "failed"
	SignInExpired   SignInState = "expired"
)

// Progress is a session as the platform sees it.
type Progress struct {
	State SignInState
	// Address and Name are who signed in, once somebody has.
	Address string
	Name    string
	// Reason classifies a failure, as in access_denied.
	Reason string
}
