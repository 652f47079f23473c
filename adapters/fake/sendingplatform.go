// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// SendingPlatform is one workspace of a sending platform, in memory.
type SendingPlatform struct {
	Script

	// Set these before the first call.
	Sessionless         bool              // StartSignIn returns no session
	Reach               integration.Reach // the result of Check
	PageSize            int               // the maximum number of accounts in a page of Accounts
	MissingCapabilities []string          // StartSignIn needs CanOAuth, Remove needs CanDisconnect
	// Now returns the time to which Advance adds. If Now is nil, the clock starts at 2026-11-02
	// 09:00 UTC and moves only by Advance.
	Now func() time.Time

	mu           sync.Mutex
	clockOffset  time.Duration
	hasPlanEnded bool
	accounts     []integration.Account
	signIns      []*signIn
	serial       int
}

type signIn struct {
	integration.SignIn
	progress integration.Progress
}

var _ ports.SendingPlatform = (*SendingPlatform)(nil)

// NewSendingPlatform returns a workspace without accounts. It has all capabilities, and Check
// reports one workspace.
func NewSendingPlatform() *SendingPlatform {
	return &SendingPlatform{
		Reach:    integration.Reach{Workspaces: []integration.Workspace{{ID: "ws-1", Name: "Workspace 1"}}},
		PageSize: 100,
	}
}

// Put adds accounts. An added account replaces the account with the same address. An account
// without an id or a stamp gets one.
func (p *SendingPlatform) Put(accounts ...integration.Account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range accounts {
		p.put(a)
	}
}

func (p *SendingPlatform) put(account integration.Account) {
	p.serial++
	index := slices.IndexFunc(p.accounts, func(o integration.Account) bool { return integration.SameAddress(o.Address, account.Address) })
	if account.ID == "" && index >= 0 {
		account.ID = p.accounts[index].ID
	}
	if account.ID == "" {
		account.ID = fmt.Sprintf("account-%d", p.serial)
	}
	if account.Stamp == "" {
		account.Stamp = fmt.Sprintf("stamp-%d", p.serial)
	}
	if index >= 0 {
		p.accounts[index] = account
	} else {
		p.accounts = append(p.accounts, account)
	}
}

// DropAccount removes the account with this address, as the platform's customer can do in the user
// interface.
func (p *SendingPlatform) DropAccount(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accounts = slices.DeleteFunc(p.accounts, func(a integration.Account) bool { return integration.SameAddress(a.Address, address) })
}

// AllAccounts returns all accounts.
func (p *SendingPlatform) AllAccounts() []integration.Account {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.accounts)
}

// CompleteSignIn simulates a person who opens a sign-in link and signs in with this address and
// name.
func (p *SendingPlatform) CompleteSignIn(url, address, name string) {
	p.endSignIn(url, integration.Progress{State: integration.SignInSucceeded, Address: address, Name: name})
}

// DenySignIn simulates a person who opens a sign-in link and declines.
func (p *SendingPlatform) DenySignIn(url string) {
	p.endSignIn(url, integration.Progress{State: integration.SignInFailed, Reason: "access_denied"})
}

// ExpireSignIn makes the session of a sign-in link expire.
func (p *SendingPlatform) ExpireSignIn(url string) {
	p.endSignIn(url, integration.Progress{State: integration.SignInExpired})
}

func (p *SendingPlatform) endSignIn(url string, progress integration.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.signIns {
		if s.URL != url || s.progress.State != integration.SignInPending {
			continue
		}
		s.progress = progress
		if progress.State == integration.SignInSucceeded {
			p.put(integration.Account{Address: progress.Address, Name: progress.Name, State: integration.AccountConnected})
		}
	}
}

// SetPlanEnded ends the customer's plan, or renews it if ended is false.
func (p *SendingPlatform) SetPlanEnded(ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hasPlanEnded = ended
}

// Advance moves the platform's clock forward.
func (p *SendingPlatform) Advance(duration time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clockOffset += duration
}

func (p *SendingPlatform) now() time.Time {
	start := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	if p.Now != nil {
		start = p.Now()
	}
	return start.Add(p.clockOffset)
}

// signInTime is the lifetime of a sign-in session.
const signInTime = 10 * time.Minute

// call runs one call of the port. effect runs while p.mu is held, and returns whether it changed
// anything. It does not run if the plan has ended.
func (p *SendingPlatform) call(ctx context.Context, method, object string, effect func() (changed bool, err error)) error {
	return p.run(ctx, method, "", object, func() (bool, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.hasPlanEnded {
			return false, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Cause: "plan_inactive", Detail: "the plan has ended"}
		}
		return effect()
	})
}

func (p *SendingPlatform) requireCapability(capability string) error {
	if slices.Contains(p.MissingCapabilities, capability) {
		return refuse(fault.CapabilityMissing, "the platform cannot do this")
	}
	return nil
}

// Check implements ports.SendingPlatform.
func (p *SendingPlatform) Check(ctx context.Context) (integration.Reach, error) {
	err := p.call(ctx, "Check", "", func() (bool, error) { return false, nil })
	if err != nil {
		return integration.Reach{}, err
	}
	return integration.Reach{Workspaces: slices.Clone(p.Reach.Workspaces), SelectedWorkspaceOnly: p.Reach.SelectedWorkspaceOnly}, nil
}

// Account implements ports.SendingPlatform.
func (p *SendingPlatform) Account(ctx context.Context, address string) (found integration.Account, err error) {
	err = p.call(ctx, "Account", address, func() (bool, error) {
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

// Accounts implements ports.SendingPlatform. A cursor is the index of the first account of a page.
func (p *SendingPlatform) Accounts(ctx context.Context, cursor string) (page integration.Page, err error) {
	err = p.call(ctx, "Accounts", cursor, func() (bool, error) {
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
	err = p.call(ctx, "StartSignIn", address, func() (bool, error) {
		if err := p.requireCapability(integration.CanOAuth); err != nil {
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
	err := p.call(ctx, "SignIn", session, func() (bool, error) {
		if p.Sessionless {
			return false, refuse(fault.CapabilityMissing, "the platform has no sessions")
		}
		for _, s := range p.signIns {
			expired := s.progress.State == integration.SignInPending && p.now().After(s.ExpiresAt)
			if s.ID == session && !expired {
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
func (p *SendingPlatform) Remove(ctx context.Context, accountID string) error {
	return p.call(ctx, "Remove", accountID, func() (bool, error) {
		if err := p.requireCapability(integration.CanDisconnect); err != nil {
			return false, err
		}
		before := len(p.accounts)
		p.accounts = slices.DeleteFunc(p.accounts, func(a integration.Account) bool { return a.ID == accountID })
		return len(p.accounts) < before, nil
	})
}
