// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// mostBefore is how many jobs of a flood may begin between the first wake-up of
// another account and its handler: as many as the workers begin in 5 s.
const mostBefore = QueueAtOnce * int(5*time.Second/QueueDeadline)

func flood(t testing.TB, q ports.Queue, account access.AccountID, n int) {
	t.Helper()
	all := make([]ports.Wakeup, n)
	for i := range all {
		all[i] = ports.Wakeup{Kind: "flood", ID: fmt.Sprintf("%s-%d", account, i), Account: account}
	}
	wake(t, q, all...)
}

// floods are jobs whose handlers take all the time that they have.
type floods struct {
	begun chan access.AccountID
	count atomic.Int64
}

func (f *floods) handle(ctx context.Context, w ports.Wakeup) error {
	f.count.Add(1)
	select {
	case f.begun <- w.Account:
	default: // the check has seen enough
	}
	<-ctx.Done()
	return nil
}

// flooded starts a worker and waits until a handler of each flood has begun.
func flooded(t testing.TB, open func() ports.Worker, accounts, each int) (ports.Worker, *ear, *floods) {
	t.Helper()
	w, e, f := open(), newEar(), &floods{begun: make(chan access.AccountID, accounts*each)}
	for i := range accounts {
		flood(t, w, access.AccountID(fmt.Sprintf("ann-%d", i)), each)
	}
	start(t, w, map[string]ports.Handler{"job": e.hear, "flood": f.handle})
	for seen := map[access.AccountID]bool{}; len(seen) < accounts; {
		seen[within(t, soon, f.begun, "a handler of each flood")] = true
	}
	return w, e, f
}

// firstOf wakes a job of an account, which must not wait for those of the floods.
func firstOf(t testing.TB, w ports.Worker, e *ear, f *floods, account access.AccountID) {
	t.Helper()
	before := f.count.Load()
	wake(t, w, ports.Wakeup{Kind: "job", ID: string(account), Account: account})
	e.id(t, string(account))
	if n := f.count.Load() - before; n > int64(mostBefore) {
		t.Fatalf("the job of %q began after %d jobs of other accounts, want at most %d", account, n, mostBefore)
	}
}

var queueShares = []queueCheck{
	{"10,000 jobs of an account delay another's first by at most 5 s", func(t testing.TB, open func() ports.Worker) {
		w, e, f := flooded(t, open, 1, 10_000)
		for _, account := range []access.AccountID{"bob", "cem", "bob", ""} {
			firstOf(t, w, e, f, account)
		}
	}},
	{"so do an account's own that stand apart, and they are told as theirs", func(t testing.TB, open func() ports.Worker) {
		w, e, f := open(), newEar(), &floods{begun: make(chan access.AccountID, 2000)}
		var all []ports.Wakeup
		for i := range 2000 {
			all = append(all, ports.Wakeup{Kind: "flood", ID: fmt.Sprint(i), Account: "ann", Apart: true})
		}
		wake(t, w, all...)
		start(t, w, map[string]ports.Handler{"job": e.hear, "flood": f.handle})
		if account := within(t, soon, f.begun, "one that stands apart"); account != "ann" {
			t.Fatalf("it is told as %q's", account)
		}
		firstOf(t, w, e, f, "ann")
	}},
	{"so do those of several accounts", func(t testing.TB, open func() ports.Worker) {
		w, e, f := flooded(t, open, 5, 500)
		firstOf(t, w, e, f, "bob")
	}},
	{"an account that is alone has half of the workers", func(t testing.TB, open func() ports.Worker) {
		w := open()
		begun, release := make(chan string, 100), make(chan bool)
		defer close(release)
		flood(t, w, "ann", 100)
		start(t, w, map[string]ports.Handler{"flood": func(_ context.Context, w ports.Wakeup) error {
			begun <- w.ID
			<-release
			return nil
		}})
		for seen := map[string]bool{}; len(seen) < QueueAtOnce/2; {
			seen[within(t, soon, begun, "one handler more")] = true
		}
	}},
}
