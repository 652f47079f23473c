// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// write runs a call that may change something, with the tenant's profile as
// the read that goes ahead of it.
func write[T any](ctx context.Context, g guarded, call func() (T, error)) (T, error) {
	return afterProbe(ctx, g.circuits.circuit(g.domain), traits{write: true}, call, traits{}, func() (tenant.Profile, error) {
		return g.next.Profile(ctx)
	})
}

// afterProbe runs a write. While the circuit is half open a read goes ahead of
// it: a provider that is on its way back should not meet a write whose effect
// nobody can tell.
func afterProbe[T, P any](
	ctx context.Context, c *circuit, is traits, call func() (T, error), isProbe traits, probe func() (P, error),
) (T, error) {
	t, err := run(ctx, c, is, call)
	if !errors.Is(err, errReadFirst) {
		return t, err
	}
	if _, failed := run(ctx, c, isProbe, probe); judge(ctx, isProbe, failed) != nil {
		return t, c.refusal(c.waitAfterProbe())
	}
	if t, err = run(ctx, c, is, call); errors.Is(err, errReadFirst) {
		return t, c.refusal(probeWait)
	}
	return t, err
}

// act is write for calls without an answer.
func act(ctx context.Context, g guarded, call func() error) error {
	_, err := write(ctx, g, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (g guarded) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	return write(ctx, g, func() (domain.Platform, error) { return g.next.AddDomain(ctx, name) })
}

func (g guarded) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	return write(ctx, g, func() (domain.Platform, error) { return g.next.VerifyDomain(ctx, name) })
}

func (g guarded) EnableMail(ctx context.Context, name string) error {
	return act(ctx, g, func() error { return g.next.EnableMail(ctx, name) })
}

func (g guarded) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	return write(ctx, g, func() (tenant.Progress, error) { return g.next.Bootstrap(ctx) })
}

func (g guarded) EnableSMTPAuth(ctx context.Context) error {
	return act(ctx, g, func() error { return g.next.EnableSMTPAuth(ctx) })
}

func (g guarded) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	return write(ctx, g, func() (dns.Signing, error) { return g.next.EnsureSigning(ctx, name) })
}

func (g guarded) EnableSigning(ctx context.Context, name string) error {
	return act(ctx, g, func() error { return g.next.EnableSigning(ctx, name) })
}

func (g guarded) CreateMailbox(ctx context.Context, m mailbox.Spec) (mailbox.Platform, error) {
	return write(ctx, g, func() (mailbox.Platform, error) { return g.next.CreateMailbox(ctx, m) })
}

func (g guarded) OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error {
	return act(ctx, g, func() error { return g.next.OpenSignIn(ctx, objectID, address, password) })
}

func (g guarded) OpenSubmission(ctx context.Context, address string) error {
	return act(ctx, g, func() error { return g.next.OpenSubmission(ctx, address) })
}

func (g guarded) Rename(ctx context.Context, address, displayName string) error {
	return act(ctx, g, func() error { return g.next.Rename(ctx, address, displayName) })
}

func (g guarded) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return write(ctx, g, func() (sendlimit.Rule, error) { return g.next.EnsureRule(ctx, scope, mailboxes) })
}

func (g guarded) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return write(ctx, g, func() (sendlimit.Rule, error) { return g.next.Block(ctx, scope, mailboxes) })
}

func (g guarded) RemoveRules(ctx context.Context) error {
	return act(ctx, g, func() error { return g.next.RemoveRules(ctx) })
}
