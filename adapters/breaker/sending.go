// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// Operations of a sending platform, as budgets name them. OpCheck is one too.
const (
	OpAccount     = "account"
	OpAccounts    = "accounts"
	OpStartSignIn = "start_sign_in"
	OpSignIn      = "sign_in"
	OpRemove      = "remove"
)

// sendingCallLimit bounds each call of a sending platform.
const sendingCallLimit = 20 * time.Second

// Sending has the circuits of one sending platform: one for all credentials, or
// one for each where each leads to a server of its own.
type Sending struct{ circuits *registry }

// NewSending makes the circuits of one sending platform.
func NewSending(o Options) *Sending { return &Sending{newRegistry(o.orDefaults())} }

// Guard puts a circuit around the platform as a credential reaches it. The
// fingerprint tells credentials apart; calls count in its budgets whatever
// circuit it shares. own says, at each call, whether it has one of its own.
func (s *Sending) Guard(next ports.SendingPlatform, fingerprint string, own func(context.Context) bool) ports.SendingPlatform {
	return guardedSending{next: next, circuits: s.circuits, credential: callerDomain + fingerprint, own: own}
}

// Circuits lists the fault domains that have a circuit, as Platform.Circuits.
func (s *Sending) Circuits() []Circuit { return s.circuits.list() }

type guardedSending struct {
	next       ports.SendingPlatform
	circuits   *registry
	credential string
	own        func(context.Context) bool
}

func (g guardedSending) circuit(ctx context.Context) *circuit {
	if g.own(ctx) {
		return g.circuits.circuit(g.credential)
	}
	return g.circuits.circuit(providerDomain)
}

// readSending runs a call that changes nothing.
func readSending[T any](ctx context.Context, g guardedSending, operation string, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, sendingCallLimit)
	defer cancel()
	return run(ctx, g.circuit(ctx), traits{operation: operation, payer: g.credential}, func() (T, error) {
		got, err := call(ctx)
		return got, cutRead(err)
	})
}

// cutRead is what a cut connection means to a call that changes nothing: the
// platform is away, and it is known that nothing happened.
func cutRead(err error) error {
	var cut *outcome.Error
	if !errors.As(err, &cut) || cut.Kind != outcome.Unknown || cut.Cause != outcome.CauseCut {
		return err
	}
	return &outcome.Error{Kind: outcome.Down, Cause: cut.Cause, Detail: "the connection to the provider was cut"}
}

// writeSending runs a call that may change something; while the circuit is half
// open, a test of the credential goes ahead of it.
func writeSending[T any](ctx context.Context, g guardedSending, operation string, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, sendingCallLimit)
	defer cancel()
	return afterProbe(ctx, g.circuit(ctx),
		traits{operation: operation, payer: g.credential, write: true}, func() (T, error) { return call(ctx) },
		traits{operation: OpCheck, payer: g.credential}, func() (integration.Reach, error) { return g.next.Check(ctx) })
}

func (g guardedSending) Check(ctx context.Context) (integration.Reach, error) {
	return readSending(ctx, g, OpCheck, g.next.Check)
}

func (g guardedSending) Account(ctx context.Context, address string) (integration.Account, error) {
	return readSending(ctx, g, OpAccount, func(ctx context.Context) (integration.Account, error) { return g.next.Account(ctx, address) })
}

func (g guardedSending) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	return readSending(ctx, g, OpAccounts, func(ctx context.Context) (integration.Page, error) { return g.next.Accounts(ctx, cursor) })
}

func (g guardedSending) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	return readSending(ctx, g, OpSignIn, func(ctx context.Context) (integration.Progress, error) { return g.next.SignIn(ctx, session) })
}

func (g guardedSending) StartSignIn(ctx context.Context, address string) (integration.SignIn, error) {
	return writeSending(ctx, g, OpStartSignIn, func(ctx context.Context) (integration.SignIn, error) { return g.next.StartSignIn(ctx, address) })
}

func (g guardedSending) Remove(ctx context.Context, account string) error {
	_, err := writeSending(ctx, g, OpRemove, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.next.Remove(ctx, account) })
	return err
}
