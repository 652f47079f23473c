// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// mostDelay is what a flood may cost the first job of another account.
const mostDelay = 5 * time.Second

func flood(t testing.TB, q ports.Queue, account access.AccountID, n int) {
	t.Helper()
	all := make([]ports.Wakeup, n)
	for i := range all {
		all[i] = ports.Wakeup{Kind: "flood", ID: fmt.Sprintf("%s-%d", account, i), Account: account}
	}
	wake(t, q, all...)
}

// flooded starts a worker whose handlers of floods take all the time they
// have, and waits until they have what they can get.
func flooded(t testing.TB, open func() ports.Worker, accounts, each int) (ports.Worker, *ear) {
	t.Helper()
	w, e := open(), newEar()
	begun := make(chan access.AccountID, accounts*each)
	for i := range accounts {
		flood(t, w, access.AccountID(fmt.Sprintf("ann-%d", i)), each)
	}
	start(t, w, map[string]ports.Handler{"job": e.hear, "flood": func(ctx context.Context, w ports.Wakeup) error {
		begun <- w.Account
		<-ctx.Done()
		return nil
	}})
	all := make(chan bool, 1)
	go func() {
		for seen := map[access.AccountID]bool{}; len(seen) < accounts; {
			seen[<-begun] = true
		}
		all <- true
	}()
	within(t, soon, all, "a handler of each flood")
	return w, e
}

func firstOf(t testing.TB, w ports.Worker, e *ear, account access.AccountID) {
	t.Helper()
	asked := time.Now()
	wake(t, w, ports.Wakeup{Kind: "job", ID: string(account), Account: account})
	e.id(t, string(account))
	if took := time.Since(asked); took > mostDelay {
		t.Fatalf("%s waited for %s", account, took)
	}
}

var queueShares = []queueCheck{
	{"10,000 jobs of an account delay another's first by at most 5 s", func(t testing.TB, open func() ports.Worker) {
		w, e := flooded(t, open, 1, 10_000)
		for _, account := range []access.AccountID{"bob", "cem", "bob", ""} {
			firstOf(t, w, e, account)
		}
	}},
	{"so do an account's own that stand apart, and they are told as theirs", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		begun := make(chan access.AccountID, 2000)
		var all []ports.Wakeup
		for i := range 2000 {
			all = append(all, ports.Wakeup{Kind: "flood", ID: fmt.Sprint(i), Account: "ann", Apart: true})
		}
		wake(t, w, all...)
		start(t, w, map[string]ports.Handler{"job": e.hear, "flood": func(ctx context.Context, w ports.Wakeup) error {
			begun <- w.Account
			<-ctx.Done()
			return nil
		}})
		if account := within(t, soon, begun, "one that stands apart"); account != "ann" {
			t.Fatalf("it is told as %q's", account)
		}
		firstOf(t, w, e, "ann")
	}},
	{"so do those of several accounts", func(t testing.TB, open func() ports.Worker) {
		w, e := flooded(t, open, 5, 500)
		firstOf(t, w, e, "bob")
	}},
	{"an account that is alone has half of the workers", func(t testing.TB, open func() ports.Worker) {
		w := open()
		begun, release := make(chan bool, 100), make(chan bool)
		defer close(release)
		flood(t, w, "ann", 100)
		start(t, w, map[string]ports.Handler{"flood": func(ctx context.Context, _ ports.Wakeup) error {
			begun <- true
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		}})
		for range QueueAtOnce / 2 {
			within(t, QueueDeadline*3/4, begun, "one handler more")
		}
	}},
}
