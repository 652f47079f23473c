// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

const (
	// pagesMost bounds a listing: a platform that never ends one is broken.
	pagesMost = 1000
	// pageTime is what the page after a wait may need.
	pageTime = 5 * time.Second
)

// listing joins the accounts of a platform with the mailboxes that are asked
// for. It keeps their accounts alone, however many the platform has.
type listing struct {
	at    ports.SendingPlatform
	of    map[string]int // mailboxes by folded address
	found []integration.Account
	pages int
	// cursor is where it goes on, seen are the cursors before.
	cursor string
	seen   map[string]bool
}

func newListing(all []integration.Eligible) *listing {
	l := &listing{of: make(map[string]int, len(all)), found: make([]integration.Account, len(all)), seen: map[string]bool{}}
	// A mailbox's own address comes before what another one signs in with.
	for i, e := range all {
		l.name(e.Mailbox.PrincipalName, i)
	}
	for i, e := range all {
		l.name(e.Mailbox.Address, i)
	}
	return l
}

func (l *listing) name(address string, i int) {
	if address != "" {
		l.of[integration.Fold(address)] = i
	}
}

// read reads all pages, each once, from where it broke off before. A listing that
// does not end, or runs in a circle, is broken.
func (l *listing) read(ctx context.Context) error {
	for {
		page, err := l.page(ctx, l.cursor)
		if err != nil {
			return err
		}
		l.pages++
		l.take(page.Accounts)
		if page.Next == "" {
			return nil
		}
		if l.seen[l.cursor] = true; l.seen[page.Next] || l.pages == pagesMost {
			return &outcome.Error{Kind: outcome.Broken, Cause: "listing_without_end", Detail: "the list of accounts does not end"}
		}
		l.cursor = page.Next
	}
}

// take keeps what is a mailbox's. Of two accounts with one address the one that
// works counts.
func (l *listing) take(accounts []integration.Account) {
	for _, a := range accounts {
		i, ours := l.of[integration.Fold(a.Address)]
		if ours && a.There() && l.found[i].State != integration.AccountConnected {
			l.found[i] = a
		}
	}
}

// page reads one. A platform that wants us to wait in the middle of a listing
// is waited for as long as there is time: beginning anew would take more of it.
func (l *listing) page(ctx context.Context, cursor string) (page integration.Page, err error) {
	for {
		err = settling.Call(ctx, func(ctx context.Context) error {
			page, err = l.at.Accounts(ctx, cursor)
			return err
		})
		if l.pages == 0 || outcome.Of(err) != outcome.Throttled || !wait(ctx, pause(err)) {
			return page, err
		}
	}
}

func pause(err error) time.Duration {
	var e *outcome.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.RetryAfter
}

// wait reports false when there is no time to wait, or no word of how long.
func wait(ctx context.Context, pause time.Duration) bool {
	end, bounded := ctx.Deadline()
	if pause <= 0 || !bounded || time.Until(end) < pause+pageTime {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
