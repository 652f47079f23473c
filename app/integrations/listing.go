// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

const (
	// maxPages is the maximum number of pages of a listing. A longer listing fails with
	// outcome.Broken.
	maxPages = 1000
	// minPageTime is the time that must remain for the next page after a wait for throttling.
	minPageTime = 5 * time.Second
)

// listing reads the platform's list of accounts and finds the account of each mailbox. It keeps
// only the accounts of mailboxes, to bound memory.
type listing struct {
	platform       ports.SendingPlatform
	indexByAddress map[string]int        // index into found, by folded address
	found          []integration.Account // the account of each mailbox, zero if it is not listed
	pages          int                   // pages read so far
	now            func() time.Time
	requestedAt    time.Time // when the newest page was requested
	// cursor is the cursor of the next page. seenCursors holds the cursors of earlier pages.
	cursor      string
	seenCursors map[string]bool
}

func newListing(mailboxes []integration.EligibleMailbox) *listing {
	l := &listing{indexByAddress: make(map[string]int, len(mailboxes)), found: make([]integration.Account, len(mailboxes)), seenCursors: map[string]bool{}}
	// The address of a mailbox can be the principal name of another mailbox. The mailbox with the
	// address then gets the index entry.
	for i, e := range mailboxes {
		l.indexAddress(e.Mailbox.PrincipalName, i)
	}
	for i, e := range mailboxes {
		l.indexAddress(e.Mailbox.Address, i)
	}
	return l
}

func (l *listing) indexAddress(address string, i int) {
	if address != "" {
		l.indexByAddress[integration.FoldAddress(address)] = i
	}
}

// readAll reads all remaining pages. It fails with outcome.Broken when the listing does not end or
// repeats a cursor.
func (l *listing) readAll(ctx context.Context) error {
	for {
		page, err := l.readPage(ctx)
		if err != nil {
			return err
		}
		l.pages++
		l.matchAccounts(page.Accounts)
		if page.Next == "" {
			return nil
		}
		if l.seenCursors[l.cursor] = true; l.seenCursors[page.Next] || l.pages == maxPages {
			return &outcome.Error{Kind: outcome.Broken, Cause: "listing_without_end", Detail: "the list of accounts does not end"}
		}
		l.cursor = page.Next
	}
}

// matchAccounts keeps the accounts that belong to mailboxes. If two accounts belong to the same
// mailbox, matchAccounts prefers a connected account.
func (l *listing) matchAccounts(accounts []integration.Account) {
	for _, a := range accounts {
		i, matches := l.indexByAddress[integration.FoldAddress(a.Address)]
		if matches && a.Exists() && l.found[i].State != integration.AccountConnected {
			l.found[i] = a
		}
	}
}

// readPage reads the page at l.cursor. If the platform throttles any page but the first, readPage
// waits and retries while the deadline allows it, because a new listing would take longer.
func (l *listing) readPage(ctx context.Context) (page integration.Page, err error) {
	retry := reconcile.Once
	if l.pages > 0 {
		retry.ThrottleReserve = minPageTime
	}
	err = reconcile.Run(ctx, retry, func(ctx context.Context) (err error) {
		l.requestedAt = l.now()
		page, err = l.platform.Accounts(ctx, l.cursor)
		return err
	}, nil)
	return page, err
}

const (
	// maxListingTime is the maximum duration of a listing that several refreshes continue. After
	// this time the first pages may be outdated.
	maxListingTime = 15 * time.Minute
	// minPause is the shortest pause before a listing is continued, even if the platform permits an
	// earlier call.
	minPause = 5 * time.Second
)

// accountRead is one read of a platform's list of accounts. Several scheduled refreshes can
// continue the same read.
type accountRead struct {
	*listing // nil before the read has started

	mailboxes []integration.EligibleMailbox
	began     time.Time
	// uncertain has the indexes of mailboxes whose account may exist although the list does not
	// contain it.
	uncertain []int
	// resumable is true if a later refresh may continue the read.
	resumable bool
	// cause is the error that interrupted the read.
	cause error
	// outOfTime is true if the last refresh read at least one page before its deadline interrupted
	// the read.
	outOfTime bool
}

// maxLateAccounts is the maximum number of accounts that readLateAccounts reads.
const maxLateAccounts = 5

// lateAccountRetry is the retry policy of readLateAccounts: at most 4 rounds of reads, with 2 s
// between them.
var lateAccountRetry = reconcile.RetryPolicy{Tries: 4, Pause: 2 * time.Second}

// errLateAccount makes readLateAccounts read the accounts again.
var errLateAccount = &outcome.Error{Kind: outcome.NotReady, Cause: "late_account", Detail: "the platform does not show a new account"}

// readLateAccounts reads each account of a recent sign-in that the complete list does not contain,
// because platforms show new accounts some seconds late. It repeats the reads for a few seconds. An
// account that the platform does not show after the last read counts as not existing. If the last
// round fails, the accounts that were not found are uncertain. Accounts beyond maxLateAccounts are
// not read and are uncertain. readLateAccounts fails only if ctx ends or the platform rejects the
// credential.
func (r *accountRead) readLateAccounts(ctx context.Context) error {
	late := r.notShown(r.recentSignIns())
	read := late[:min(len(late), maxLateAccounts)]
	err := reconcile.Run(ctx, lateAccountRetry, func(ctx context.Context) (err error) {
		for _, index := range r.notShown(read) {
			if r.found[index], err = fetchAccount(ctx, r.platform, r.mailboxes[index].Address()); err != nil {
				return err
			}
		}
		if len(r.notShown(read)) > 0 {
			return errLateAccount
		}
		return nil
	}, nil)
	if ctx.Err() != nil || isCredentialRejected(err) {
		return cmp.Or(err, ctx.Err())
	}
	if err == nil || errors.Is(err, errLateAccount) {
		late = late[len(read):]
	}
	r.uncertain = r.notShown(late)
	return nil
}

// recentSignIns returns the indexes of the mailboxes whose account the platform may show late.
func (r *accountRead) recentSignIns() (indexes []int) {
	for index, e := range r.mailboxes {
		if e.Connection.MayShowLate(r.now()) {
			indexes = append(indexes, index)
		}
	}
	return indexes
}

// notShown returns the indexes of those mailboxes whose account was not found.
func (r *accountRead) notShown(indexes []int) []int {
	return slices.DeleteFunc(slices.Clone(indexes), func(index int) bool { return r.found[index].Exists() })
}

// continueAfter reports whether a later refresh continues the read, and how long to wait before
// that refresh.
func (r *accountRead) continueAfter(now time.Time) (pause time.Duration, willContinue bool) {
	kind := outcome.KindOf(r.cause)
	interrupted := kind == outcome.Throttled || (kind == outcome.Unknown && r.outOfTime)
	if !r.resumable || r.listing == nil || r.pages == 0 || !interrupted {
		return 0, false
	}
	pause = max(outcome.RetryAfter(r.cause), minPause)
	return pause, now.Add(pause).Sub(r.began) < maxListingTime
}

// partialReads holds the interrupted reads of this process in memory. If a different process gets
// the next wake-up, that process starts a new read.
type partialReads struct {
	mu   sync.Mutex
	byID map[string]*accountRead // by integration id
}

// take removes and returns the interrupted read of an integration, or returns a new one.
func (p *partialReads) take(id string, now time.Time) *accountRead {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, found := p.byID[id]
	delete(p.byID, id)
	if !found || now.Sub(r.began) >= maxListingTime {
		return &accountRead{resumable: true}
	}
	return r
}

// keep adds an interrupted read, and drops reads that have expired.
func (p *partialReads) keep(id string, r *accountRead, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID == nil {
		p.byID = map[string]*accountRead{}
	}
	for otherID, otherRead := range p.byID {
		if now.Sub(otherRead.began) >= maxListingTime {
			delete(p.byID, otherID)
		}
	}
	p.byID[id] = r
}
