// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

// SendingPlatform is one workspace of a sending platform, in memory.
type SendingPlatform struct {
	Script

	// Set these before the first call.
	Sessionless bool              // it has no sessions of its own
	Reach       integration.Reach // what Check tells
	PageSize    int               // of listings
	Cannot      []string          // the capabilities that it lacks
	// Now is its clock, one that stands still until Advance if nil.
	Now func() time.Time

	mu       sync.Mutex
	ahead    time.Duration
	unpaid   bool
	accounts []integration.Account
	signIns  []*signIn
	serial   int
}

type signIn struct {
	integration.SignIn
	progress integration.Progress
}

var _ ports.SendingPlatform = (*SendingPlatform)(nil)

// NewSendingPlatform makes a platform with one workspace, without accounts,
// that can do everything.
func NewSendingPlatform() *SendingPlatform {
	return &SendingPlatform{
		Reach:    integration.Reach{Workspaces: []integration.Workspace{{ID: "ws-1", Name: "Workspace 1"}}},
		PageSize: 100,
	}
}

// Put makes accounts be there; each replaces one of the same address. What
// lacks an id or a stamp gets one.
func (p *SendingPlatform) Put(accounts ...integration.Account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range accounts {
		p.put(a)
	}
}

func (p *SendingPlatform) put(a integration.Account) {
	p.serial++
	at := slices.IndexFunc(p.accounts, func(o integration.Account) bool { return integration.SameAddress(o.Address, a.Address) })
	if a.ID == "" && at >= 0 {
		a.ID = p.accounts[at].ID
	}
	if a.ID == "" {
		a.ID = fmt.Sprintf("account-%d", p.serial)
	}
	if a.Stamp == "" {
		a.Stamp = fmt.Sprintf("stamp-%d", p.serial)
	}
	if at >= 0 {
		p.accounts[at] = a
	} else {
		p.accounts = append(p.accounts, a)
	}
}

// Drop removes the account with this address, as its owner does there.
func (p *SendingPlatform) Drop(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accounts = slices.DeleteFunc(p.accounts, func(a integration.Account) bool { return integration.SameAddress(a.Address, address) })
}

// Held lists what is there.
func (p *SendingPlatform) Held() []integration.Account {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.accounts)
}

// Complete is a person who opens a link and signs in with this address.
func (p *SendingPlatform) Complete(url, address, name string) {
	p.finish(url, integration.Progress{State: integration.SignInSucceeded, Address: address, Name: name})
}

// Deny is a person who opens a link and declines.
func (p *SendingPlatform) Deny(url string) {
	p.finish(url, integration.Progress{State: integration.SignInFailed, Reason: "access_denied"})
}

// Expire ends the session of a link.
func (p *SendingPlatform) Expire(url string) {
	p.finish(url, integration.Progress{State: integration.SignInExpired})
}

func (p *SendingPlatform) finish(url string, as integration.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.signIns {
		if s.URL != url || s.progress.State != integration.SignInPending {
			continue
		}
		s.progress = as
		if as.State == integration.SignInSucceeded {
			p.put(integration.Account{Address: as.Address, Name: as.Name, State: integration.AccountConnected})
		}
	}
}

// Unpaid ends the plan of the platform's customer, or renews it.
func (p *SendingPlatform) Unpaid(ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unpaid = ended
}

// Advance moves the platform's clock.
func (p *SendingPlatform) Advance(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead += by
}

func (p *SendingPlatform) now() time.Time {
	start := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	if p.Now != nil {
		start = p.Now()
	}
	return start.Add(p.ahead)
}
