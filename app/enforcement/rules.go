// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
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
// policy nobody. Those that do need no call. What could not be done it returns.
func (a *act) rule(ctx context.Context) (err error) {
	for _, scope := range append(a.Order(a.ruled), a.left()...) {
		one := a.set(ctx, scope)
		if errors.Is(one, errLost) {
			return one
		}
		if one != nil {
			a.failed, err = append(a.failed, scope), errors.Join(err, fmt.Errorf("set rule: %w", one))
		}
	}
	return err
}

// left are scopes that nothing is known of and that have a rule of ours: one of
// an earlier life of the tenant, or one that was made while its policy went.
func (a *act) left() (scopes []string) {
	for _, r := range a.there {
		if scope := sendlimit.RuledScope(r.Name); !slices.ContainsFunc(a.ruled, func(known string) bool {
			return sendlimit.RuleName(known) == sendlimit.RuleName(scope)
		}) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// set has the rule of a scope block whom it has to. It gives nobody up whom
// another rule was to take and could not.
func (a *act) set(ctx context.Context, scope string) error {
	if a.Gives(scope, a.failed) {
		if list := a.Keeping(scope, a.failed, a.there); len(list) > 0 {
			a.Lists[scope] = list
		}
	}
	if sendlimit.RuleOf(scope, a.there).Right(a.Lists[scope]) {
		return nil
	}
	failpoint.Hit("enforcement.before-rule")
	defer failpoint.Hit("enforcement.after-rule")
	err := a.block(ctx, scope)
	if errors.Is(err, fault.MailboxNotFound) || outcome.Of(err) == outcome.NotReady {
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

// blockRest takes mailboxes that vanished at the platform, or whose address is
// another now so that the rule never shows it, out of a list and has the rule
// block the others: one is not to keep the rest from being blocked. The next sync
// forgets it. Where none vanished it stays as it was.
func (a *act) blockRest(ctx context.Context, scope string, trouble error) error {
	there := map[string]bool{}
	if err := a.ask(ctx, func(ctx context.Context) error {
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
		return trouble // it is listed, and not known all the same
	}
	a.forget(all, rest)
	a.Lists[scope] = rest
	if err := a.letGo(ctx, all, rest); err != nil {
		return err
	}
	return a.block(ctx, scope)
}

// forget has the next looks not ask for those who vanished.
func (a *act) forget(all, rest []string) {
	var ids []string
	for _, b := range a.boxes {
		if slices.Contains(all, b.Address) && !slices.Contains(rest, b.Address) {
			ids = append(ids, b.ID)
		}
	}
	a.vanished.add(a.Tenant, ids, a.now)
}

// letGo has those who vanished while they were blocked let go, with the rule
// that forgets them.
func (a *act) letGo(ctx context.Context, all, rest []string) error {
	before := len(a.Changes)
	for _, b := range a.boxes {
		if !b.BlockedAt.IsZero() && slices.Contains(all, b.Address) && !slices.Contains(rest, b.Address) {
			a.Changes = append(a.Changes, b.Becomes(sendlimit.Unblocked, a.Tenant, a.limits, a.now))
		}
	}
	if len(a.Changes) == before {
		return nil
	}
	return a.intend(ctx)
}
