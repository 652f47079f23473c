// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/ports"
)

func backlogOf(t testing.TB, w ports.Worker) []ports.Backlog {
	t.Helper()
	all, err := w.Backlog(t.Context())
	if err != nil {
		t.Fatalf("backlog: %v", err)
	}
	return all
}

var queueBacklogs = []queueCheck{
	{"what waits is counted by kind, with the time that it is late", func(t testing.TB, open func() ports.Worker) {
		w := open()
		if all := backlogOf(t, w); len(all) != 0 {
			t.Fatalf("an empty queue holds %+v", all)
		}
		hour := time.Now().Add(time.Hour)
		wake(t, w,
			ports.Wakeup{Kind: "late", ID: "1", At: time.Now().Add(-time.Hour)}, ports.Wakeup{Kind: "late", ID: "2", At: time.Now().Add(-time.Minute)},
			ports.Wakeup{Kind: "early", ID: "1", At: hour}, ports.Wakeup{Kind: "early", ID: "2", Account: "ann", At: hour}, ports.Wakeup{Kind: "early", ID: "3", At: hour},
			ports.Wakeup{Kind: "now", ID: "1"})
		all := backlogOf(t, w)
		if len(all) != 3 || all[0].Kind != "early" || all[1].Kind != "late" || all[2].Kind != "now" {
			t.Fatalf("counted %+v", all)
		}
		if all[0].Waiting != 3 || all[0].Late != 0 {
			t.Fatalf("three that are early: %+v", all[0])
		}
		if late := all[1].Late - time.Hour; all[1].Waiting != 2 || late < -time.Second || late > time.Minute {
			t.Fatalf("two that are late: %+v", all[1])
		}
		if all[2].Waiting != 1 || all[2].Late < 0 || all[2].Late > time.Minute {
			t.Fatalf("one that is due: %+v", all[2])
		}
	}},
	{"what a handler has taken does not wait", func(t testing.TB, open func() ports.Worker) {
		w := open()
		begun, release := make(chan bool, 10), make(chan bool)
		defer close(release)
		start(t, w, map[string]ports.Handler{"job": func(ctx context.Context, _ ports.Wakeup) error {
			begun <- true
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		}})
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		within(t, soon, begun, "the handler")
		if all := backlogOf(t, w); len(all) != 0 {
			t.Fatalf("while it runs there waits %+v", all)
		}
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1", At: time.Now().Add(time.Hour)})
		if all := backlogOf(t, w); len(all) != 1 || all[0].Waiting != 1 {
			t.Fatalf("the next wake-up of the job: %+v, want one that waits", all)
		}
	}},
}
