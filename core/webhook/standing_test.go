// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/webhook"
)

func TestStandingDependsOnEarlierAndCurrentTries(t *testing.T) {
	failing := webhook.Webhook{FailingSince: now}
	for _, tc := range []struct {
		name           string
		endpoint       webhook.Webhook
		responsiveness webhook.Responsiveness
		want           webhook.Standing
		wantConcurrent int
	}{
		{"nothing is known", webhook.Webhook{}, webhook.Responsiveness{}, webhook.Unproven, 1},
		{"nothing is known, and a try is in progress", webhook.Webhook{}, webhook.Responsiveness{OldestTry: time.Second}, webhook.Unproven, 1},
		{"the last message was accepted", webhook.Webhook{}, webhook.Responsiveness{Accepted: true}, webhook.Proven, 4},
		{"the last message was accepted, and a try has just begun", webhook.Webhook{}, webhook.Responsiveness{Accepted: true, OldestTry: webhook.SlowAfter - 1}, webhook.Proven, 4},
		{"the last message was accepted, and a try waits for long", webhook.Webhook{}, webhook.Responsiveness{Accepted: true, OldestTry: webhook.SlowAfter}, webhook.Unproven, 1},
		{"failing", failing, webhook.Responsiveness{}, webhook.Failing, 1},
		{"failing, although the last try succeeded", failing, webhook.Responsiveness{Accepted: true}, webhook.Failing, 1},
	} {
		if got := tc.endpoint.Standing(tc.responsiveness); got != tc.want || got.MaxParallel() != tc.wantConcurrent {
			t.Errorf("%s: got the standing %d with %d tries at once, want %d with %d", tc.name, got, got.MaxParallel(), tc.want, tc.wantConcurrent)
		}
	}
}

func TestStandingLimitsTheShareOfSlots(t *testing.T) {
	for _, tc := range []struct{ slots, failing, unproven, proven int }{{1024, 512, 768, 1024}, {8, 4, 6, 8}, {0, 0, 0, 0}} {
		if failing, unproven, proven := webhook.Failing.MaxSlots(tc.slots), webhook.Unproven.MaxSlots(tc.slots), webhook.Proven.MaxSlots(tc.slots); failing != tc.failing || unproven != tc.unproven || proven != tc.proven {
			t.Errorf("of %d slots: got %d, %d, %d; want %d, %d, %d", tc.slots, failing, unproven, proven, tc.failing, tc.unproven, tc.proven)
		}
	}
}
