// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

// manyAccounts is a platform with many accounts. It creates each page of them on request.
type manyAccounts struct {
	ports.SendingPlatform

	calls int
	last  func()
}

const vastAccounts = 4000

func (v *manyAccounts) Accounts(_ context.Context, cursor string) (integration.Page, error) {
	v.calls++
	from, _ := strconv.Atoi(cursor)
	var page integration.Page
	for n := from; n < from+100; n++ {
		page.Accounts = append(page.Accounts, integration.Account{
			ID: strconv.Itoa(n), Address: fmt.Sprintf("Mailbox-%d@Example.test", n), State: integration.AccountConnected})
	}
	if from+100 < vastAccounts {
		page.Next = strconv.Itoa(from + 100)
	} else {
		v.last()
	}
	return page, nil
}

// manyMailboxes is a store with 3,600 eligible mailboxes.
type manyMailboxes struct {
	ports.Connections

	all    []integration.EligibleMailbox
	stored int
}

func (s *manyMailboxes) Eligible(context.Context, access.AccountID, string) ([]integration.EligibleMailbox, error) {
	return s.all, nil
}

func (s *manyMailboxes) SaveRefresh(_ context.Context, _ access.AccountID, _ integration.Integration, _ time.Time, all []integration.Connection, _ *ports.Completion) (int, error) {
	s.stored += len(all)
	return len(all), nil
}

// TestRefreshOfManyIsFlat checks that a refresh of 3,600 mailboxes reads 40 pages and keeps little
// memory.
func TestRefreshOfManyIsFlat(t *testing.T) {
	fx := newFixture(t)
	id := fx.integrate(t, "instantly")
	store := &manyMailboxes{}
	for n := range 3600 {
		store.all = append(store.all, integration.EligibleMailbox{Mailbox: mailbox.Mailbox{ID: strconv.Itoa(n), Address: fmt.Sprintf("mailbox-%d@example.test", n)}})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	at := &manyAccounts{last: func() {
		runtime.GC()
		runtime.ReadMemStats(&after)
	}}
	fx.platforms.AddWorkspace("instantly", "key", "ws-1", at)
	r, err := fx.service(fx.store, store, fx.platforms).Refresh(t.Context(), fx.acc.ID, id, nil)
	must(t, err)
	if r.Checked != 3600 || r.NewlyConnected != 3600 || store.stored != 3600 || at.calls != 40 {
		t.Errorf("%+v with %d calls, stored %d", r, at.calls, store.stored)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the join takes %d KiB", grown>>10)
	}
}
