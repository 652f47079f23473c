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

// manyAccounts is a platform with accountCount accounts. It creates each page on request, so that
// only the refresh can keep accounts in memory. It calls atLastPage before it returns the last
// page.
type manyAccounts struct {
	ports.SendingPlatform

	calls      int
	atLastPage func()
}

const (
	accountCount = 4000
	pageSize     = 100
	mailboxCount = 3600 // mailboxes whose accounts the platform has
)

func (p *manyAccounts) Accounts(_ context.Context, cursor string) (integration.Page, error) {
	p.calls++
	from, _ := strconv.Atoi(cursor)
	var page integration.Page
	for n := from; n < from+pageSize; n++ {
		page.Accounts = append(page.Accounts, integration.Account{
			ID: strconv.Itoa(n), Address: fmt.Sprintf("Mailbox-%d@Example.test", n), State: integration.AccountConnected})
	}
	if from+pageSize < accountCount {
		page.Next = strconv.Itoa(from + pageSize)
	} else {
		p.atLastPage()
	}
	return page, nil
}

// manyMailboxes is a store with the mailboxes in eligible. It counts the connections that refreshes
// store.
type manyMailboxes struct {
	ports.Connections

	eligible    []integration.EligibleMailbox
	storedCount int
}

func (s *manyMailboxes) Eligible(context.Context, access.AccountID, string) ([]integration.EligibleMailbox, error) {
	return s.eligible, nil
}

func (s *manyMailboxes) SaveRefresh(_ context.Context, _ access.AccountID, _ integration.Integration, _ time.Time, connections []integration.Connection, _ *ports.StoredAnswer) (int, error) {
	s.storedCount += len(connections)
	return len(connections), nil
}

// TestRefreshOfManyMailboxesKeepsLittleMemory checks that a refresh of many mailboxes reads each
// page once and keeps at most 4 MiB.
func TestRefreshOfManyMailboxesKeepsLittleMemory(t *testing.T) {
	fx := newFixture(t)
	id := fx.createIntegration(t, "instantly")
	store := &manyMailboxes{}
	for n := range mailboxCount {
		store.eligible = append(store.eligible, integration.EligibleMailbox{Mailbox: mailbox.Mailbox{ID: strconv.Itoa(n), Address: fmt.Sprintf("mailbox-%d@example.test", n)}})
	}
	var memoryBefore, memoryAfter runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memoryBefore)
	platform := &manyAccounts{atLastPage: func() {
		runtime.GC()
		runtime.ReadMemStats(&memoryAfter)
	}}
	fx.platforms.AddWorkspace("instantly", "key", "ws-1", platform)
	result, err := fx.service(fx.store, store, fx.platforms).Refresh(t.Context(), fx.ann.ID, id, nil)
	must(t, err)
	if result.Checked != mailboxCount || result.NewlyConnected != mailboxCount || store.storedCount != mailboxCount || platform.calls != accountCount/pageSize {
		t.Errorf("got %+v with %d calls, stored %d; want %d new connections with %d calls", result, platform.calls, store.storedCount, mailboxCount, accountCount/pageSize)
	}
	if growth := int64(memoryAfter.HeapAlloc) - int64(memoryBefore.HeapAlloc); growth > 4<<20 {
		t.Errorf("the refresh keeps %d KiB, want at most 4096", growth>>10)
	}
}
