// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// TestStandingFollowsTheAnswersOfTheEndpoint checks that an endpoint is proven from its first
// accepted message until it fails or does not answer a message for SlowAfter. An endpoint that is
// not proven takes one of the slots for unproven endpoints.
func TestStandingFollowsTheAnswersOfTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(16)
		expectSlots := func(situation string, want webhook.Standing, all, unproven, failing int) {
			t.Helper()
			taken, closed := slots.take(100)
			if closed || taken.Total != all || taken.Unproven != unproven || taken.Failing != failing || taken.Standing(webhook.Webhook{ID: "a"}) != want {
				t.Errorf("%s: %+v, standing %d", situation, taken, taken.Standing(webhook.Webhook{ID: "a"}))
			}
			slots.release(taken)
		}
		beginTry := func(standing webhook.Standing) *startedTry {
			taken, _ := slots.take(1)
			taken.Take(standing)
			slots.release(ports.Slots{Total: taken.Total, Unproven: taken.Unproven, Failing: taken.Failing})
			return slots.beginTry("a", standing)
		}
		expectSlots("at the start", webhook.Unproven, 16, 12, 8)
		first := beginTry(webhook.Unproven)
		time.Sleep(time.Minute)
		expectSlots("during the first try", webhook.Unproven, 15, 11, 8)
		slots.recordAnswer("a", first, true)
		expectSlots("after the answer, before its result is stored", webhook.Proven, 15, 11, 8)
		slots.endTry(first)
		expectSlots("after the first try", webhook.Proven, 16, 12, 8)

		second, third := beginTry(webhook.Proven), beginTry(webhook.Proven)
		time.Sleep(webhook.SlowAfter - 1)
		expectSlots("while two tries wait", webhook.Proven, 14, 12, 8)
		time.Sleep(1)
		expectSlots("while two tries wait for too long", webhook.Unproven, 14, 10, 8)
		slots.recordAnswer("a", second, true)
		slots.endTry(second)
		expectSlots("after one of the two tries", webhook.Unproven, 15, 11, 8)
		slots.recordAnswer("a", third, true)
		slots.endTry(third)
		expectSlots("after both tries", webhook.Proven, 16, 12, 8)

		last := beginTry(webhook.Failing)
		expectSlots("during a try of a failing endpoint", webhook.Proven, 15, 11, 7)
		slots.recordAnswer("a", last, false)
		slots.endTry(last)
		expectSlots("after a failed try", webhook.Unproven, 16, 12, 8)
		slots.close()
		if _, closed := slots.take(1); !closed {
			t.Error("take succeeds after close")
		}
	})
}
