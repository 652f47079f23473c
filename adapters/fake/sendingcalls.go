// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

// signInTime is how long a link works.
const signInTime = 10 * time.Minute

// does runs one call of the port: work is done under the lock and says whether
// it changed anything.
func (p *SendingPlatform) does(ctx context.Context, method, about string, work func() (changed bool, err error)) error {
	if err := p.begin(ctx, method, "", about); err != nil {
		return err
	}
	changed, err := p.locked(work)
	if changed {
		p.effected(method)
	}
	if err != nil {
		return err
	}
	return p.end(ctx, method, "", about)
}

func (p *SendingPlatform) locked(work func() (bool, error)) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unpaid {
		return false, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Cause: "plan_inactive", Detail: "the plan has ended"}
	}
	return work()
}

// lacks refuses what the platform cannot do.
func (p *SendingPlatform) lacks(capability string) error {
	if slices.Contains(p.Cannot, capability) {
		return refuse(fault.CapabilityMissing, "the platform cannot do this")
	}
	return nil
}

// Check implements ports.SendingPlatform.
func (p *SendingPlatform) Check(ctx context.Context) (integration.Reach, error) {
	err := p.does(ctx, "Check", "", func() (bool, error) { return false, nil })
	if err != nil {
		return integration.Reach{}, err
	}
	return integration.Reach{Workspaces: slices.Clone(p.Reach.Workspaces), Roaming: p.Reach.Roaming}, nil
}

// Account implements ports.SendingPlatform.
func (p *SendingPlatform) Account(ctx context.Context, address string) (found integration.Account, err error) {
	err = p.does(ctx, "Account", address, func() (bool, error) {
		for _, a := range p.accounts {
			if integration.SameAddress(a.Address, address) {
				found = a
			}
		}
		return false, nil
	})
	if err != nil {
		return integration.Account{}, err
	}
	return found, nil
}

// Accounts implements ports.SendingPlatform. A cursor is where a page begins.
func (p *SendingPlatform) Accounts(ctx context.Context, cursor string) (page integration.Page, err error) {
	err = p.does(ctx, "Accounts", cursor, func() (bool, error) {
		from, _ := strconv.Atoi(cursor)
		from = min(from, len(p.accounts))
		to := min(from+p.PageSize, len(p.accounts))
		page.Accounts = slices.Clone(p.accounts[from:to])
		if to < len(p.accounts) {
			page.Next = strconv.Itoa(to)
		}
		return false, nil
	})
	if err != nil {
		return integration.Page{}, err
	}
	return page, nil
}

// StartSignIn implements ports.SendingPlatform.
func (p *SendingPlatform) StartSignIn(ctx context.Context, address string) (begun integration.SignIn, err error) {
	err = p.does(ctx, "StartSignIn", address, func() (bool, error) {
		if err := p.lacks(integration.CanOAuth); err != nil {
			return false, err
		}
		p.serial++
		begun.URL = fmt.Sprintf("https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=fake-%d", p.serial)
		if !p.Sessionless {
			begun.ID, begun.ExpiresAt = fmt.Sprintf("session-%d", p.serial), p.now().Add(signInTime)
		}
		p.signIns = append(p.signIns, &signIn{begun, integration.Progress{State: integration.SignInPending}})
		return true, nil
	})
	if err != nil {
		return integration.SignIn{}, err
	}
	return begun, nil
}

// SignIn implements ports.SendingPlatform.
func (p *SendingPlatform) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	progress := integration.Progress{State: integration.SignInExpired}
	err := p.does(ctx, "SignIn", session, func() (bool, error) {
		if p.Sessionless {
			return false, refuse(fault.CapabilityMissing, "the platform has no sessions")
		}
		for _, s := range p.signIns {
			over := s.progress.State == integration.SignInPending && p.now().After(s.ExpiresAt)
			if s.ID == session && !over {
				progress = s.progress
			}
		}
		return false, nil
	})
	if err != nil {
		return integration.Progress{}, err
	}
	return progress, nil
}

// Remove implements ports.SendingPlatform.
func (p *SendingPlatform) Remove(ctx context.Context, account string) error {
	return p.does(ctx, "Remove", account, func() (bool, error) {
		if err := p.lacks(integration.CanDisconnect); err != nil {
			return false, err
		}
		before := len(p.accounts)
		p.accounts = slices.DeleteFunc(p.accounts, func(a integration.Account) bool { return a.ID == account })
		return len(p.accounts) < before, nil
	})
}
