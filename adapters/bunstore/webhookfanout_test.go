// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// TestFanOutAddsEachEventOnce checks that a webhook gets one delivery of each event that it wants,
// although concurrent calls fan out while events are written.
func TestFanOutAddsEachEventOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner, otherOwner := newAccount(t, s, "a"), newAccount(t, s, "b")
		emitEvents(t, s, owner, domainEvent(guid(1), "before", event.DomainAdded))
		allTypes := addWebhook(t, s, owner, nil)
		oneType := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Types = []event.Type{event.DomainRemoved} })
		oneTenant := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Tenants = []tenant.GUID{guid(2)} })
		disabled := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Status = webhook.Disabled })
		foreign := addWebhook(t, s, otherOwner, nil)
		const writers, rounds = 4, 10
		errs := concurrently(2*writers, func(i int) error {
			for n := range rounds {
				if i < writers {
					emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(i, n), event.DomainAdded), domainEvent(guid(2), fmt.Sprint(i, n), event.DomainRemoved))
					continue
				}
				if _, err := fanOutOnce(t, s, owner, 7, now); err != nil {
					return err
				}
			}
			return nil
		})
		for _, err := range errs {
			must(t, "fan out", err)
		}
		for hasMore := true; hasMore; {
			result, err := fanOutOnce(t, s, owner, 7, now)
			must(t, "fan out", err)
			hasMore = result.More
		}
		for label, tc := range map[string]struct {
			hook webhook.Webhook
			want int
		}{
			"all types": {allTypes, 2 * writers * rounds}, "one type": {oneType, writers * rounds}, "one tenant": {oneTenant, writers * rounds},
			"disabled": {disabled, 0}, "of another account": {foreign, 0},
		} {
			deliveries, eventIDs := deliveriesOf(t, s, tc.hook, ""), map[string]bool{}
			for _, d := range deliveries {
				eventIDs[d.EventID] = true
			}
			if len(deliveries) != tc.want || len(eventIDs) != tc.want {
				t.Errorf("webhook %s: %d deliveries of %d events, want %d of as many events", label, len(deliveries), len(eventIDs), tc.want)
			}
		}
		lagging, err := s.AccountsWithNewEvents(t.Context(), 10)
		must(t, "list accounts", err)
		if len(lagging) != 0 {
			t.Errorf("the accounts with unread events are %v, want none", lagging)
		}
	})
}

func TestOnlyAccountsWithUnreadEventsAreListedAndInRandomOrder(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB, accountC := newAccount(t, s, "a"), newAccount(t, s, "b"), newAccount(t, s, "c")
		for _, owner := range []access.AccountID{accountA, accountB, accountC} {
			addWebhook(t, s, owner, nil)
			addWebhook(t, s, owner, nil)
			emitEvents(t, s, owner, domainEvent(guid(1), "d", event.DomainAdded))
		}
		_, err := s.SetActive(t.Context(), accountB, false)
		must(t, "suspend", err)
		want := []access.AccountID{accountA, accountC}
		slices.Sort(want)
		got, err := s.AccountsWithNewEvents(t.Context(), 10)
		must(t, "list", err)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("accounts with unread events: %v, want %v", got, want)
		}
		firstAccounts := map[access.AccountID]bool{}
		for range 200 { // each account must come first sometimes, so that no account waits for all other accounts
			listed, err := s.AccountsWithNewEvents(t.Context(), 1)
			must(t, "list one", err)
			if len(listed) != 1 {
				t.Fatalf("a list with the limit 1 is %v, want one account", listed)
			}
			firstAccounts[listed[0]] = true
		}
		if len(firstAccounts) != 2 || firstAccounts[accountB] {
			t.Errorf("the accounts that came first are %v, want accounts a and c, because account b is suspended", firstAccounts)
		}
		if waiting := fanOut(t, s, accountA); len(waiting) != 2 {
			t.Errorf("%d webhooks are waiting, want 2", len(waiting))
		}
		if got, err := s.AccountsWithNewEvents(t.Context(), 10); err != nil || !slices.Equal(got, []access.AccountID{accountC}) {
			t.Errorf("accounts with unread events: %v, %v, want only %s", got, err, accountC)
		}
	})
}

// TestAReplayDelaysNoOtherWebhook checks that one fan-out reads both the old events for a replay
// and the new events for the account's other webhooks.
func TestAReplayDelaysNoOtherWebhook(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		replayed, upToDate := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		for n := range 8 {
			emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(n), event.DomainAdded))
		}
		fanOut(t, s, owner)
		must(t, "replay", s.Replay(t.Context(), owner, replayed.ID, ports.ReplayFrom{Sequence: 0}))
		emitEvents(t, s, owner, domainEvent(guid(1), "new", event.DomainAdded))
		result, err := fanOutOnce(t, s, owner, 3, now)
		must(t, "fan out", err)
		if replayedCount, upToDateCount := len(deliveriesOf(t, s, replayed, "")), len(deliveriesOf(t, s, upToDate, "")); replayedCount != 8+3 || upToDateCount != 9 || !result.More {
			t.Errorf("the replayed webhook has %d deliveries, want 11, and the up-to-date webhook has %d, want 9; more is %v, want true", replayedCount, upToDateCount, result.More)
		}
		for hasMore := true; hasMore; {
			result, err := fanOutOnce(t, s, owner, 3, now)
			must(t, "fan out", err)
			hasMore = result.More
		}
		if replayedCount, upToDateCount := len(deliveriesOf(t, s, replayed, "")), len(deliveriesOf(t, s, upToDate, "")); replayedCount != 8+9 || upToDateCount != 9 {
			t.Errorf("in the end the replayed webhook has %d deliveries, want 17, and the up-to-date webhook has %d, want 9", replayedCount, upToDateCount)
		}
	})
}

// TestFanOutClaimsWhatItAdds checks how many deliveries a fan-out claims: as many as there are
// slots, but at most MaxConcurrent at once for a working webhook, and one for a failing webhook.
func TestFanOutClaimsWhatItAdds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB := newAccount(t, s, "a"), newAccount(t, s, "b")
		working, failing := addWebhook(t, s, accountA, nil), addWebhook(t, s, accountB, func(hook *webhook.Webhook) { hook.FailingSince = now })
		emitToBoth := func(n int) {
			for i := range n {
				for _, owner := range []access.AccountID{accountA, accountB} {
					emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(i), event.DomainAdded))
				}
			}
		}
		fanOutBoth := func(slots ports.Slots) (claims map[string]int, waiting []ports.DueWebhook) {
			t.Helper()
			result, err := s.FanOut(t.Context(), []access.AccountID{accountA, accountB}, 100, slots, testLease, now)
			must(t, "fan out", err)
			claims = map[string]int{}
			for _, d := range result.Claimed {
				claims[d.WebhookID]++
				if (d.Standing == webhook.Proven) != (d.WebhookID == working.ID) || d.Event == nil || d.Event.ID != d.EventID || d.Webhook.ID != d.WebhookID || d.Webhook.Account != d.Event.Account {
					t.Errorf("claimed %+v, want it with its own webhook, event and standing", d)
				}
				if claims[d.WebhookID] == 1 && !saveTry(t, s, d.Webhook, d.Delivery, 200, now) {
					t.Error("the result of a claim is not stored")
				}
			}
			return claims, result.Waiting
		}
		emitToBoth(6)
		claims, waiting := fanOutBoth(slotsOf(3, 0))
		if claims[working.ID] != 3 || claims[failing.ID] != 0 || len(waiting) != 2 {
			t.Errorf("with three slots for proven webhooks: claims %v, want 3 of the working webhook; waiting %v, want both webhooks", claims, waiting)
		}
		emitToBoth(6)
		claims, waiting = fanOutBoth(manySlots)
		// The try in progress of the working webhook may not see the new deliveries when it ends.
		if claims[working.ID] != 2 || claims[failing.ID] != 1 || !slices.Equal(waiting, []ports.DueWebhook{dueWebhook(working)}) {
			t.Errorf("with many slots: claims %v, want 2 of the working and 1 of the failing webhook; waiting %v, want the working webhook", claims, waiting)
		}
		if n := len(claimDeliveries(t, s, working, now)); n != 1 {
			t.Errorf("after one try finished, %d deliveries were claimed, want 1", n)
		}
		if n := len(deliveriesOf(t, s, working, webhook.Pending)); n != 10 {
			t.Errorf("%d deliveries are pending, want 10", n)
		}
	})
}
