// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// act is a ruling that is being carried out.
type act struct {
	*look
	sendlimit.Ruling

	limits sendlimit.Policies
	boxes  []sendlimit.Box
	ruled  []string // the scopes that may have a rule of ours
	// failed are those whose rules could not be set, as far as is known.
	failed []string
}

// rule has every rule of ours block whom it has to, those of scopes without a
// policy nobody. What could not be done it returns.
func (a *act) rule(ctx context.Context) (err error) {
	for _, scope := range a.Order(a.ruled) {
		failpoint.Hit("enforcement.before-rule")
		one := a.set(ctx, scope)
		failpoint.Hit("enforcement.after-rule")
		if errors.Is(one, errLost) {
			return one
		}
		if one != nil {
			a.failed, err = append(a.failed, scope), errors.Join(err, fmt.Errorf("set rule: %w", one))
		}
	}
	return err
}

// set has the rule of a scope block whom it has to. It gives nobody up whom
// another rule was to take and could not.
func (a *act) set(ctx context.Context, scope string) error {
	if a.Gives(scope, a.failed) {
		rules, err := a.rules(ctx)
		if err != nil {
			return err
		}
		if list := a.Keeping(scope, a.failed, rules); len(list) > 0 {
			a.Lists[scope] = list
		}
	}
	err := a.block(ctx, scope)
	if errors.Is(err, fault.MailboxNotFound) {
		return a.blockRest(ctx, scope, err)
	}
	return err
}

// block has one rule block exactly its list.
func (a *act) block(ctx context.Context, scope string) error {
	list := a.Lists[scope]
	return a.guard(ctx, func(ctx context.Context) error {
		r, err := a.platform.Block(ctx, scope, list)
		if err == nil && !slices.Equal(r.Blocks(), list) && len(r.Blocks())+len(list) > 0 {
			err = errors.New("the rule does not block whom it was told to")
		}
		return err
	})
}

// blockRest takes mailboxes that vanished at the platform out of a list and has
// the rule block the others: one that sends no more is not to keep the rest from
// being blocked. The next sync forgets it. Where none vanished it stays refused.
func (a *act) blockRest(ctx context.Context, scope string, refused error) error {
	there := map[string]bool{}
	if err := a.guard(ctx, func(ctx context.Context) error {
		held, err := a.platform.Mailboxes(ctx)
		for _, m := range held {
			there[strings.ToLower(m.Address)] = true
		}
		return err
	}); err != nil {
		return err
	}
	all := a.Lists[scope]
	rest := slices.DeleteFunc(slices.Clone(all), func(address string) bool { return !there[strings.ToLower(address)] })
	if len(rest) == len(all) {
		return refused // it is listed, and not known all the same
	}
	a.Lists[scope] = rest
	if err := a.letGo(ctx, all, rest); err != nil {
		return err
	}
	return a.block(ctx, scope)
}

// letGo has those who vanished while they were blocked let go, with the rule
// that forgets them.
func (a *act) letGo(ctx context.Context, all, rest []string) error {
	before := len(a.Changes)
	for _, b := range a.boxes {
		if !b.BlockedAt.IsZero() && slices.Contains(all, b.Address) && !slices.Contains(rest, b.Address) {
			a.Changes = append(a.Changes, b.Becomes(sendlimit.Unblocked, a.Tenant, a.limits, a.at()))
		}
	}
	if len(a.Changes) == before {
		return nil
	}
	return a.intend(ctx)
}
