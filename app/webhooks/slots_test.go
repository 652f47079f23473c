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
// accepted message until the endpoint fails or has not answered a message for SlowAfter. A try
// takes one of the slots for unproven endpoints if its endpoint is not proven, or if the try has
// waited for SlowAfter.
func TestStandingFollowsTheAnswersOfTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(16) // unproven and failing endpoints can use 12, failing endpoints 8
		expectFreeSlots := func(situation string, standing webhook.Standing, total, unproven, failing int) {
			t.Helper()
			taken, closed := slots.take(100)
			if got := taken.Standing(webhook.Webhook{ID: "a"}); closed || taken.Total != total || taken.Unproven != unproven || taken.Failing != failing || got != standing {
				t.Errorf("%s: got the free slots %+v and the standing %d, want %d, %d and %d slots and the standing %d", situation, taken, got, total, unproven, failing, standing)
			}
			slots.release(taken)
		}
		beginTry := func(standing webhook.Standing) *startedTry {
			taken, _ := slots.take(1)
			taken.Take(standing)
			slots.release(ports.Slots{Total: taken.Total, Unproven: taken.Unproven, Failing: taken.Failing})
			return slots.beginTry("a", standing)
		}
		expectFreeSlots("at the start", webhook.Unproven, 16, 12, 8)
		unprovenTry := beginTry(webhook.Unproven)
		time.Sleep(time.Minute)
		expectFreeSlots("during the first try", webhook.Unproven, 15, 11, 8)
		slots.recordAnswer("a", unprovenTry, true)
		expectFreeSlots("after the answer, before its result is stored", webhook.Proven, 15, 11, 8)
		slots.endTry(unprovenTry)
		expectFreeSlots("after the first try", webhook.Proven, 16, 12, 8)

		earlierTry, laterTry := beginTry(webhook.Proven), beginTry(webhook.Proven)
		time.Sleep(webhook.SlowAfter - 1)
		expectFreeSlots("while two tries wait", webhook.Proven, 14, 12, 8)
		time.Sleep(1)
		expectFreeSlots("while two tries wait for too long", webhook.Unproven, 14, 10, 8)
		slots.recordAnswer("a", earlierTry, true)
		slots.endTry(earlierTry)
		expectFreeSlots("after one of the two tries", webhook.Unproven, 15, 11, 8)
		slots.recordAnswer("a", laterTry, true)
		slots.endTry(laterTry)
		expectFreeSlots("after both tries", webhook.Proven, 16, 12, 8)

		failingTry := beginTry(webhook.Failing)
		expectFreeSlots("during a try of a failing endpoint", webhook.Proven, 15, 11, 7)
		slots.recordAnswer("a", failingTry, false)
		slots.endTry(failingTry)
		expectFreeSlots("after a failed try", webhook.Unproven, 16, 12, 8)
		slots.close()
		if _, closed := slots.take(1); !closed {
			t.Error("take after close reports that the slots are not closed")
		}
	})
}
