// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/wire"
)

// What a SendingPlatform speaks, so that an author needs nothing but this
// package.
type (
	// Reach is what a credential gets to.
	Reach = integration.Reach
	// Workspace is one workspace.
	Workspace = integration.Workspace
	// Account is a mail account at the platform.
	Account = integration.Account
	// AccountState is what the platform says of it.
	AccountState = integration.AccountState
	// Page is one page of accounts.
	Page = integration.Page
	// SignInSession is a session in which a mailbox is signed in.
	SignInSession = integration.SignIn
	// SignInState is how it stands.
	SignInState = integration.SignInState
	// Progress is a session as the platform sees it.
	Progress = integration.Progress
)

// The states.
const (
	AccountConnected = integration.AccountConnected
	AccountPending   = integration.AccountPending
	AccountFailed    = integration.AccountFailed
	AccountOther     = integration.AccountOther

	SignInPending   = integration.SignInPending
	SignInSucceeded = integration.SignInSucceeded
	SignInFailed    = integration.SignInFailed
	SignInExpired   = integration.SignInExpired

	CanOAuth      = integration.CanOAuth
	CanRefresh    = integration.CanRefresh
	CanDisconnect = integration.CanDisconnect
)

// FaultCredential is the FaultDomain of a platform that is another server for
// each credential.
const FaultCredential = wire.FaultCredential

// SameAddress reports whether two mail addresses are one.
func SameAddress(a, b string) bool { return integration.SameAddress(a, b) }
