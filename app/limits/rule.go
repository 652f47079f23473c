// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// ensure makes sure of the rule. It blocks nobody yet, so that one mailbox in it
// is enough: which one does not matter, only that the platform knows it. Without
// any that it does, the rule comes with the first block.
func (s *Service) ensure(ctx context.Context, p sendlimit.Policy, addresses []string) (sendlimit.Rule, error) {
	at := s.Platform.For(p.Tenant)
	failpoint.Hit("limits.before-rule")
	defer failpoint.Hit("limits.after-rule")
	rule, err := s.rule(ctx, at, p.Scope, addresses[:min(1, len(addresses))])
	if !errors.Is(err, fault.MailboxNotFound) {
		return rule, err
	}
	known, err := s.known(ctx, at, addresses)
	if err != nil {
		return rule, err
	}
	if rule, err = s.rule(ctx, at, p.Scope, known[:min(1, len(known))]); errors.Is(err, fault.MailboxNotFound) {
		return s.rule(ctx, at, p.Scope, nil) // it went meanwhile
	}
	return rule, err
}

// rule is the one of a scope. It is found by its name, so that a call whose
// answer was lost is made again.
func (s *Service) rule(ctx context.Context, at ports.MailTenant, scope string, senders []string) (rule sendlimit.Rule, err error) {
	err = settling.Persist(ctx, s.Pause, func(ctx context.Context) (err error) {
		rule, err = at.EnsureRule(ctx, scope, senders)
		return err
	})
	return rule, err
}

// known are those of the addresses that the platform has mailboxes of.
func (s *Service) known(ctx context.Context, at ports.MailTenant, addresses []string) ([]string, error) {
	var held []mailbox.Platform
	err := settling.Persist(ctx, s.Pause, func(ctx context.Context) (err error) {
		held, err = at.Mailboxes(ctx)
		return err
	})
	return slices.DeleteFunc(slices.Clone(addresses), func(address string) bool {
		return !slices.ContainsFunc(held, func(m mailbox.Platform) bool { return strings.EqualFold(m.Address, address) })
	}), err
}
