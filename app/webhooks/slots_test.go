// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// TestSlotsFollowTheConduct checks that an endpoint is proven from its first accepted message until
// it fails or does not answer a message. Its slots then count with the slots of the other endpoints
// that are not proven.
func TestSlotsFollowTheConduct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(16)
		expect := func(when string, want webhook.Standing, all, unproven, failing int) {
			t.Helper()
			taken, closed := s.take(100)
			if closed || taken.All != all || taken.Unproven != unproven || taken.Failing != failing || taken.Standing(webhook.Webhook{ID: "a"}) != want {
				t.Errorf("%s: %+v, standing %d", when, taken, taken.Standing(webhook.Webhook{ID: "a"}))
			}
			s.release(taken)
		}
		try := func(standing webhook.Standing) *startedTry {
			taken, _ := s.take(1)
			taken.Take(standing)
			s.release(ports.Slots{All: taken.All, Unproven: taken.Unproven, Failing: taken.Failing})
			return s.beginTry("a", standing)
		}
		expect("at the start", webhook.Unproven, 16, 12, 8)
		first := try(webhook.Unproven)
		time.Sleep(time.Minute)
		expect("during the first try", webhook.Unproven, 15, 11, 8)
		s.recordAnswer("a", first, true)
		expect("before its result is stored", webhook.Proven, 15, 11, 8)
		s.endTry(first)
		expect("after it", webhook.Proven, 16, 12, 8)

		one, two := try(webhook.Proven), try(webhook.Proven)
		time.Sleep(webhook.SlowAfter - 1)
		expect("while two tries wait", webhook.Proven, 14, 12, 8)
		time.Sleep(1)
		expect("while they wait for too long", webhook.Unproven, 14, 10, 8)
		s.recordAnswer("a", one, true)
		s.endTry(one)
		expect("after one of them", webhook.Unproven, 15, 11, 8)
		s.recordAnswer("a", two, true)
		s.endTry(two)
		expect("after both", webhook.Proven, 16, 12, 8)

		last := try(webhook.Failing)
		expect("during a try of a failing one", webhook.Proven, 15, 11, 7)
		s.recordAnswer("a", last, false)
		s.endTry(last)
		expect("after a failed try", webhook.Unproven, 16, 12, 8)
		s.close()
		if _, closed := s.take(1); !closed {
			t.Error("a slot is taken after the end")
		}
	})
}
