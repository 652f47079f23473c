// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

// Sending measures the calls of one sending platform, whichever credential they
// use.
type Sending struct{ calls calls }

// NewSending prepares the measurement of one sending platform.
func NewSending(o CallOptions) (*Sending, error) {
	c, err := newCalls(o)
	if err != nil {
		return nil, err
	}
	return &Sending{c}, nil
}

// Measure wraps a sending platform, as Mail does a mail platform.
func (s *Sending) Measure(next ports.SendingPlatform) ports.SendingPlatform {
	return measuredSending{next: next, calls: s.calls}
}

type measuredSending struct {
	next  ports.SendingPlatform
	calls calls
}

func (m measuredSending) Check(ctx context.Context) (integration.Reach, error) {
	return measure(ctx, m.calls, "check", nil, m.next.Check)
}

func (m measuredSending) Account(ctx context.Context, address string) (integration.Account, error) {
	return measure(ctx, m.calls, "account", m.calls.about(aboutMailbox, address), func(ctx context.Context) (integration.Account, error) {
		return m.next.Account(ctx, address)
	})
}

// Accounts says nothing of the cursor, which may hold an address.
func (m measuredSending) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	return measure(ctx, m.calls, "accounts", nil, func(ctx context.Context) (integration.Page, error) { return m.next.Accounts(ctx, cursor) })
}

func (m measuredSending) StartSignIn(ctx context.Context, address string) (integration.SignIn, error) {
	return measure(ctx, m.calls, "start_sign_in", m.calls.about(aboutMailbox, address), func(ctx context.Context) (integration.SignIn, error) {
		return m.next.StartSignIn(ctx, address)
	})
}

func (m measuredSending) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	return measure(ctx, m.calls, "sign_in", nil, func(ctx context.Context) (integration.Progress, error) { return m.next.SignIn(ctx, session) })
}

// Remove names the account by its id, which is its address at some platforms.
func (m measuredSending) Remove(ctx context.Context, account string) error {
	return measured(ctx, m.calls, "remove", m.calls.about(aboutMailbox, account), func(ctx context.Context) error { return m.next.Remove(ctx, account) })
}
