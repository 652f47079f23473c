// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Unruled is what became of our rules in a tenant.
type Unruled struct {
	// Removed is true when rules of ours may have been there and for certain are
	// not any more; Left names those that may still be there, and Why says what
	// was in the way.
	Removed bool
	Left    []string
	Why     error

	// run keeps runs of enforcement away, where any takes place.
	run  ports.SendRun
	held bool
}

var (
	// errNoPlatform is that there is no mail platform to ask.
	errNoPlatform = errors.New("there is no mail platform")
	// errNotAside is that a run of enforcement may put the rules back.
	errNotAside = errors.New("enforcement could not be kept away from the tenant")
)

// unrule takes our rules out of a tenant that may have some, and puts on record
// that whom they blocked is let go. For as long as the lease no run of
// enforcement puts them back.
func (s *Service) unrule(ctx context.Context, owner access.AccountID, t tenant.Tenant, lease time.Duration) (gone Unruled, err error) {
	scopes, err := s.Policies.RuledScopes(ctx, owner, t.GUID)
	if err != nil || len(scopes) == 0 {
		return Unruled{}, err
	}
	gone.Why = t.Reachable()
	if gone.Why == nil && s.Platform == nil {
		gone.Why = errNoPlatform
	}
	if gone.Why == nil {
		if gone.run, gone.held, err = s.aside(ctx, owner, t, lease); err != nil {
			return Unruled{}, err
		}
		if err := s.takeOut(ctx, t, &gone); err != nil {
			s.giveBack(ctx, gone)
			return Unruled{}, err
		}
	}
	if gone.Removed = gone.Why == nil; gone.Removed {
		return gone, nil
	}
	for _, scope := range scopes {
		gone.Left = append(gone.Left, sendlimit.RuleName(scope))
	}
	return gone, nil
}

// takeOut has the platform remove our rules while runs are kept away.
func (s *Service) takeOut(ctx context.Context, t tenant.Tenant, gone *Unruled) error {
	if gone.held {
		s.settle(ctx, gone.run)
	}
	failpoint.Hit("tenants.before-unrule")
	gone.Why = s.removeRules(ctx, t.GUID)
	failpoint.Hit("tenants.after-unrule")
	if gone.Why == nil && gone.held {
		return settling.Store(ctx, func(ctx context.Context) error { return s.letGo(ctx, gone.run) })
	}
	if gone.Why == nil && t.Bootstrap == tenant.BootstrapReady {
		gone.Why = errNotAside
	}
	return nil
}

// removeTries is how often the platform is asked to remove our rules where it
// may have done some of it.
const removeTries = 3

func (s *Service) removeRules(ctx context.Context, id tenant.GUID) error {
	for n := 1; ; n++ {
		err := settling.Call(ctx, s.Platform.For(id).RemoveRules)
		switch outcome.Of(err) {
		case outcome.NotReady, outcome.Unknown, outcome.Broken:
		default:
			return err
		}
		if n == removeTries || !settling.Wait(ctx, s.Pause) {
			return err
		}
	}
}

// letGo stores that mailboxes are not blocked any more, with their events, which
// outlive the tenant.
func (s *Service) letGo(ctx context.Context, r ports.SendRun) error {
	place, err := sendlimit.Place(r.Place)
	if err != nil {
		return err
	}
	now := s.Now()
	day := sendlimit.DayOf(now, place)
	policies, err := s.Policies.Policies(ctx, r.Account, r.Tenant)
	if err != nil {
		return err
	}
	boxes, err := s.Runs.SendBoxes(ctx, r, day.Start)
	if err != nil {
		return err
	}
	c := ports.SendChanges{At: now}
	for _, b := range boxes {
		if !b.BlockedAt.IsZero() {
			c.Done = append(c.Done, b.On(day).Becomes(sendlimit.Unblocked, r.Tenant, sendlimit.ByScope(policies), now))
		}
	}
	if len(c.Done) == 0 {
		return nil
	}
	_, err = s.Runs.SaveChanges(ctx, r, c) // else another who takes the rules out does it
	return err
}

// giveBack has runs of enforcement go on in a tenant that stays.
func (s *Service) giveBack(ctx context.Context, u Unruled) {
	if !u.held {
		return
	}
	_ = settling.Store(ctx, func(ctx context.Context) error { // else the lease ends
		_, err := s.Runs.ReleaseTenant(ctx, u.run, s.Now())
		return err
	})
}
