// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// ConnectFlows stores the flows in which a browser connects a tenant. ConnectSessions starts the
// flows. A flow is identified by the hash of the state in its link. If several concurrent calls
// take the same step, only one of them succeeds.
type ConnectFlows interface {
	// TakeFlow changes the flow's step from `from` to `to`, and returns the flow as it was before
	// this change. browserHash must be the flow's BrowserHash, which is zero until a browser has
	// the cookie. TakeFlow fails with connect_link_invalid, and changes nothing, if the flow
	// belongs to a different browser, is at a different step or expired at now.
	TakeFlow(ctx context.Context, stateHash, browserHash [32]byte, from, to ConnectStep, now time.Time) (ConnectFlow, error)
	// SaveFlow stores the fields that a step has set. f.Step is the flow's current step. SaveFlow
	// fails with connect_link_invalid if the flow does not exist or is at a different step.
	SaveFlow(ctx context.Context, f ConnectFlow) error
	// DeleteFlows deletes flows that expired before the given time.
	DeleteFlows(ctx context.Context, before time.Time) error
}

// ConnectStep is the current step of a flow.
type ConnectStep string

// The steps of a flow, in order.
const (
	FlowStarted   ConnectStep = "started"    // the link was created
	FlowSigningIn ConnectStep = "signing_in" // the consent page redirected back; the administrator signs in
	FlowProving   ConnectStep = "proving"    // the sign-in page redirected back; tenantry redeems the code
	FlowConfirm   ConnectStep = "confirm"    // the sign-in is proved; the page asks for confirmation
	FlowDone      ConnectStep = "done"       // the administrator confirmed or declined
)

// ConnectFlow is one attempt of an administrator to connect a tenant in a browser.
type ConnectFlow struct {
	StateHash [32]byte // hash of the link's state; identifies the flow
	Account   access.AccountID
	Step      ConnectStep
	ExpiresAt time.Time
	// BrowserHash is the hash of the cookie that binds the flow to one browser.
	BrowserHash   [32]byte
	ClaimedTenant tenant.GUID
	// SignInHash is the hash of SignIn.State.
	SignInHash [32]byte
	Nonce      string
	// SealedVerifier is the encrypted PKCE verifier of the sign-in.
	SealedVerifier []byte
	Administrator  tenant.Administrator
	Profile        tenant.Profile
}
