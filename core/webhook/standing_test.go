// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/webhook"
)

func TestStandingOfEndpoints(t *testing.T) {
	failing := webhook.Webhook{FailingSince: now}
	for _, c := range []struct {
		name    string
		w       webhook.Webhook
		conduct webhook.Conduct
		want    webhook.Standing
		atOnce  int
	}{
		{"nothing is known", webhook.Webhook{}, webhook.Conduct{}, webhook.Unproven, 1},
		{"nothing is known, and a try is in progress", webhook.Webhook{}, webhook.Conduct{Waiting: time.Second}, webhook.Unproven, 1},
		{"accepted", webhook.Webhook{}, webhook.Conduct{Accepted: true}, webhook.Proven, 4},
		{"accepted, and a try has just begun", webhook.Webhook{}, webhook.Conduct{Accepted: true, Waiting: webhook.SlowAfter - 1}, webhook.Proven, 4},
		{"accepted, and a try waits for long", webhook.Webhook{}, webhook.Conduct{Accepted: true, Waiting: webhook.SlowAfter}, webhook.Unproven, 1},
		{"failing", failing, webhook.Conduct{}, webhook.Failing, 1},
		{"failing elsewhere", failing, webhook.Conduct{Accepted: true}, webhook.Failing, 1},
	} {
		if got := c.w.Standing(c.conduct); got != c.want || got.MaxParallel() != c.atOnce {
			t.Errorf("%s: standing %d with %d at once, want %d with %d", c.name, got, got.MaxParallel(), c.want, c.atOnce)
		}
	}
}

func TestShareOfSlots(t *testing.T) {
	for _, c := range []struct{ slots, failing, unproven, proven int }{{1024, 512, 768, 1024}, {8, 4, 6, 8}, {0, 0, 0, 0}} {
		if a, b, all := webhook.Failing.SlotShare(c.slots), webhook.Unproven.SlotShare(c.slots), webhook.Proven.SlotShare(c.slots); a != c.failing || b != c.unproven || all != c.proven {
			t.Errorf("of %d slots: %d, %d, %d", c.slots, a, b, all)
		}
	}
}
